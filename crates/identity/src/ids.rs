//! Ids: TypeIDs (`user_01h…`). They sort by creation time, so that inserts append to the primary key index.
//!
//! Source: the TypeID specification 0.3: a prefix, `_`, and a UUIDv7 in Crockford's base 32.

use crate::secrets::Random;
use crate::{Error, Time};
use std::fmt;
use std::sync::Arc;
use store::{FromValue, ToValue, Value, ValueRef, Weigh};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SUFFIX_LENGTH: usize = 26;
const PREFIX_MAX: usize = 16;

/// The fixed ids of the clients of `platform`. The command line needs only the server's URL because of them.
pub const FIRST_PARTY_CLIENTS: [&str; 2] = ["cli", "console"];

/// Which database has the rows that an id is about: the first, for there is one (record 0109).
const PLACEMENT: u16 = 0;

/// Generates a UUIDv7 for `now`, in base 32, after the prefix: 48 bits of time, then chance but for the two bytes of the
/// placement, and a bit of 0 that catches what [`offset`] carries.
fn make(prefix: &str, now: Time, random: &dyn Random) -> Arc<str> {
    let mut bytes = [0_u8; 16];
    random.fill(&mut bytes[6..]);
    bytes[..6].copy_from_slice(&now.millis().to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    bytes[9..11].copy_from_slice(&PLACEMENT.to_be_bytes());
    bytes[11] &= 0x7f;
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

/// Whether a byte is in [`ALPHABET`]. It matches ranges because it runs for each byte of each received id.
fn is_digit(letter: u8) -> bool {
    matches!(letter, b'0'..=b'9' | b'a'..=b'h' | b'j' | b'k' | b'm' | b'n' | b'p'..=b't' | b'v'..=b'z')
}

/// The id `distance` places after this one in sort order, with the same prefix.
fn offset(prefix: &str, text: &str, distance: u32) -> Arc<str> {
    encode(prefix, decode(prefix, text).wrapping_add(distance.into()))
}

/// The UUID of a valid id.
fn decode(prefix: &str, text: &str) -> u128 {
    let digits = text.bytes().skip(prefix.len() + 1);
    digits.fold(0, |number, letter| (number << 5) | u128::from(VALUES[usize::from(letter)]))
}

/// The values of digits; of all other bytes zero.
const VALUES: [u8; 256] = {
    let (mut values, mut value) = ([0; 256], 0);
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// An id as text, without the allocation that a `String` would take on its way into an `Arc`.
fn encode<T: for<'a> From<&'a str>>(prefix: &str, number: u128) -> T {
    let mut text = [b'_'; PREFIX_MAX + 1 + SUFFIX_LENGTH];
    let mut rest = number;
    let (start, digits) = text.split_at_mut(prefix.len() + 1);
    start.iter_mut().zip(prefix.bytes()).for_each(|(place, letter)| *place = letter);
    for digit in digits.iter_mut().take(SUFFIX_LENGTH).rev() {
        *digit = ALPHABET[(rest & 31) as usize];
        rest >>= 5;
    }
    let text = &text[..prefix.len() + 1 + SUFFIX_LENGTH];
    T::from(std::str::from_utf8(text).unwrap_or_default())
}

/// The smallest possible id with `prefix` created at `moment`. Older ids sort before it.
pub fn smallest_at(prefix: &str, moment: Time) -> String {
    encode(prefix, (moment.millis().max(0) as u128) << 80)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal / $what:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text before the `_`.
            pub const PREFIX: &'static str = $prefix;

            /// Generates an id for `now`.
            pub fn new(now: Time, random: &dyn Random) -> $name {
                $name(make($prefix, now, random))
            }

            /// Creates an id from a UUID.
            pub fn from_uuid(uuid: u128) -> $name {
                $name(encode($prefix, uuid))
            }

            /// The id with the UUID that [`Self::to_bytes`] gave.
            pub fn from_bytes(uuid: [u8; 16]) -> $name {
                $name::from_uuid(u128::from_be_bytes(uuid))
            }

            /// The UUID as bytes, for what is kept in large numbers: half the size of the text, and no allocation.
            pub fn to_bytes(&self) -> Option<[u8; 16]> {
                self.to_uuid().map(u128::to_be_bytes)
            }

            /// The UUID of an id that has one: the ids of [`FIRST_PARTY_CLIENTS`] have none.
            pub fn to_uuid(&self) -> Option<u128> {
                (self.0.len() == $prefix.len() + 1 + SUFFIX_LENGTH).then(|| decode($prefix, &self.0))
            }

            /// Parses an untrusted id. An invalid one is [`Error::NotFound`].
            pub fn parse(text: &str) -> Result<$name, Error> {
                if is_valid($prefix, text) { Ok($name(text.into())) } else { Err(Error::NotFound { what: $what }) }
            }

            /// The id `distance` places after this one in sort order.
            pub fn plus(&self, distance: u32) -> $name {
                $name(offset($prefix, &self.0, distance))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// Allows cache lookups by a borrowed string, without allocating an id.
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        /// The same text, without a copy.
        impl From<&$name> for Arc<str> {
            fn from(id: &$name) -> Arc<str> {
                id.0.clone()
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<$name, Error> {
                $name::parse(text)
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

        impl Weigh for $name {
            fn heap_bytes(&self) -> usize {
                self.0.heap_bytes()
            }
        }

        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::from(self)
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
    /// A plan.
    PlanId = "plan" / "plan";
    /// A customer: a user or a team that buys plans.
    CustomerId = "customer" / "customer";
    /// A customer's subscription to a plan.
    SubscriptionId = "sub" / "subscription";
    /// A session.
    SessionId = "session" / "session";
    /// A user's authorization of a client, with its family of refresh tokens.
    GrantId = "grant" / "grant";
    /// A refresh token.
    RefreshTokenId = "refresh" / "refresh token";
    /// A device authorization (RFC 8628).
    DeviceId = "device" / "device authorization";
    /// A pending request at the authorization endpoint.
    RequestId = "request" / "authorization request";
    /// An authorization code.
    CodeId = "code" / "authorization code";
    /// A signing key. This is its `kid`.
    KeyId = "key" / "signing key";
    /// An API key.
    ApiKeyId = "apikey" / "API key";
    /// A write of the API that carried an `Idempotency-Key`.
    IdempotentWriteId = "write" / "write";
    /// A one-time link.
    LinkId = "link" / "link";
    /// A mail.
    MailId = "mail" / "mail";
    /// What a form that mails was asked for.
    MailRequestId = "mailrequest" / "request for a mail";
    /// An invitation of an administrator.
    InvitationId = "invitation" / "invitation";
    /// A connection to a payment provider.
    BillingConnectionId = "billing" / "billing connection";
    /// An event that a payment provider has sent.
    BillingEventId = "billingevent" / "billing event";
    /// An audit log entry.
    AuditId = "audit" / "audit entry";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::testing::Seeded;
    use proptest::prelude::*;

    #[test]
    fn is_digit_matches_the_alphabet() {
        for letter in 0..=u8::MAX {
            assert_eq!(is_digit(letter), ALPHABET.contains(&letter), "{letter}");
            let place = ALPHABET.iter().position(|known| *known == letter).unwrap_or(0);
            assert_eq!(usize::from(VALUES[usize::from(letter)]), place);
        }
    }

    #[test]
    fn ids_parse_only_with_their_prefix_and_form() {
        let id = UserId::new(Time::from_millis(1_700_000_000_000), &Seeded::new(1));
        assert_eq!(UserId::parse(id.as_str()).expect("parses its own text"), id);
        assert_eq!(id.to_uuid().map(UserId::from_uuid), Some(id.clone()));
        assert_eq!(ClientId::parse("cli").expect("a fixed id").to_uuid(), None);
        for wrong in ["", "user_", "user_1", &id.as_str().to_uppercase(), &id.as_str().replace("user", "org")]
        {
            assert!(UserId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_million_ids_of_one_millisecond_differ_and_lie_in_the_first_database() {
        let (now, random) = (Time::from_millis(1_700_000_000_000), Seeded::new(7));
        let mut seen = std::collections::HashSet::with_capacity(1_000_000);
        for _ in 0..1_000_000 {
            let id = UserId::new(now, &random);
            assert_eq!(id.to_bytes().map(|bytes| [bytes[9], bytes[10]]), Some([0, 0]), "{id}");
            assert!(seen.insert(id.to_uuid()), "{id}");
        }
    }

    #[test]
    fn what_follows_an_id_lies_in_the_same_database() {
        let last = 0x0190_0000_0000_7fff_bf00_007f_ffff_ffff;
        let next = UserId::from_uuid(last).plus(u32::MAX).to_bytes().expect("a UUID");
        assert_eq!(next[9..11], [0, 0]);
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
