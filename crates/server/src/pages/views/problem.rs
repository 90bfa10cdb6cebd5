//! An error page: what happened, and what to do.

use maud::{Markup, html};
use texts::Language;

use super::{Contact, shell};
use crate::pages::language::Html as _;
use crate::pages::sentence::Sentence;

/// What a detail is called.
#[derive(Clone, Copy, Debug)]
pub enum Label {
    /// The text with this key.
    Text(&'static str),
    /// The name of a parameter.
    Parameter(&'static str),
}

#[derive(Clone)]
pub struct Problem<'a> {
    /// The HTTP status of the answer.
    pub status: u16,
    pub title: Sentence,
    pub what: Sentence,
    pub advice: Sentence,
    /// What the request had.
    pub details: &'a [(Label, String)],
    /// That of the organization that the page is about.
    pub contact: Option<Contact<'a>>,
    /// The key of its text.
    pub link_text: &'static str,
    /// Empty for the page's own address.
    pub link_href: &'a str,
    /// Whether users have nothing to do at the link.
    pub is_for_administrators: bool,
    pub brand: &'a str,
}

impl Label {
    fn text(self, language: &Language) -> &str {
        match self {
            Label::Text(key) => language.text(key),
            Label::Parameter(name) => name,
        }
    }
}

impl Problem<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let (title, link) = (self.title.text(language), language.text(self.link_text));
        let body = html! {
            div.card.stack {
                p.badge { (language.fill("problem.badge", &[("status", &self.status.to_string())])) }
                h1 { (title) }
                p { (self.what.markup(language)) }
                @if !self.details.is_empty() {
                    dl.facts.long {
                        @for (label, text) in self.details {
                            dt { (label.text(language)) } dd translate="no" { bdi { (text) } }
                        }
                    }
                }
                p.lead { (self.advice.markup(language)) }
                @if let Some(contact) = self.contact { (contact.markup(language)) }
                @if self.is_for_administrators {
                    p.small {
                        (language.html("problem.for_administrators", &[("link", html! { a href=(self.link_href) { (link) } })]))
                    }
                } @else {
                    a.button.full href=(self.link_href) { (link) }
                }
            }
        };
        shell(language, &title, self.brand, body)
    }
}
