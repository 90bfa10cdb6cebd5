//! Names from user input: slugs, e-mail addresses and display names. Each is validated once, when it enters the domain. What
//! a text may contain at all is in the crate `text`.

use crate::{Error, Result};
use std::collections::HashSet;
use text::{NameProblem, mail};

/// Slugs that would collide with paths and audiences of the server.
const RESERVED: &[&str] = &[
    "platform", "account", "api", "auth", "www", "mail", "admin", "root", "support", "help", "docs",
    "status", "console", "login", "signup", "static", "assets", "new", "sarsen",
];

/// The longest slug and the longest display name, in characters.
pub const SLUG_LENGTH_MAX: usize = 50;
pub const DISPLAY_LENGTH_MAX: usize = 100;
/// The longest remark, in characters.
const REMARK_LENGTH_MAX: usize = 200;

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

/// Validates the e-mail address of a new account, and normalises it: lower case, an internationalized domain as A-labels.
/// Plus aliases stay distinct addresses.
pub fn email(text: &str) -> Result<String> {
    mail::stored(text).map_err(|problem| match problem {
        mail::Problem::TooLong => {
            let (local, domain) = (mail::LOCAL_LENGTH_MAX, mail::DOMAIN_LENGTH_MAX);
            let rule = format!("use at most {local} characters before the @ and {domain} behind it");
            Error::wrong("too_long", "email", format!("this e-mail address is too long; {rule}"))
                .because("too_long", &[("local_max", local), ("domain_max", domain)])
        }
        mail::Problem::Undeliverable => not_an_address(),
    })
}

/// Normalises an e-mail address by which an account is looked up. Accounts from before [`email`] had its present rules keep
/// their addresses.
pub fn known_email(text: &str) -> Result<String> {
    mail::looked_up(text).ok_or_else(not_an_address)
}

fn not_an_address() -> Error {
    Error::invalid("email", "this is not an e-mail address; use one like ada@example.com")
}

/// The name of an account that was given none: its address, or what is before the `@` if that is too long for a name.
pub(crate) fn of_address(email: &str) -> String {
    let shown = mail::shown(email);
    match text::name(&shown, DISPLAY_LENGTH_MAX) {
        Ok(name) => name.to_owned(),
        Err(_) => email.split('@').next().unwrap_or_default().to_owned(),
    }
}

/// Validates a display name: 1 to 100 characters, no control characters, none that is invisible or changes the order of
/// the text around it. Leading and trailing spaces are trimmed.
pub fn display(field: &'static str, text: &str) -> Result<String> {
    line(field, text, DISPLAY_LENGTH_MAX)
}

/// The same with another length, in characters.
pub(crate) fn line(field: &'static str, text: &str, length_max: usize) -> Result<String> {
    text::name(text, length_max).map(str::to_owned).map_err(|problem| {
        let code = if problem == NameProblem::TooLong { "too_long" } else { "invalid" };
        match problem {
            NameProblem::Hidden => Error::wrong(code, field, problem.to_string()).because("hidden", &[]),
            NameProblem::Line | NameProblem::TooLong => {
                Error::wrong(code, field, format!("use 1 to {length_max} characters on one line"))
                    .because("line", &[("length_max", length_max)])
            }
        }
    })
}

/// Refuses a text with a character that is invisible or changes the order of the text around it.
pub(crate) fn refuse_deceptive(field: &'static str, text: &str) -> Result<()> {
    match text::hidden(text).next() {
        Some(_) => Err(Error::invalid(field, NameProblem::Hidden.to_string())),
        None => Ok(()),
    }
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
    remark_up_to(text, REMARK_LENGTH_MAX)
}

/// The same with another length, in characters.
pub fn remark_up_to(text: &str, length_max: usize) -> String {
    let start: String = text.chars().filter(|letter| !letter.is_control()).take(length_max).collect();
    let hidden: HashSet<usize> = text::hidden(&start).map(|(at, _)| at).collect();
    start.char_indices().filter(|(at, _)| !hidden.contains(at)).map(|(_, letter)| letter).collect()
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
        for good in [
            "Ada",
            "  Zoë O\u{2019}Neill ",
            "株式会社",
            "שלום",
            "Ада",
            "a\u{301}",
            "🙂",
            "علی\u{200c}رضا",
            "👩\u{200d}💻 Ada",
        ] {
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
    fn an_account_without_a_name_gets_its_address_as_one() {
        assert_eq!(of_address("ada@acme.test"), "ada@acme.test");
        assert_eq!(of_address("user@xn--bcher-kva.example"), "user@bücher.example");
        let long = format!("ada@{}test", "label.".repeat(20));
        assert_eq!(of_address(&long), "ada");
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
            "mailto:ada@example.com",
        ] {
            assert!(email(wrong).is_err(), "{wrong}");
        }
        assert_eq!(email("ada@exämple.com").expect("valid"), "ada@xn--exmple-cua.com");
        let long = email(&format!("{}@example.com", "a".repeat(65))).expect_err("too long");
        assert!(matches!(long, Error::Invalid { code: "too_long", field: "email", .. }), "{long:?}");
        assert_eq!(known_email(".ADA@example.com").expect("known"), ".ada@example.com");
    }
}
