//! Names on one line: of people, organizations, exams.

use crate::hidden;
use std::fmt;

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameProblem {
    /// It has no character but spaces, or one that breaks the line.
    Line,
    /// It has more characters than allowed.
    TooLong,
    /// It has a character that is invisible there, or that changes the direction of the text.
    Hidden,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NameProblem::Line => "use at least one character, on one line",
            NameProblem::TooLong => "the name is too long",
            NameProblem::Hidden => {
                "the text has an invisible character or one that changes the direction of the text; remove it"
            }
        })
    }
}

/// The name without spaces around it: 1 to `length_max` characters, no control characters, nothing [`hidden`].
pub fn name(text: &str, length_max: usize) -> Result<&str, NameProblem> {
    let name = text.trim();
    if name.chars().nth(length_max).is_some() {
        return Err(NameProblem::TooLong);
    }
    if name.is_empty() || name.contains(char::is_control) {
        return Err(NameProblem::Line);
    }
    if hidden(name).next().is_some() {
        return Err(NameProblem::Hidden);
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_visible_text_on_one_line() {
        assert_eq!(name("  علی\u{200c}رضا ", 100), Ok("علی\u{200c}رضا"));
        assert_eq!(name("äöü", 3), Ok("äöü"));
        assert_eq!(name("äöüß", 3), Err(NameProblem::TooLong));
        assert_eq!(name(" \t ", 3), Err(NameProblem::Line));
        assert_eq!(name("a\nb", 3), Err(NameProblem::Line));
        assert_eq!(name("a\u{200b}b", 3), Err(NameProblem::Hidden));
    }
}
