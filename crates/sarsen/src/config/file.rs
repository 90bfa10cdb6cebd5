//! `sarsen.toml`: its settings and their lines.

use super::value::RawValue;
use crate::error::{Error, Result};
use crate::files;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A setting of the file.
pub(super) struct Line {
    pub name: String,
    pub raw: RawValue,
    /// Counted from 1.
    pub line: usize,
}

/// Reads the file. `None`: there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<Line>>> {
    let Some(text) = files::read(path)? else { return Ok(None) };
    let table = DeTable::parse(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(&text, span.start));
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        Error::usage(format!("{} line {line} is not valid TOML: {what}", path.display()))
    })?;
    let settings = table.get_ref().iter().map(|(name, value)| Line {
        name: name.get_ref().to_string(),
        raw: raw(value.get_ref()),
        line: line_of(&text, name.span().start),
    });
    Ok(Some(settings.collect()))
}

fn raw(value: &DeValue<'_>) -> RawValue {
    let other = RawValue::Other(value.type_str());
    match value {
        DeValue::String(text) => RawValue::Text(text.to_string()),
        DeValue::Boolean(flag) => RawValue::Flag(*flag),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(other, RawValue::Number)
        }
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().map_or(other, RawValue::List)
        }
        _ => other,
    }
}

fn line_of(text: &str, position: usize) -> usize {
    text.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
}
