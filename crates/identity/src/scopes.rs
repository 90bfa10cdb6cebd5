//! Scopes: what a client asks for and what it gets.

use crate::{Error, Result};
use std::fmt;

/// Scopes that every organization's clients may ask for.
pub const STANDARD: &[&str] = &["openid", "profile", "email", "offline_access"];
/// Power over the whole installation, for clients of `platform`.
pub const PLATFORM: &str = "platform";
/// Power over each organization that the user administers, for clients of `platform`.
pub const ANY_ORGANIZATION: &str = "org:*";
/// The most words of a requested scope: each is compared with those before it.
const WORDS_MAX: usize = 64;
/// What a client that names no scope gets.
const DEFAULT: &str = "profile email";

/// A set of scopes, as granted: in order, without repetition.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Scope(Vec<String>);

impl Scope {
    /// Reads the stored or sent form: separated by spaces.
    pub fn parse(text: &str) -> Scope {
        let mut scopes: Vec<String> = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !scopes.iter().any(|known| known == word) {
                scopes.push(word.to_owned());
            }
        }
        Scope(scopes)
    }

    /// Reads what a request asks for, which may not have more words than [`WORDS_MAX`].
    pub fn requested(text: &str) -> Result<Scope> {
        if text.split(' ').nth(WORDS_MAX).is_some() {
            return Err(Error::invalid("scope", format!("more than {WORDS_MAX} words; ask for fewer")));
        }
        Ok(Scope::parse(text))
    }

    /// Narrows what was asked for to what the client may have. Unknown scopes are ignored; an error
    /// when nothing is left of a request that named some. `first_party`: a client of `platform`.
    pub fn grant(requested: Option<&str>, first_party: bool) -> Result<Scope> {
        let requested = requested.filter(|text| !text.trim().is_empty()).unwrap_or(DEFAULT);
        let requested = Scope::requested(requested)?;
        let allowed = |scope: &String| {
            STANDARD.contains(&scope.as_str())
                || (first_party && (scope == PLATFORM || organization_of(scope).is_some()))
        };
        let granted: Vec<String> = requested.0.into_iter().filter(allowed).collect();
        if granted.is_empty() {
            return Err(Error::invalid(
                "scope",
                format!("none of these is known here; known are {}", STANDARD.join(" ")),
            ));
        }
        Ok(Scope(granted))
    }

    /// Whether `word` is one of them.
    pub fn contains(&self, word: &str) -> bool {
        self.0.iter().any(|scope| scope == word)
    }

    /// Whether all of these are in `wider`.
    pub fn is_within(&self, wider: &Scope) -> bool {
        self.0.iter().all(|scope| wider.contains(scope))
    }

    /// The stored and sent form.
    pub fn joined(&self) -> String {
        self.0.join(" ")
    }

    /// The scopes, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.joined())
    }
}

/// The slug in `org:<slug>` (or `*`).
pub fn organization_of(scope: &str) -> Option<&str> {
    scope.strip_prefix("org:").filter(|slug| !slug.is_empty())
}

/// What a scope means, for the consent page.
pub fn says(scope: &str) -> String {
    match scope {
        "openid" => "Know who you are".to_owned(),
        "profile" => "See your name".to_owned(),
        "email" => "See your e-mail address".to_owned(),
        "offline_access" => "Stay signed in until you sign it out".to_owned(),
        PLATFORM => "Administer the whole installation, as far as you may".to_owned(),
        ANY_ORGANIZATION => "Administer every organization that you administer".to_owned(),
        _ => match organization_of(scope) {
            Some(slug) => format!("Administer the organization {slug}"),
            None => scope.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scopes_are_ignored_unless_nothing_is_left() {
        let granted = Scope::grant(Some("openid  fly openid email"), false).expect("two are known");
        assert_eq!(granted.to_string(), "openid email");
        assert!(Scope::grant(Some("fly platform org:acme"), false).is_err());
        let many = |count: usize| format!("openid{}", " x".repeat(count));
        assert!(Scope::grant(Some(&many(WORDS_MAX - 1)), false).is_ok());
        assert!(Scope::grant(Some(&many(WORDS_MAX)), false).is_err());
        assert_eq!(Scope::grant(None, false).expect("default").to_string(), DEFAULT);
        assert_eq!(
            Scope::grant(Some("platform org:acme"), true).expect("ours").to_string(),
            "platform org:acme"
        );
    }
}
