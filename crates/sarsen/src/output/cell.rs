//! Values as people read them.

use super::sanitize;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The end of an id that is shown on a narrow terminal: the random letters are there.
const ID_END: usize = 6;

/// A value of a record or a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The field is not in the object: a record leaves it out.
    Absent,
    /// Any text. An empty one is shown as `-`.
    Text(String),
    /// An id. A narrow terminal shows its end.
    Id(String),
    /// A name with the id of the same thing. A narrow terminal shows the name.
    Named(String, String),
}

impl Cell {
    /// A value that may be missing: a record leaves it out then.
    pub fn optional(value: Option<impl Into<Cell>>) -> Cell {
        value.map_or(Cell::Absent, Into::into)
    }

    /// A value that may be null: it is shown as `-` then.
    pub fn nullable(value: Option<impl Into<Cell>>) -> Cell {
        value.map_or(Cell::Text(String::new()), Into::into)
    }

    /// An e-mail address: an internationalized domain in its own letters, where that is safe.
    pub fn address(email: &str) -> Cell {
        Cell::Text(sanitize(&text::mail::shown(email)))
    }

    /// A time of the API. One that this program cannot read is shown as it came.
    pub fn time(text: &str) -> Cell {
        text.parse().map_or_else(|_| Cell::Text(sanitize(text)), |time| Cell::from(&Time(time)))
    }

    /// An id.
    pub fn id(id: &str) -> Cell {
        Cell::Id(sanitize(id))
    }

    /// A thing with its id, and its name where it is known. The name may be an e-mail address.
    pub fn named(name: Option<&str>, id: &str) -> Cell {
        match name.filter(|name| !name.is_empty()) {
            Some(name) => Cell::Named(sanitize(&text::mail::shown(name)), sanitize(id)),
            None => Cell::id(id),
        }
    }

    /// The whole value.
    pub(super) fn whole(&self) -> String {
        match self {
            Cell::Absent => "-".to_owned(),
            Cell::Text(text) | Cell::Id(text) if text.is_empty() => "-".to_owned(),
            Cell::Text(text) | Cell::Id(text) => text.clone(),
            Cell::Named(name, id) => format!("{name} ({id})"),
        }
    }

    /// The value without an id beside a name.
    pub(super) fn without_id(&self) -> String {
        match self {
            Cell::Named(name, _) => name.clone(),
            other => other.whole(),
        }
    }

    /// The same, and an id by its end alone: `user_…k3m9q2`.
    pub(super) fn short(&self) -> String {
        match self {
            Cell::Id(id) => {
                let (prefix, rest) = id.split_once('_').unwrap_or(("", id));
                match rest.char_indices().nth_back(ID_END - 1) {
                    Some((at, _)) if at > ID_END => format!("{prefix}_…{}", &rest[at..]),
                    _ => self.whole(),
                }
            }
            other => other.without_id(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(sanitize(text))
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::from(text.as_str())
    }
}

impl From<bool> for Cell {
    fn from(yes: bool) -> Cell {
        Cell::from(if yes { "yes" } else { "no" })
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Text(number.to_string())
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Text(number.to_string())
    }
}

impl From<&Vec<String>> for Cell {
    fn from(items: &Vec<String>) -> Cell {
        Cell::from(items.join(", ").as_str())
    }
}

impl<V: fmt::Display> From<&BTreeMap<String, V>> for Cell {
    fn from(values: &BTreeMap<String, V>) -> Cell {
        let pairs: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Cell::from(pairs.join(", ").as_str())
    }
}

impl From<&Time> for Cell {
    fn from(time: &Time) -> Cell {
        Cell::Text(time.to_string())
    }
}

/// A time of the API (RFC 3339). It is shown to the second, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.strftime("%Y-%m-%d %H:%M:%SZ"))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Time).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_second() {
        for text in ["2026-11-22T18:06:54.02Z", "2026-11-22T18:06:54.999Z", "2026-11-22T19:06:54+01:00"] {
            let time: Time = serde_json::from_value(text.into()).expect(text);
            assert_eq!(time.to_string(), "2026-11-22 18:06:54Z");
        }
        assert!(serde_json::from_value::<Time>("yesterday".into()).is_err());
    }

    #[test]
    fn an_id_is_shortened_to_its_prefix_and_its_end() {
        assert_eq!(Cell::id("user_01kapj7yqfexr8qpb6jyk3m9q2").short(), "user_…k3m9q2");
        for short in ["user_1", "", "system"] {
            assert_eq!(Cell::id(short).short(), Cell::id(short).whole());
        }
        let named = Cell::named(Some("Ada"), "user_01kapj7yqfexr8qpb6jyk3m9q2");
        assert_eq!((named.whole().len(), named.short().as_str()), (37, "Ada"));
        assert_eq!(Cell::named(Some(""), "system"), Cell::id("system"));
    }
}
