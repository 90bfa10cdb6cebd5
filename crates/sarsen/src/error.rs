//! The one error type of the program.
//!
//! Policy: a message is for the person at the terminal, on one line: what was tried, what came back, what to
//! do. No message holds a token, a password, a key or the URL of a database with its password. What the
//! person can mend by other arguments or settings exits with 2, everything else with 1.

use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A wrong argument or setting: the person's to mend.
    #[error("{0}")]
    Usage(String),
    /// Something could not be done; the text says what and what helps.
    #[error("{0}")]
    Failed(String),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A server refused; its own words.
    #[error("{detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The stable code of the problem.
        code: String,
        /// What the server says.
        detail: String,
    },
    /// The command has said on stdout already what is wrong.
    #[error("something failed")]
    AlreadyReported,
    /// The load generator's own.
    #[error(transparent)]
    Bench(#[from] bench::Error),
}

impl Error {
    /// A wrong argument or setting.
    pub fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }

    /// Something could not be done.
    pub fn failed(text: impl Into<String>) -> Error {
        Error::Failed(text.into())
    }

    /// For `map_err`: the operating system refused to `verb` the file at `path`.
    pub fn file(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let what = format!("cannot {verb} {}", path.display());
        move |source| Error::Io { what, source }
    }

    /// For `map_err`: the operating system refused.
    pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { what: what.to_owned(), source }
    }

    /// Says it on stderr.
    pub fn print(&self) {
        if !matches!(self, Error::AlreadyReported) {
            eprintln!("sarsen: {self}");
        }
    }

    /// What the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Error::Usage(_) | Error::Bench(bench::Error::Usage(_)) => ExitCode::from(2),
            _ => ExitCode::from(1),
        }
    }
}
