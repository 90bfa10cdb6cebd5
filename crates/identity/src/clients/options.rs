//! The options of a client that have a few named values: PKCE and the signature of ID tokens.

use super::Kind;
use crate::keys::Algorithm;
use crate::{Error, Result};
use store::{FromValue, ToValue, Value, ValueRef};

/// Whether the authorization endpoint requires PKCE (RFC 7636). A request that has a challenge is always held to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pkce {
    /// Requests without a challenge are accepted.
    Optional,
    /// Requests without a challenge are refused.
    Required,
}

impl Pkce {
    const ALL: [(&'static str, Pkce); 2] = [("optional", Pkce::Optional), ("required", Pkce::Required)];

    /// The setting of a new client. Public clients require PKCE, because they have no secret that protects a code.
    pub fn default_of(kind: Kind) -> Pkce {
        if kind.is_confidential() { Pkce::Optional } else { Pkce::Required }
    }

    /// Returns the name used in the API.
    pub fn as_str(self) -> &'static str {
        name_of(&Pkce::ALL, self)
    }

    /// Parses the name used in the API.
    pub fn parse(name: &str) -> Result<Pkce> {
        named(&Pkce::ALL, "pkce", name)
    }
}

/// The column is a flag: whether it is required.
impl FromValue for Pkce {
    const KIND: &'static str = bool::KIND;
    fn from_value(value: ValueRef<'_>) -> Option<Pkce> {
        bool::from_value(value).map(|required| if required { Pkce::Required } else { Pkce::Optional })
    }
}

impl ToValue for Pkce {
    fn to_value(&self) -> Value<'_> {
        (*self == Pkce::Required).into()
    }
}

const ID_TOKEN_ALGS: [(&str, Algorithm); 2] = [("RS256", Algorithm::Rs256), ("ES256", Algorithm::Es256)];

/// Parses the signature algorithm of a client's ID tokens.
pub fn parse_id_token_alg(name: &str) -> Result<Algorithm> {
    named(&ID_TOKEN_ALGS, "id_token_alg", name)
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: T) -> &'static str {
    all.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

fn named<T: Copy>(all: &[(&str, T)], field: &'static str, name: &str) -> Result<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        Error::wrong("not_allowed", field, format!("{name:?} is not allowed; use {}", known.join(" or ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_others_are_refused() {
        assert_eq!(Pkce::parse("required").expect("known").as_str(), "required");
        assert_eq!(parse_id_token_alg("ES256").expect("known"), Algorithm::Es256);
        let error = Pkce::parse("on").expect_err("unknown").to_string();
        assert_eq!(error, "pkce: \"on\" is not allowed; use optional or required");
        assert!(parse_id_token_alg("none").is_err());
    }
}
