//! Why work failed, for the log and the operator.

use crate::Problem;
use std::borrow::Cow;
use std::fmt;

/// The longest reason that is logged.
const WHY_MAX: usize = 500;

/// Why work failed. It is logged, so it has no secrets: no token, no address with a password, no text of another server that may
/// repeat what it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: Cow<'static, str>,
    why: String,
}

impl Failure {
    /// A failure with a stable code, such as `refused`, and what happened. Of a long text the beginning is kept, without
    /// control characters.
    pub fn new(code: impl Into<Cow<'static, str>>, why: impl fmt::Display) -> Failure {
        let why = why.to_string();
        let printable = why.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        Failure { code: code.into(), why: printable.take(WHY_MAX).collect() }
    }

    /// The code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What happened.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code, self.why)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let why = problem.words();
        Failure::new(problem.code, why)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        Failure::from(Problem::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_line() {
        let failure = Failure::new("refused", format!("550 no\r\nsuch user {}", "x".repeat(1000)));
        assert!(failure.why().starts_with("550 no  such user x"), "{failure}");
        assert_eq!(failure.why().len(), WHY_MAX);
    }
}
