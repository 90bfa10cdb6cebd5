//! The two orders of changes.
//!
//! - A [`Position`] counts what *this process* has published, in the order in which it first saw the changes. Caches
//!   and watchers go by it. It means nothing to another process.
//! - A [`Version`] is a state of the database in the database's own order. It is the same at every instance on
//!   PostgreSQL. It has an [`Epoch`], which changes when the database's history does: numbers of different epochs do
//!   not compare.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr;

/// How far this process had published changes at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub(crate) u64);

impl Position {
    /// The position of the next change.
    pub(crate) fn next(self) -> Position {
        Position(self.0 + 1)
    }
}

/// A history of the database. A restore, the promotion of a replica that had not received everything and a move begin
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(pub(crate) u64);

impl Epoch {
    /// An epoch that no other process has. For a file, which may be a copy, and for servers without common versions.
    pub(crate) fn of_this_process() -> Epoch {
        Epoch(RandomState::new().hash_one(0))
    }
}

/// A state of the database. Text (`Display`, `FromStr`) has a fixed width, so that versions of one epoch also compare as
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub(crate) epoch: Epoch,
    pub(crate) number: u64,
}

impl Version {
    /// The history that this state belongs to.
    pub fn epoch(self) -> Epoch {
        self.epoch
    }

    /// The state's number within its epoch. On PostgreSQL it is the id of the first transaction that the state cannot
    /// include; on SQLite the number of its last commit.
    pub fn number(self) -> u64 {
        self.number
    }

    /// True if a client that holds `other` may replace it by this state: it is not older, or belongs to another history.
    pub fn replaces(self, other: Version) -> bool {
        self.epoch != other.epoch || self.number >= other.number
    }
}

/// Versions of different epochs are not ordered.
impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        (self.epoch == other.epoch).then(|| self.number.cmp(&other.number))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}.{:016x}", self.epoch.0, self.number)
    }
}

/// The text is not that of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a version; send back the text that an answer carried")]
pub struct InvalidVersion;

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Version, InvalidVersion> {
        let (epoch, number) = text.split_once('.').ok_or(InvalidVersion)?;
        Ok(Version { epoch: Epoch(hexadecimal(epoch)?), number: hexadecimal(number)? })
    }
}

/// Sixteen lower-case digits: other spellings of a number would not compare as text.
fn hexadecimal(text: &str) -> Result<u64, InvalidVersion> {
    let is_digit = |letter: u8| matches!(letter, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == 16 && text.bytes().all(is_digit);
    let number = is_number.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    number.ok_or(InvalidVersion)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(epoch: u64, number: u64) -> Version {
        Version { epoch: Epoch(epoch), number }
    }

    #[test]
    fn versions_of_one_epoch_compare_also_as_text() {
        let numbers = [0, 1, 9, 10, 255, 4096, u64::MAX];
        for one in numbers {
            for other in numbers {
                let (one, other) = (version(7, one), version(7, other));
                assert_eq!(one.partial_cmp(&other), Some(one.to_string().cmp(&other.to_string())));
                assert_eq!(one.replaces(other), one >= other);
            }
        }
    }

    #[test]
    fn a_version_of_another_epoch_is_not_ordered_and_replaces_what_is_held() {
        let (old, new) = (version(7, 100), version(8, 3));
        assert_eq!(new.partial_cmp(&old), None);
        assert!(new.replaces(old) && old.replaces(new));
    }

    #[test]
    fn a_version_reads_back_from_its_text_and_nothing_else_does() {
        let known = version(0xfeed, 42);
        assert_eq!(known.to_string(), "000000000000feed.000000000000002a");
        assert_eq!(known.to_string().parse(), Ok(known));
        let capitals = known.to_string().to_uppercase();
        let short = "feed.2a";
        let signed = "+00000000000feed.000000000000002a";
        for wrong in ["", ".", "42", short, signed, &capitals, &format!("{known} "), &format!("{known}.0")] {
            assert_eq!(wrong.parse::<Version>(), Err(InvalidVersion), "{wrong:?}");
        }
    }
}
