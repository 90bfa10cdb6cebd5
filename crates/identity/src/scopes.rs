//! OAuth scopes: requested and granted.

use crate::{Error, Result, names};
use std::fmt;
use store::{FromValue, ValueRef};

/// The scopes that clients of every organization may request.
pub const STANDARD: &[&str] = &["openid", "profile", "email", "offline_access"];
/// The scope for administration of the whole installation, for clients of `platform` only.
pub const PLATFORM: &str = "platform";
/// The scope for every organization that the user administers, for clients of `platform` only.
pub const ANY_ORGANIZATION: &str = "org:*";
/// The maximum number of scopes in a request. Parsing compares each scope with all scopes before it.
const WORDS_MAX: usize = 64;
/// The scope of a request that names none.
const DEFAULT: &str = "profile email";

/// A set of scopes, in the order of the request, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Scope(Vec<String>);

impl store::Weigh for Scope {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// A column that may be NULL: no scopes.
impl FromValue for Scope {
    const KIND: &'static str = "scopes";
    fn from_value(value: ValueRef<'_>) -> Option<Scope> {
        match value {
            ValueRef::Null => Some(Scope::default()),
            ValueRef::Text(words) => Some(Scope::parse(words)),
            _ => None,
        }
    }
}

impl Scope {
    /// Parses the space-separated form.
    pub fn parse(text: &str) -> Scope {
        let mut scopes: Vec<String> = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !scopes.iter().any(|known| known == word) {
                scopes.push(word.to_owned());
            }
        }
        Scope(scopes)
    }

    /// Parses the scope of a request. Fails if it has more than `WORDS_MAX` scopes.
    pub fn requested(text: &str) -> Result<Scope> {
        if text.split(' ').nth(WORDS_MAX).is_some() {
            return Err(Error::invalid("scope", format!("too many scopes; request at most {WORDS_MAX}")));
        }
        Ok(Scope::parse(text))
    }

    /// Reduces the requested scopes to the ones that the client may have. Unknown scopes are ignored. A request fails
    /// if none of its scopes remains. `first_party` means a client of `platform`.
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
                format!("no requested scope is known; use some of {}", STANDARD.join(" ")),
            ));
        }
        Ok(Scope(granted))
    }

    /// Whether the set contains the scope `word`.
    pub fn contains(&self, word: &str) -> bool {
        self.0.iter().any(|scope| scope == word)
    }

    /// Whether `wider` contains every scope of this set.
    pub fn is_within(&self, wider: &Scope) -> bool {
        self.0.iter().all(|scope| wider.contains(scope))
    }

    /// The scopes of this set that `wider` contains too.
    #[must_use]
    pub fn within(&self, wider: &Scope) -> Scope {
        Scope(self.0.iter().filter(|scope| wider.contains(scope)).cloned().collect())
    }

    /// Whether the set has no scope.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the space-separated form.
    pub fn joined(&self) -> String {
        self.0.join(" ")
    }

    /// Iterates over the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.joined())
    }
}

/// Returns the slug in `org:<slug>`, or `*` in `org:*`. What is no slug is no scope: the page on which a user decides shows
/// it, and anybody can request a scope.
pub fn organization_of(scope: &str) -> Option<&str> {
    scope.strip_prefix("org:").filter(|slug| *slug == "*" || names::slug("scope", slug).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scopes_are_ignored_unless_none_is_known() {
        let granted = Scope::grant(Some("openid  fly openid email"), false).expect("two are known");
        assert_eq!(granted.to_string(), "openid email");
        assert!(Scope::grant(Some("fly platform org:acme"), false).is_err());
        let many = |count: usize| format!("openid{}", " x".repeat(count));
        assert!(Scope::grant(Some(&many(WORDS_MAX - 1)), false).is_ok());
        assert!(Scope::grant(Some(&many(WORDS_MAX)), false).is_err());
        for text in
            ["", "a", "Acme", "-acme", "**", "acme\u{a0}Call\u{a0}us", "\u{202e}acme", &"a".repeat(8192)]
        {
            let scope = format!("openid org:{text}");
            assert_eq!(
                Scope::grant(Some(&scope), true).expect("one is known").to_string(),
                "openid",
                "{text}"
            );
        }
        assert_eq!(Scope::grant(None, false).expect("default").to_string(), DEFAULT);
        assert_eq!(
            Scope::grant(Some("platform org:acme"), true).expect("a first-party client").to_string(),
            "platform org:acme"
        );
    }
}
