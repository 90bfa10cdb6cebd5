//! An error page: what happened, and what to do.

use maud::{Markup, html};

use super::{Contact, shell};

#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The HTTP status of the answer.
    pub status: u16,
    pub title: &'a str,
    pub what: &'a str,
    pub advice: &'a str,
    /// What the request had.
    pub details: &'a [(&'static str, String)],
    /// That of the organization that the page is about.
    pub contact: Option<Contact<'a>>,
    pub link_text: &'a str,
    /// Empty for the page's own address.
    pub link_href: &'a str,
    /// Whether users have nothing to do at the link.
    pub is_for_administrators: bool,
    pub brand: &'a str,
}

impl Problem<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                p.badge { "Error " (self.status) }
                h1 { (self.title) }
                p { (self.what) }
                @if !self.details.is_empty() {
                    dl.facts.long {
                        @for (name, text) in self.details {
                            dt { (name) } dd translate="no" { bdi { (text) } }
                        }
                    }
                }
                p.lead { (self.advice) }
                @if let Some(contact) = self.contact { (contact.markup()) }
                @if self.is_for_administrators {
                    p.small {
                        "For administrators of this server: " a href=(self.link_href) { (self.link_text) }
                    }
                } @else {
                    a.button.full href=(self.link_href) { (self.link_text) }
                }
            }
        };
        shell(self.title, self.brand, body)
    }
}
