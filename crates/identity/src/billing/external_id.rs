//! Ids of the payment provider.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;
use store::{FromValue, Value, ValueRef};

/// The most characters of a provider's id. Behind an `Event::place` they fit an indexed column.
const EXTERNAL_ID_MAX: usize = 200;
/// The length of an `Event::place`.
pub(super) const PLACE_LENGTH: usize = 15;

/// An id of the provider: letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExternalId(String);

impl ExternalId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses an id that a request has in `field`.
    pub fn parse(field: &'static str, text: &str) -> Result<ExternalId> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=EXTERNAL_ID_MAX).contains(&text.len()) && text.bytes().all(is_fine) {
            return Ok(ExternalId(text.to_owned()));
        }
        let rule = format!("use 1 to {EXTERNAL_ID_MAX} letters, digits, _ and -");
        Err(Error::invalid(field, format!("this is not an id of the payment provider; {rule}")))
    }
}

impl FromStr for ExternalId {
    type Err = Error;
    fn from_str(text: &str) -> Result<ExternalId> {
        ExternalId::parse("id", text)
    }
}

impl fmt::Display for ExternalId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromValue for ExternalId {
    const KIND: &'static str = "an id of the payment provider";
    fn from_value(value: ValueRef<'_>) -> Option<ExternalId> {
        if let ValueRef::Text(text) = value { Some(ExternalId(text.to_owned())) } else { None }
    }
}

impl<'a> From<&'a ExternalId> for Value<'a> {
    fn from(id: &'a ExternalId) -> Value<'a> {
        Value::from(&*id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_provider_are_plain_words() {
        for good in ["sub_1NxQ", "cs_test_a1-b2", "x", &"a".repeat(EXTERNAL_ID_MAX)] {
            assert_eq!(good.parse::<ExternalId>().expect("an id").as_str(), good);
        }
        for wrong in ["", "a b", "a.b", "a\0", "ä", "a'", &"a".repeat(EXTERNAL_ID_MAX + 1)] {
            assert!(wrong.parse::<ExternalId>().is_err(), "{wrong}");
        }
    }
}
