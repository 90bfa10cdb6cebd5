//! A sentence of a page before its language is known: the key of its text, and its values.

use super::language::Html as _;
use super::time;
use maud::{Markup, html};
use std::time::Duration;
use texts::Language;

/// A sentence: an error, a message about an event, a fault.
#[derive(Clone, Debug)]
pub(crate) struct Sentence {
    key: &'static str,
    values: Vec<(&'static str, Value)>,
}

#[derive(Clone, Debug)]
enum Value {
    Text(String),
    /// A time to wait, in seconds.
    Wait(u64),
}

impl Sentence {
    /// The text with this key.
    pub(crate) fn new(key: &'static str) -> Sentence {
        Sentence { key, values: Vec::new() }
    }

    /// The same with a value in place of a placeholder.
    pub(crate) fn value(mut self, name: &'static str, text: impl Into<String>) -> Sentence {
        self.values.push((name, Value::Text(text.into())));
        self
    }

    /// The same with the time to wait in place of `{wait}`.
    pub(crate) fn wait(mut self, wait: Duration) -> Sentence {
        self.values.push(("wait", Value::Wait(wait.as_millis().div_ceil(1000) as u64)));
        self
    }

    /// As plain text, for titles.
    pub(crate) fn text(&self, language: &Language) -> String {
        let shown: Vec<(&str, String)> =
            self.values.iter().map(|(name, value)| (*name, value.text(language))).collect();
        let values: Vec<(&str, &str)> = shown.iter().map(|(name, text)| (*name, &**text)).collect();
        language.fill(self.key, &values)
    }

    /// As it stands on a page: values of others do not change the direction of the text around them.
    pub(crate) fn markup(&self, language: &Language) -> Markup {
        let shown = |(name, value): &(&'static str, Value)| {
            let text = value.text(language);
            let is_number = text.bytes().all(|letter| letter.is_ascii_digit());
            let shown = match value {
                Value::Text(_) if !is_number => html! { bdi { (text) } },
                _ => html! { (text) },
            };
            (*name, shown)
        };
        let values: Vec<(&str, Markup)> = self.values.iter().map(shown).collect();
        language.html(self.key, &values)
    }
}

impl Value {
    fn text(&self, language: &Language) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Wait(seconds) => time::wait(language, *seconds),
        }
    }
}
