//! Ids: TypeIDs (`user_01h…`), sortable by the time they were made, so that inserts append.
//!
//! Source: the TypeID specification 0.3: a prefix, `_`, and a UUIDv7 in Crockford's base 32.

use crate::secrets::Random;
use crate::{Error, Time};
use std::fmt;
use std::sync::Arc;
use store::{FromValue, Value, ValueRef};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SUFFIX_LENGTH: usize = 26;

/// The clients of `platform` have fixed ids, so that a terminal needs to know nothing but the address.
pub const FIRST_PARTY_CLIENTS: [&str; 2] = ["cli", "console"];

/// A UUIDv7 of this moment, in base 32, behind the prefix.
fn make(prefix: &str, now: Time, random: &dyn Random) -> String {
    let mut bytes = [0_u8; 16];
    random.fill(&mut bytes[6..]);
    bytes[..6].copy_from_slice(&now.millis().to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    encode(prefix, u128::from_be_bytes(bytes))
}

fn is_valid(prefix: &str, text: &str) -> bool {
    if prefix == ClientId::PREFIX && FIRST_PARTY_CLIENTS.contains(&text) {
        return true;
    }
    text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).is_some_and(|rest| {
        rest.len() == SUFFIX_LENGTH && rest.as_bytes()[0] <= b'7' && rest.bytes().all(is_digit)
    })
}

/// Whether a letter is one of [`ALPHABET`]: asked for each letter of each id that comes in, so by ranges.
fn is_digit(letter: u8) -> bool {
    matches!(letter, b'0'..=b'9' | b'a'..=b'h' | b'j' | b'k' | b'm' | b'n' | b'p'..=b't' | b'v'..=b'z')
}

/// The id that is `distance` after this one in sort order, with the same prefix.
fn offset(prefix: &str, text: &str, distance: u32) -> String {
    let digits = text.bytes().skip(prefix.len() + 1);
    let number = digits.fold(0_u128, |number, letter| {
        let value = ALPHABET.iter().position(|known| *known == letter).unwrap_or(0);
        (number << 5) | value as u128
    });
    encode(prefix, number.wrapping_add(distance.into()))
}

fn encode(prefix: &str, number: u128) -> String {
    let (mut digits, mut rest) = ([0; SUFFIX_LENGTH], number);
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(rest & 31) as usize];
        rest >>= 5;
    }
    [prefix, "_", &String::from_utf8_lossy(&digits)].concat()
}

/// The smallest id of `prefix` that could be made at `moment`: what is older sorts before it.
pub fn smallest_at(prefix: &str, moment: Time) -> String {
    encode(prefix, (moment.millis().max(0) as u128) << 80)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal / $what:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What stands before the `_`.
            pub const PREFIX: &'static str = $prefix;

            /// A new id, of this moment.
            pub fn new(now: Time, random: &dyn Random) -> $name {
                $name(make($prefix, now, random).into())
            }

            /// The id of a UUID.
            pub fn from_uuid(uuid: u128) -> $name {
                $name(encode($prefix, uuid).into())
            }

            /// Reads an id that came from outside; anything that is not one is not found.
            pub fn parse(text: &str) -> Result<$name, Error> {
                if is_valid($prefix, text) { Ok($name(text.into())) } else { Err(Error::NotFound { what: $what }) }
            }

            /// The id that is `distance` after this one in sort order.
            pub fn plus(&self, distance: u32) -> $name {
                $name(offset($prefix, &self.0, distance).into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// So that a cache can be asked about what came from outside, without a copy of it.
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl FromValue for $name {
            const KIND: &'static str = concat!("an id of ", $what);
            fn from_value(value: ValueRef<'_>) -> Option<$name> {
                match value {
                    ValueRef::Text(text) => Some($name(text.into())),
                    _ => None,
                }
            }
        }

        impl<'a> From<&'a $name> for Value<'a> {
            fn from(id: &'a $name) -> Value<'a> {
                Value::from(&*id.0)
            }
        }
    )* };
}

ids! {
    /// An organization (tenant).
    OrganizationId = "org" / "organization";
    /// A person's account in one organization.
    UserId = "user" / "user";
    /// A product of the suite.
    ServiceId = "service" / "service";
    /// An OAuth client.
    ClientId = "client" / "client";
    /// A secret of a confidential client.
    ClientSecretId = "secret" / "client secret";
    /// What is sold.
    PlanId = "plan" / "plan";
    /// Who buys.
    CustomerId = "customer" / "customer";
    /// A customer's use of a plan.
    SubscriptionId = "sub" / "subscription";
    /// A sign-in that lasts.
    SessionId = "session" / "session";
    /// What a user allowed a client: the family of its refresh tokens.
    GrantId = "grant" / "grant";
    /// One refresh token of a family.
    RefreshTokenId = "refresh" / "refresh token";
    /// A device authorization (RFC 8628).
    DeviceId = "device" / "device authorization";
    /// A request at the authorization endpoint that waits for its user.
    RequestId = "request" / "authorization request";
    /// An authorization code.
    CodeId = "code" / "authorization code";
    /// A signing key; its `kid`.
    KeyId = "key" / "signing key";
    /// A one-time link.
    LinkId = "link" / "link";
    /// A row of the audit trail.
    AuditId = "audit" / "audit entry";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::testing::Seeded;
    use proptest::prelude::*;

    #[test]
    fn a_digit_is_what_the_alphabet_holds() {
        for letter in 0..=u8::MAX {
            assert_eq!(is_digit(letter), ALPHABET.contains(&letter), "{letter}");
        }
    }

    #[test]
    fn ids_are_typed_and_checked() {
        let id = UserId::new(Time::from_millis(1_700_000_000_000), &Seeded::new(1));
        assert_eq!(UserId::parse(id.as_str()).expect("its own text"), id);
        for wrong in ["", "user_", "user_1", &id.as_str().to_uppercase(), &id.as_str().replace("user", "org")]
        {
            assert!(UserId::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn later_ids_sort_later(first in 0..4_000_000_000_000_i64, gap in 1..1_000_000_i64, seed: u64) {
            let random = Seeded::new(seed);
            let early = UserId::new(Time::from_millis(first), &random);
            let late = UserId::new(Time::from_millis(first + gap), &random);
            prop_assert!(early < late);
            prop_assert!(smallest_at("user", Time::from_millis(first + gap)).as_str() > early.as_str());
            prop_assert!(smallest_at("user", Time::from_millis(first)).as_str() <= early.as_str());
        }
    }
}
