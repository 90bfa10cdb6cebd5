//! The end of a path: it worked, or it was denied; nothing more to do here.

use maud::{Markup, html};

use super::shell;

pub struct Done<'a> {
    pub brand: &'a str,
    pub title: &'a str,
    pub text: &'a str,
    /// A tick when the user got what they came for, a bar when they stopped it.
    pub good: bool,
}

impl Done<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                div.ring.no[!self.good] aria-hidden="true" {}
                h1 { (self.title) }
                p.lead { (self.text) }
            }
        };
        shell(self.title, self.brand, body)
    }
}
