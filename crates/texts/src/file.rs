//! A file of texts: TOML, whose tables are pages and whose values are texts. A text that depends on a number is a table of
//! the plural categories of the language: `{ one = "…", other = "…" }`.

use crate::check::Wrong;
use icu_plurals::PluralCategory;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A file of the operator.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path, for messages.
    pub name: String,
    /// The tag of its language, which is the file's name: `de-AT` of `de-AT.toml`.
    pub tag: String,
    /// Its content.
    pub content: String,
}

/// A text of a language.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    One(String),
    /// One for each category of numbers; `Other` is always there.
    Plural(BTreeMap<PluralCategory, String>),
}

/// A text of a file, and the byte at which it begins there.
pub(crate) struct Entry {
    pub key: String,
    pub at: usize,
    pub text: Text,
}

impl File {
    /// Reads the texts. Their rules are checked later.
    pub(crate) fn read(&self) -> Result<Vec<Entry>, Wrong> {
        let table = DeTable::parse(&self.content).map_err(|error| {
            let what = error.message().lines().collect::<Vec<_>>().join(", ");
            self.wrong(error.span().map_or(0, |span| span.start), format!("this is not valid TOML: {what}"))
        })?;
        let mut entries = Vec::new();
        self.add(&mut entries, "", table.get_ref())?;
        Ok(entries)
    }

    /// What is wrong at a byte of this file. Lines are counted from 1.
    pub(crate) fn wrong(&self, at: usize, what: String) -> Wrong {
        let line = self.content.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        Wrong(format!("{} line {line}: {what}", self.name))
    }

    fn add(&self, entries: &mut Vec<Entry>, section: &str, table: &DeTable<'_>) -> Result<(), Wrong> {
        for (name, value) in table {
            let key = match section {
                "" => name.get_ref().to_string(),
                section => format!("{section}.{}", name.get_ref()),
            };
            let at = name.span().start;
            let text = match value.get_ref() {
                DeValue::String(text) => Text::One(text.to_string()),
                DeValue::Table(forms) if is_plural(forms) => Text::Plural(self.forms(&key, forms)?),
                DeValue::Table(inner) => {
                    self.add(entries, &key, inner)?;
                    continue;
                }
                other => {
                    let what = format!("{key} is of the type {}; use a text in quotes", other.type_str());
                    return Err(self.wrong(at, what));
                }
            };
            entries.push(Entry { key, at, text });
        }
        Ok(())
    }

    fn forms(&self, key: &str, forms: &DeTable<'_>) -> Result<BTreeMap<PluralCategory, String>, Wrong> {
        let read = |(name, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
            let category = category(name.get_ref());
            let text = value.get_ref().as_str();
            category.zip(text).map(|(category, text)| (category, text.to_owned())).ok_or_else(|| {
                let what = format!(
                    "{key} has the form {}; use texts for zero, one, two, few, many and other",
                    name.get_ref()
                );
                self.wrong(name.span().start, what)
            })
        };
        forms.iter().map(read).collect()
    }
}

/// Whether the table is a text with plural forms, and no page.
fn is_plural(table: &DeTable<'_>) -> bool {
    table.keys().any(|name| category(name.get_ref()).is_some())
}

fn category(name: &str) -> Option<PluralCategory> {
    PluralCategory::get_for_cldr_string(name)
}
