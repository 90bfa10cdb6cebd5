//! The one error type of the load generator.
//!
//! Policy: every message is for the person at the terminal. It says what was tried, what came back and, where we
//! know, what to do. Requests that fail *under load* are not errors but results: see [`crate::measure::Cause`].
//! No message holds a token, a password or a code.

use std::io;

/// Why a benchmark could not be set up, run or written down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flags do not fit together, or this machine cannot do what they ask.
    #[error("{0}")]
    Usage(String),
    /// The workload starts programs of `sarsen-bench-tools`, and there is no such program beside this one.
    #[error("this needs sarsen-bench-tools; build it with `cargo build --release -p bench-tools`")]
    ToolsMissing,
    /// A server under test did not come up.
    #[error("{server} did not start: {detail}")]
    Start { server: String, detail: String },
    /// A program that the bench had started ended too early, or not as it should.
    #[error("{server}: {detail}")]
    Ended { server: String, detail: String },
    /// What was measured breaks a promise.
    #[error("{0}")]
    Broken(String),
    /// Something on this machine refused: a file, a socket, a limit.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    /// The server answered a set-up request in a way that the bench cannot work with.
    #[error("set-up failed at {step}: {detail}")]
    SetUp { step: String, detail: String },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    pub(crate) fn set_up(step: impl Into<String>, detail: impl Into<String>) -> Error {
        Error::SetUp { step: step.into(), detail: detail.into() }
    }
}
