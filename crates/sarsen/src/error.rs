//! The one error type of the program.
//!
//! Policy: a message is one line for the user of the terminal: what was wrong, then what to do. Several wrong fields are a
//! list with a line each. No message has a token, a
//! password, a key or the URL of a database with its password. An error that other arguments or settings can mend exits
//! with 2, every other one with 1.

use crate::config::LogFormat;
use crate::logs;
use server::StoreError;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A wrong argument or setting.
    #[error("{0}")]
    Usage(String),
    /// Something failed; the text says what, and what to do.
    #[error("{0}")]
    Failed(String),
    /// An error of the operating system.
    #[error("{what}: {source}{}", advice(.source))]
    Io {
        /// What was tried.
        what: String,
        /// Its error.
        source: io::Error,
    },
    /// An error answer of a server, with its own text.
    #[error("{detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The stable code of the problem.
        code: String,
        /// The text.
        detail: String,
    },
    /// The same as a line of a log of this format.
    #[error("{error}")]
    Logged {
        /// The format.
        format: LogFormat,
        /// The error.
        error: Box<Error>,
    },
    /// The command has printed what is wrong.
    #[error("something failed")]
    AlreadyReported,
    /// The program that the command has started ended with this exit code, and has said why.
    #[error("the program ended with {0}")]
    Ended(u8),
}

/// What to do about an error of the operating system.
fn advice(error: &io::Error) -> &'static str {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::PermissionDenied => "; run the command as the user who owns it, or as root",
        ErrorKind::StorageFull => "; free some space",
        ErrorKind::IsADirectory => "; it is a folder, name a file",
        ErrorKind::NotFound => "; check the name",
        ErrorKind::ReadOnlyFilesystem => "; use a folder that can be written to",
        _ => "",
    }
}

impl Error {
    /// A wrong argument or setting.
    pub fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }

    /// Something failed.
    pub fn failed(text: impl Into<String>) -> Error {
        Error::Failed(text.into())
    }

    /// For `map_err`: the server did not do this with its database. Another key or another database, or the newer program,
    /// mends some of it.
    pub fn domain(what: &'static str) -> impl Fn(server::Error) -> Error {
        move |error| {
            let text = format!("{what}: {error}");
            match error {
                server::Error::Invalid { field: "secret_key" | "database", .. }
                | server::Error::Store(StoreError::NewerSchema { .. }) => Error::Usage(text),
                _ => Error::Failed(text),
            }
        }
    }

    /// The same error, which says what it is about.
    pub fn about(self, what: &str) -> Error {
        let text = format!("{what}: {self}");
        match self {
            Error::Usage(_) => Error::Usage(text),
            _ => Error::Failed(text),
        }
    }

    /// For `map_err`: the operating system did not `verb` the file at `path`.
    pub fn file(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let what = format!("cannot {verb} {}", path.display());
        move |source| Error::Io { what, source }
    }

    /// For `map_err`: an error of the operating system.
    pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { what: what.to_owned(), source }
    }

    /// The same error of a server whose log has this format.
    pub fn in_log(self, format: LogFormat) -> Error {
        Error::Logged { format, error: Box::new(self) }
    }

    /// Prints the message on stderr.
    pub fn print(&self) {
        match self {
            Error::AlreadyReported | Error::Ended(_) => {}
            Error::Logged { format, error } if !matches!(**error, Error::AlreadyReported) => {
                logs::write_last(*format, &error.to_string());
            }
            Error::Logged { .. } => {}
            _ => logs::write_last(LogFormat::Text, &self.to_string()),
        }
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Error::Logged { error, .. } => error.exit_code(),
            Error::Usage(_) => ExitCode::from(2),
            Error::Ended(code) => ExitCode::from(*code),
            _ => ExitCode::from(1),
        }
    }
}
