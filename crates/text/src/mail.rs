//! E-mail addresses: as they are stored, compared and shown.

use crate::domain;

/// The longest part before the `@`, and the longest domain.
pub const LOCAL_LENGTH_MAX: usize = 64;
pub const DOMAIN_LENGTH_MAX: usize = 190;
/// The longest address.
pub const LENGTH_MAX: usize = LOCAL_LENGTH_MAX + 1 + DOMAIN_LENGTH_MAX;

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A part of it is too long.
    TooLong,
    /// It is no address to which mail can be sent.
    Undeliverable,
}

/// The form in which a new address is stored: lower case, the domain as A-labels, without spaces around it. Its local part
/// is a dot-atom of RFC 5322. A plus alias stays an address of its own.
pub fn stored(text: &str) -> Result<String, Problem> {
    let address = text.trim();
    let (local, host) = address.rsplit_once('@').ok_or(Problem::Undeliverable)?;
    let local = local.to_lowercase();
    if local.len() > LOCAL_LENGTH_MAX || host.len() > 1024 {
        return Err(Problem::TooLong);
    }
    let host = domain::to_ascii(host).ok_or(Problem::Undeliverable)?;
    if host.len() > DOMAIN_LENGTH_MAX {
        return Err(Problem::TooLong);
    }
    let (_, top) = host.rsplit_once('.').ok_or(Problem::Undeliverable)?;
    let is_name = host.len() >= 3 && !top.bytes().all(|letter| letter.is_ascii_digit());
    let is_atom = |atom: &str| !atom.is_empty() && atom.bytes().all(is_atom_letter);
    if !is_name || !local.split('.').all(is_atom) {
        return Err(Problem::Undeliverable);
    }
    Ok(format!("{local}@{host}"))
}

/// RFC 5322 section 3.2.3.
fn is_atom_letter(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&letter)
}

/// The form in which an account is looked up: like [`stored`], but also of an address that a new account may not have. Such
/// accounts exist from before the rule.
pub fn looked_up(text: &str) -> Option<String> {
    if let Ok(address) = stored(text) {
        return Some(address);
    }
    let address = text.trim().to_lowercase();
    let (local, domain) = address.rsplit_once('@')?;
    let good = (1..=LOCAL_LENGTH_MAX).contains(&local.len())
        && (3..=DOMAIN_LENGTH_MAX).contains(&domain.len())
        && domain.split('.').count() > 1
        && domain.split('.').all(|label| !label.is_empty())
        && domain.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'-'))
        && local.bytes().all(|letter| letter.is_ascii_graphic() && letter != b'@');
    good.then_some(address)
}

/// The form for people: the domain in its own letters, where that is safe ([`domain::shown`]).
pub fn shown(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((local, host)) if host.contains("xn--") => format!("{local}@{}", domain::shown(host)),
        _ => address.to_owned(),
    }
}

/// Whether two texts are one address, however they are written.
pub fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || looked_up(one).is_some_and(|one| looked_up(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_stored_in_one_form() {
        for (typed, address) in [
            (" Ada@Example.COM ", "ada@example.com"),
            ("ada+tag@example.com", "ada+tag@example.com"),
            ("user@bücher.example", "user@xn--bcher-kva.example"),
            ("user@XN--BCHER-KVA.example", "user@xn--bcher-kva.example"),
            ("user@straße.example", "user@xn--strae-oqa.example"),
            ("o'neill@example.com", "o'neill@example.com"),
        ] {
            assert_eq!(stored(typed).as_deref(), Ok(address), "{typed}");
            assert_eq!(looked_up(typed).as_deref(), Some(address), "{typed}");
        }
    }

    #[test]
    fn an_address_without_a_mailbox_is_for_no_new_account() {
        for wrong in [
            "",
            "ada",
            "ada@",
            "@example.com",
            "ada@example",
            "a da@example.com",
            "ada@ex..com",
            "zoë@example.com",
            ".dot@acme.test",
            "dot.@acme.test",
            "do..t@acme.test",
            "a@-acme.test",
            "a@acme-.test",
            "a@acme_b.test",
            "mailto:a@acme.test",
            "\"a\"@acme.test",
            "a@b@acme.test",
            "a@127.0.0.1",
            "a@acme.test.",
            "a\u{200b}@acme.test",
        ] {
            assert_eq!(stored(wrong), Err(Problem::Undeliverable), "{wrong}");
        }
        for long in [format!("{}@acme.test", "a".repeat(65)), format!("a@{}test", "label123.".repeat(21))] {
            assert_eq!(stored(&long), Err(Problem::TooLong), "{long}");
        }
    }

    #[test]
    fn an_older_account_is_found_under_its_address() {
        for older in
            [".dot@acme.test", "do..t@acme.test", "a@-acme.test", "mailto:a@acme.test", "a@xn--zz-.test"]
        {
            assert_eq!(looked_up(&older.to_uppercase()).as_deref(), Some(older));
        }
        for none in ["", "ada", "a@b", "a b@acme.test", "a@ex..com", "zoë@acme.test"] {
            assert_eq!(looked_up(none), None, "{none}");
        }
    }

    #[test]
    fn people_see_the_letters_of_a_domain() {
        assert_eq!(shown("user@xn--bcher-kva.example"), "user@bücher.example");
        assert_eq!(shown("ada@acme.test"), "ada@acme.test");
        assert!(is_same("User@Bücher.example", "user@xn--bcher-kva.example"));
        assert!(!is_same("user@bucher.example", "user@bücher.example"));
    }
}
