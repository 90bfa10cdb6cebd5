//! The error type of the domain.
//!
//! Policy: the caller can fix every variant except `Store` and `Internal`, and may show it unchanged: the message names
//! the field and the problem, then the fix. The caller maps `Store` to a temporary or a permanent failure. `Internal`
//! is a defect or a damaged database; it goes to the log only.

/// Why a field is wrong, without a sentence: pages make their own, in the language of the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A stable snake_case code for pages. It can be more precise than the code in the API.
    pub code: &'static str,
    /// What the rule is made of, such as `length_max`.
    pub values: Vec<(&'static str, String)>,
}

/// The error of every operation of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object does not exist, or the caller may not see it. Both cases look the same.
    #[error("{what} not found")]
    NotFound {
        /// The noun for the message, like `plan`.
        what: &'static str,
    },
    /// A request names an object that does not exist. The caller may list the objects of this kind.
    #[error("{what} {name:?} not found; {rule}")]
    Unknown {
        /// The noun for the message, like `plan`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The existing names, from [`names::suggestion`](crate::names).
        rule: String,
    },
    /// A field has an invalid value.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field's name in the API.
        field: &'static str,
        /// A stable snake_case code: `invalid`, or a more exact one such as `too_long`.
        code: &'static str,
        /// The problem and its remedy, in English, for programs.
        problem: String,
        /// The same for who says it in other words.
        reason: Reason,
    },
    /// The caller is authenticated but lacks permission.
    #[error("{problem}")]
    Forbidden {
        /// The permission that the caller needs.
        problem: &'static str,
    },
    /// The name is in use.
    #[error("{field}: {value:?} is taken; choose another")]
    Taken {
        /// The field's name in the API.
        field: &'static str,
        /// The requested name.
        value: String,
    },
    /// The request conflicts with the current state.
    #[error("{problem}")]
    Refused {
        /// A stable snake_case code.
        code: &'static str,
        /// The problem and its remedy.
        problem: String,
    },
    /// An OAuth grant is invalid: unknown, expired, used, or issued to another client.
    #[error("the grant is not valid")]
    InvalidGrant,
    /// A database error.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Cryptography failed or stored data is damaged. The caller cannot cause it.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// Creates an [`Error::Invalid`] for `field` with the code `invalid`.
    pub fn invalid(field: &'static str, problem: impl Into<String>) -> Error {
        Error::wrong("invalid", field, problem)
    }

    /// Creates an [`Error::Invalid`] for `field` with a code of its own.
    pub fn wrong(code: &'static str, field: &'static str, problem: impl Into<String>) -> Error {
        Error::Invalid { field, code, problem: problem.into(), reason: Reason { code, values: Vec::new() } }
    }

    /// The same [`Error::Invalid`] with a more exact reason.
    #[must_use]
    pub(crate) fn because(self, code: &'static str, values: &[(&'static str, usize)]) -> Error {
        let values = values.iter().map(|(name, value)| (*name, value.to_string())).collect();
        match self {
            Error::Invalid { field, code: of_api, problem, .. } => {
                Error::Invalid { field, code: of_api, problem, reason: Reason { code, values } }
            }
            other => other,
        }
    }

    /// Creates an [`Error::Refused`] with a stable code.
    pub fn refused(code: &'static str, problem: impl Into<String>) -> Error {
        Error::Refused { code, problem: problem.into() }
    }

    /// Maps a violation of `constraint` to [`Error::Taken`].
    pub fn taken(constraint: &str, field: &'static str, value: &str) -> impl FnOnce(store::Error) -> Error {
        move |error| match error.conflict() {
            Some(name) if name == constraint => Error::Taken { field, value: value.to_owned() },
            _ => Error::Store(error),
        }
    }
}
