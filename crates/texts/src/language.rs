//! One language: its texts, and the English ones where it has none.

use crate::check::DIRECTION;
use crate::file::Text;
use crate::message::{Piece, pieces};
use icu_plurals::{PluralCategory, PluralRules, PluralRulesPreferences};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Texts by their keys, and whose plural rules they follow.
pub(crate) struct Catalog {
    pub texts: HashMap<String, Text>,
    pub rules: PluralRulesPreferences,
}

/// The plural rules. They are looked up in a table of the program each time, because threads cannot share them.
pub(crate) fn rules(of: PluralRulesPreferences) -> PluralRules {
    PluralRules::try_new_cardinal(of).expect("the rules of every language are in the program")
}

impl Catalog {
    /// The text; of one with plural forms, that for this number.
    fn message(&self, key: &str, count: Option<u64>) -> Option<&str> {
        match self.texts.get(key)? {
            Text::One(text) => Some(text),
            Text::Plural(forms) => {
                let category =
                    count.map_or(PluralCategory::Other, |count| rules(self.rules).category_for(count));
                forms.get(&category).or_else(|| forms.get(&PluralCategory::Other)).map(String::as_str)
            }
        }
    }
}

/// A language of a server.
pub struct Language {
    tag: String,
    own: Arc<Catalog>,
    english: Arc<Catalog>,
    /// Texts that were asked for and not there.
    missing: AtomicU64,
}

impl Language {
    pub(crate) fn new(tag: String, own: Arc<Catalog>, english: Arc<Catalog>) -> Language {
        Language { tag, own, english, missing: AtomicU64::new(0) }
    }

    /// Its tag (BCP 47), like `de`.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The direction in which it is written: `ltr` or `rtl`.
    pub fn direction(&self) -> &'static str {
        match self.own.message(DIRECTION, None) {
            Some("rtl") => "rtl",
            _ => "ltr",
        }
    }

    /// A text without placeholders.
    pub fn text<'a>(&'a self, key: &'a str) -> &'a str {
        self.message(key, None)
    }

    /// A text with these values in place of its placeholders. Who shows it on a page escapes the whole.
    pub fn fill(&self, key: &str, values: &[(&str, &str)]) -> String {
        filled(self.message(key, None), values)
    }

    /// The form of a text for a number, which is its value `{count}`.
    pub fn count(&self, key: &str, count: u64, values: &[(&str, &str)]) -> String {
        let number = count.to_string();
        let values: Vec<(&str, &str)> = values.iter().copied().chain([("count", &*number)]).collect();
        filled(self.message(key, Some(count)), &values)
    }

    /// The parts of a text, for a page that puts markup in place of its placeholders.
    pub fn pieces<'a>(&'a self, key: &'a str) -> impl Iterator<Item = Piece<'a>> {
        pieces(self.message(key, None))
    }

    /// How often a text was asked for that this language lacks.
    pub fn missing(&self) -> u64 {
        self.missing.load(Relaxed)
    }

    /// The keys of the texts that it lacks, sorted.
    pub fn lacks(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self
            .english
            .texts
            .keys()
            .filter(|key| !self.own.texts.contains_key(*key))
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        keys
    }

    /// The text, or the English one. A key that nobody has is a defect, which tests find (`xtask/src/tidy/texts.rs`); the
    /// page shows the key.
    fn message<'a>(&'a self, key: &'a str, count: Option<u64>) -> &'a str {
        if let Some(text) = self.own.message(key, count) {
            return text;
        }
        self.missing.fetch_add(1, Relaxed);
        self.english.message(key, count).unwrap_or(key)
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.tag)
    }
}

fn filled(message: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(message.len() + 32);
    for piece in pieces(message) {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Value(name) => {
                let value = values.iter().find(|(known, _)| *known == name);
                text.push_str(value.map_or("", |(_, value)| value));
            }
        }
    }
    text
}
