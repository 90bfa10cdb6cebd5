//! The one error type of the load generator.
//!
//! Policy: a message is for the user of the terminal: what was wrong, then what to do. Requests that fail *under load* are
//! results and not errors: see [`crate::measure::Cause`]. No message has a token, a password or a code.

use std::io;

/// Why a benchmark failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flags are wrong, or not possible on this machine.
    #[error("{0}")]
    Usage(String),
    /// The workload needs `sarsen-bench-tools`, which is missing.
    #[error("this needs sarsen-bench-tools; build it with `cargo build --release -p sarsen-bench-tools`")]
    ToolsMissing,
    /// A server under test did not start.
    #[error("{server} did not start: {detail}")]
    Start { server: String, detail: String },
    /// A program of the run ended early, or with an error.
    #[error("{server}: {detail}")]
    Ended { server: String, detail: String },
    /// The result breaks a promise.
    #[error("{0}")]
    Broken(String),
    /// An error of the operating system.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    /// The server answered a request of the set-up in an unexpected way.
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
