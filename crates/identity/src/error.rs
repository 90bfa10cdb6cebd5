//! What can go wrong in the domain.
//!
//! Policy: every variant but `Store` and `Broken` is the caller's to mend and may be shown as it is; it
//! says what was wrong, where, and what would be right. `Store` is translated by whether it is
//! temporary; `Broken` is a defect or a damaged database and is only for the log.

/// The error of every operation of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such thing, or not for this caller: the two must look the same.
    #[error("there is no {what} like this here")]
    NotFound {
        /// The noun, for people.
        what: &'static str,
    },
    /// A request names what is not here, for a caller who may list what is.
    #[error("there is no {what} {name:?} here; {rule}")]
    Unknown {
        /// The noun, for people.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What would be right: [`names::choice`](crate::names).
        rule: String,
    },
    /// A field holds something that it may not.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field's name on the wire.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The caller is known and may not do this.
    #[error("{problem}")]
    Forbidden {
        /// What the caller would need.
        problem: &'static str,
    },
    /// The name is in use.
    #[error("{field}: {value:?} is taken; choose another")]
    Taken {
        /// The field's name on the wire.
        field: &'static str,
        /// What was asked for.
        value: String,
    },
    /// What the caller asks for is against a rule of the state that things are in.
    #[error("{problem}")]
    Refused {
        /// A stable snake_case code.
        code: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// An OAuth grant that is not (or no longer) good: unknown, expired, used, another's.
    #[error("the grant is not valid")]
    InvalidGrant,
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Cryptography or stored data that does not fit: never the caller's fault.
    #[error("{0}")]
    Broken(String),
}

impl Error {
    /// An [`Error::Invalid`] about `field`.
    pub fn invalid(field: &'static str, problem: impl Into<String>) -> Error {
        Error::Invalid { field, problem: problem.into() }
    }

    /// An [`Error::Refused`] with a stable code.
    pub fn refused(code: &'static str, problem: impl Into<String>) -> Error {
        Error::Refused { code, problem: problem.into() }
    }

    /// Turns the violation of `constraint` into [`Error::Taken`].
    pub fn taken(constraint: &str, field: &'static str, value: &str) -> impl FnOnce(store::Error) -> Error {
        move |error| match error.conflict() {
            Some(name) if name == constraint => Error::Taken { field, value: value.to_owned() },
            _ => Error::Store(error),
        }
    }
}
