//! The rules that a file of texts keeps: only texts that exist, the placeholders of each, and the plural forms of its
//! language. A file that breaks one stops the start with one line.

use crate::file::{Entry, File, Text};
use crate::language::Catalog;
use crate::message::placeholders;
use icu_plurals::{PluralCategory, PluralRules};
use std::collections::BTreeSet;
use std::fmt;

/// The text that says in which direction a language is written.
pub(crate) const DIRECTION: &str = "language.direction";
const DIRECTIONS: [&str; 2] = ["ltr", "rtl"];

/// What is wrong with a file or with the setting of languages: where, what, and what would be right, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub(crate) String);

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// Reads the texts of a file and checks them against the texts that there are.
pub(crate) fn checked(file: &File, known: &Catalog, rules: &PluralRules) -> Result<Vec<Entry>, Wrong> {
    let entries = file.read()?;
    for entry in &entries {
        let Some(model) = known.texts.get(&entry.key) else {
            let what = unknown(&entry.key, known);
            return Err(file.wrong(entry.at, what));
        };
        check(&entry.text, model, rules)
            .and_then(|()| check_direction(entry))
            .map_err(|what| file.wrong(entry.at, format!("{} {what}", entry.key)))?;
    }
    Ok(entries)
}

fn unknown(key: &str, known: &Catalog) -> String {
    let nearest = text::nearest(key, known.texts.keys().map(String::as_str));
    match nearest {
        Some(nearest) => format!("there is no text {key}; use {nearest}"),
        None => format!("there is no text {key}; remove it, or use a key of the built-in en.toml"),
    }
}

fn check_direction(entry: &Entry) -> Result<(), String> {
    match &entry.text {
        Text::One(direction) if entry.key == DIRECTION && !DIRECTIONS.contains(&direction.as_str()) => {
            Err(format!("is {direction:?}; use \"ltr\" or \"rtl\""))
        }
        _ => Ok(()),
    }
}

fn check(text: &Text, model: &Text, rules: &PluralRules) -> Result<(), String> {
    match (text, model) {
        (Text::One(text), Text::One(model)) => same_placeholders(text, model),
        (Text::One(_), Text::Plural(_)) => {
            Err(format!("depends on a number; use a table of the forms {}", forms_of(rules)))
        }
        (Text::Plural(_), Text::One(_)) => Err("depends on no number; use one text".to_owned()),
        (Text::Plural(forms), Text::Plural(models)) => {
            let Some(other) = forms.get(&PluralCategory::Other) else {
                return Err(format!("lacks the form other; use {}", forms_of(rules)));
            };
            let model = models.get(&PluralCategory::Other).map_or("", String::as_str);
            same_placeholders(other, model)?;
            let allowed: BTreeSet<PluralCategory> = rules.categories().collect();
            for (category, form) in forms {
                if !allowed.contains(category) {
                    let (form, forms) = (name(*category), forms_of(rules));
                    return Err(format!(
                        "has the form {form}, which no number of this language has; use {forms}"
                    ));
                }
                // "a second" needs no number.
                let (own, all) = (placeholders(form)?, placeholders(model)?);
                if let Some(unknown) = own.difference(&all).next() {
                    return Err(format!("has the placeholder {{{unknown}}}; use {}", listed(&all)));
                }
            }
            Ok(())
        }
    }
}

fn same_placeholders(text: &str, model: &str) -> Result<(), String> {
    let (own, all) = (placeholders(text)?, placeholders(model)?);
    if let Some(unknown) = own.difference(&all).next() {
        return Err(format!("has the placeholder {{{unknown}}}; use {}", listed(&all)));
    }
    match all.difference(&own).next() {
        Some(missing) => Err(format!("lacks the placeholder {{{missing}}}; use {}", listed(&all))),
        None => Ok(()),
    }
}

fn listed(names: &BTreeSet<&str>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" and ") }
}

fn forms_of(rules: &PluralRules) -> String {
    let names: BTreeSet<PluralCategory> = rules.categories().collect();
    names.into_iter().map(name).collect::<Vec<_>>().join(", ")
}

fn name(category: PluralCategory) -> &'static str {
    match category {
        PluralCategory::Zero => "zero",
        PluralCategory::One => "one",
        PluralCategory::Two => "two",
        PluralCategory::Few => "few",
        PluralCategory::Many => "many",
        PluralCategory::Other => "other",
    }
}
