//! Names that people choose: slugs, e-mail addresses, display names. Checked once, where they come in.

use crate::{Error, Result};

/// Words that would clash with our own paths and audiences.
const RESERVED: &[&str] = &[
    "platform", "account", "api", "auth", "www", "mail", "admin", "root", "support", "help", "docs",
    "status", "console", "login", "signup", "static", "assets", "new", "sarsen",
];

/// Checks a slug: 2 to 50 of `a-z`, `0-9` and `-`, beginning with a letter, not ending with `-`.
pub fn slug(field: &'static str, text: &str) -> Result<String> {
    let good = (2..=50).contains(&text.len())
        && text.bytes().all(|letter| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && text.as_bytes()[0].is_ascii_lowercase()
        && !text.ends_with('-');
    if !good {
        let rule = "use 2 to 50 of a-z, 0-9 and -, beginning with a letter, like \"acme\"";
        return Err(Error::invalid(field, format!("{text:?} is not a slug; {rule}")));
    }
    Ok(text.to_owned())
}

/// Checks the slug of an organization: some words are ours.
pub fn organization_slug(text: &str) -> Result<String> {
    let checked = slug("slug", text)?;
    if RESERVED.contains(&text) {
        return Err(Error::invalid("slug", format!("{text:?} is reserved; choose another")));
    }
    Ok(checked)
}

/// Normalises an e-mail address: trimmed, lower case. Plus-aliases stay what they are: other addresses.
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
        Err(Error::invalid("email", "this is not an e-mail address; expected something like ada@example.com"))
    }
}

/// Checks a display name: 1 to 100 characters, no control characters; outer spaces are dropped.
pub fn display(field: &'static str, text: &str) -> Result<String> {
    let name = text.trim();
    if name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        return Err(Error::invalid(field, "expected 1 to 100 characters on one line"));
    }
    Ok(name.to_owned())
}

/// How many names an error offers.
pub(crate) const CHOICE_MAX: usize = 10;

/// What to write in the place of a name that is not there: those that are, or the first of them. Whoever
/// gathers them reads one more than [`CHOICE_MAX`], so that the end of a cut list shows.
pub(crate) fn choice(known: &[String]) -> String {
    match known {
        [] => "there is none yet".to_owned(),
        [one] => format!("use {one}"),
        _ if known.len() > CHOICE_MAX => format!("use one of {}, …", known[..CHOICE_MAX].join(", ")),
        [others @ .., last] => format!("use {} or {last}", others.join(", ")),
    }
}

/// What a name was found to mean, or an error that offers the names that `known` gathers.
pub(crate) fn or_what_there_is<T>(
    found: Result<T>,
    name: &str,
    known: impl FnOnce() -> std::result::Result<Vec<String>, store::Error>,
) -> Result<T> {
    match found {
        Err(Error::NotFound { what }) => {
            Err(Error::Unknown { what, name: name.to_owned(), rule: choice(&known()?) })
        }
        found => found,
    }
}

/// A short text about a request for people to read: cut at 200 characters, control characters dropped.
pub fn remark(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_checked() {
        assert_eq!(slug("slug", "acme-2").expect("fine"), "acme-2");
        for wrong in ["", "a", "-a", "a-", "Acme", "a b", "2acme", "ä", &"a".repeat(51), "a/b"] {
            assert!(slug("slug", wrong).is_err(), "{wrong}");
        }
        assert!(organization_slug("platform").is_err());
    }

    #[test]
    fn a_choice_names_all_or_the_first_ten() {
        let known: Vec<String> = ('a'..='k').map(String::from).collect();
        assert_eq!(choice(&[]), "there is none yet");
        assert_eq!(choice(&known[..1]), "use a");
        assert_eq!(choice(&known[..2]), "use a or b");
        assert_eq!(choice(&known[..10]), "use a, b, c, d, e, f, g, h, i or j");
        assert_eq!(choice(&known), "use one of a, b, c, d, e, f, g, h, i, j, …");
    }

    #[test]
    fn addresses_are_normalised() {
        assert_eq!(email(" Ada@Example.COM ").expect("fine"), "ada@example.com");
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
