//! Names from user input: slugs, e-mail addresses and display names. Each is validated once, when it enters the domain.

use crate::{Error, Result};
use std::collections::HashSet;

/// Slugs that would collide with paths and audiences of the server.
const RESERVED: &[&str] = &[
    "platform", "account", "api", "auth", "www", "mail", "admin", "root", "support", "help", "docs",
    "status", "console", "login", "signup", "static", "assets", "new", "sarsen",
];

/// The longest slug and the longest display name, in characters.
const SLUG_LENGTH_MAX: usize = 50;
const DISPLAY_LENGTH_MAX: usize = 100;

/// Validates a slug: 2 to 50 characters of `a-z`, `0-9` and `-`, starting with a letter, not ending with `-`.
pub fn slug(field: &'static str, text: &str) -> Result<String> {
    let good = (2..=SLUG_LENGTH_MAX).contains(&text.len())
        && text.bytes().all(|letter| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && text.as_bytes()[0].is_ascii_lowercase()
        && !text.ends_with('-');
    if !good {
        let rule = "use 2 to 50 characters of a-z, 0-9 and -, starting with a letter, like \"acme\"";
        let code = if text.chars().count() > SLUG_LENGTH_MAX { "too_long" } else { "invalid" };
        return Err(Error::wrong(code, field, format!("{text:?} is not a slug; {rule}")));
    }
    Ok(text.to_owned())
}

/// Validates the slug of an organization. Some slugs are reserved.
pub fn organization_slug(text: &str) -> Result<String> {
    let checked = slug("slug", text)?;
    if RESERVED.contains(&text) {
        return Err(Error::wrong("reserved", "slug", format!("{text:?} is reserved; choose another")));
    }
    Ok(checked)
}

/// Normalises an e-mail address: trims it and converts it to lower case. Plus aliases stay distinct addresses.
pub fn email(text: &str) -> Result<String> {
    let address = text.trim().to_lowercase();
    let (local, domain) = address.rsplit_once('@').unwrap_or_default();
    let good = (1..=64).contains(&local.len())
        && (3..=190).contains(&domain.len())
        && domain.contains('.')
        && !domain.starts_with('.')
        && !domain.ends_with('.')
        && !domain.contains("..")
        && domain.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'-'))
        && local.chars().all(|letter| !letter.is_control() && !letter.is_whitespace() && letter != '@')
        && local.is_ascii();
    if good {
        Ok(address)
    } else {
        Err(Error::invalid("email", "this is not an e-mail address; use one like ada@example.com"))
    }
}

/// Validates a display name: 1 to 100 characters, no control characters, none that is invisible or changes the order of
/// the text around it. Leading and trailing spaces are trimmed.
pub fn display(field: &'static str, text: &str) -> Result<String> {
    let name = text.trim();
    let length = name.chars().count();
    if length == 0 || length > DISPLAY_LENGTH_MAX || name.chars().any(char::is_control) {
        let code = if length > DISPLAY_LENGTH_MAX { "too_long" } else { "invalid" };
        return Err(Error::wrong(code, field, "use 1 to 100 characters on one line"));
    }
    refuse_deceptive(field, name)?;
    Ok(name.to_owned())
}

/// Refuses a text with a character that is invisible or changes the order of the text around it.
pub(crate) fn refuse_deceptive(field: &'static str, text: &str) -> Result<()> {
    if text.chars().any(is_deceptive) {
        let problem =
            "the text has an invisible character or one that changes the direction of the text; remove it";
        return Err(Error::invalid(field, problem));
    }
    Ok(())
}

/// Whether a character is not visible, or reorders visible ones (bidirectional controls). Two names that look the same
/// could differ by such characters, and one of them could change the text after it.
pub fn is_deceptive(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{3164}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Refuses a list that has the same text twice.
pub(crate) fn refuse_repeated(field: &'static str, texts: &[String]) -> Result<()> {
    let mut seen = HashSet::with_capacity(texts.len());
    match texts.iter().find(|text| !seen.insert(text.as_str())) {
        Some(twice) => {
            Err(Error::wrong("repeated", field, format!("{twice:?} is listed twice; list it once")))
        }
        None => Ok(()),
    }
}

/// The number of existing names that an error message lists.
pub(crate) const SUGGESTIONS_MAX: usize = 10;

/// The advice for a name that does not exist: the existing names, or the first of them. The caller passes one name more
/// than [`SUGGESTIONS_MAX`] when there are more, so that the text can end with `…`.
pub(crate) fn suggestion(known: &[String]) -> String {
    match known {
        [] => "none exists yet".to_owned(),
        [one] => format!("use {one}"),
        _ if known.len() > SUGGESTIONS_MAX => {
            format!("use one of {}, …", known[..SUGGESTIONS_MAX].join(", "))
        }
        [others @ .., last] => format!("use {} or {last}", others.join(", ")),
    }
}

/// Adds the names from `known` to [`Error::NotFound`].
pub(crate) fn suggest_existing<T>(
    found: Result<T>,
    name: &str,
    known: impl FnOnce() -> std::result::Result<Vec<String>, store::Error>,
) -> Result<T> {
    match found {
        Err(Error::NotFound { what }) => {
            Err(Error::Unknown { what, name: name.to_owned(), rule: suggestion(&known()?) })
        }
        found => found,
    }
}

/// Makes a text from a request safe to display: removes control, invisible and bidirectional characters and keeps the
/// first 200 characters.
pub fn remark(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() && !is_deceptive(*letter)).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_validated() {
        assert_eq!(slug("slug", "acme-2").expect("valid"), "acme-2");
        for wrong in ["", "a", "-a", "a-", "Acme", "a b", "2acme", "ä", &"a".repeat(51), "a/b"] {
            assert!(slug("slug", wrong).is_err(), "{wrong}");
        }
        assert!(organization_slug("platform").is_err());
    }

    #[test]
    fn suggestions_list_all_names_or_the_first_ten() {
        let known: Vec<String> = ('a'..='k').map(String::from).collect();
        assert_eq!(suggestion(&[]), "none exists yet");
        assert_eq!(suggestion(&known[..1]), "use a");
        assert_eq!(suggestion(&known[..2]), "use a or b");
        assert_eq!(suggestion(&known[..10]), "use a, b, c, d, e, f, g, h, i or j");
        assert_eq!(suggestion(&known), "use one of a, b, c, d, e, f, g, h, i, j, …");
    }

    #[test]
    fn display_names_have_no_invisible_and_no_reordering_characters() {
        for good in ["Ada", "  Zoë O\u{2019}Neill ", "株式会社", "שלום", "Ада", "a\u{301}", "🙂"]
        {
            assert_eq!(display("name", good).expect("valid"), good.trim());
        }
        let deceptive = "\u{ad}\u{61c}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{e0041}";
        for letter in deceptive.chars() {
            let refused = display("name", &format!("Ada{letter}Lovelace"));
            assert!(refused.is_err(), "{letter:?}");
        }
        assert_eq!(remark("acme\u{202e}/1.0\u{7}\u{200b}"), "acme/1.0");
    }

    #[test]
    fn email_addresses_are_normalised() {
        assert_eq!(email(" Ada@Example.COM ").expect("valid"), "ada@example.com");
        for wrong in [
            "",
            "ada",
            "ada@",
            "@example.com",
            "ada@example",
            "a da@example.com",
            "ada@ex..com",
            "ada@exämple.com",
        ] {
            assert!(email(wrong).is_err(), "{wrong}");
        }
    }
}
