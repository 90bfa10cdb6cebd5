//! Fields of bodies that may be left out.

use serde::{Deserialize, Deserializer};

/// Reads a field of a change that may be left out, with `#[serde(default)]`. `null` is not a value of it: what is left out
/// stays, so that it must not look as if it were removed.
pub fn sent<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a field that may be `null`: with `#[serde(default)]`, a missing field (`None`, no change) differs from a
/// `null` (`Some(None)`, remove the value).
pub fn nullable<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Whether a flag is not set; then a request leaves it out.
pub(crate) fn is_unset(flag: &bool) -> bool {
    !flag
}
