//! The last page of a flow: it succeeded or was denied.

use maud::{Markup, html};
use texts::Language;

use super::shell;

pub struct Done<'a> {
    pub brand: &'a str,
    /// The key of its title.
    pub title: &'static str,
    /// The key of its text.
    pub text: &'static str,
    /// A tick if the user got the result they wanted, a bar if they stopped the flow.
    pub good: bool,
}

impl Done<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                div.ring.no[!self.good] aria-hidden="true" {}
                h1 { (language.text(self.title)) }
                p.lead { (language.text(self.text)) }
            }
        };
        shell(language, language.text(self.title), self.brand, body)
    }
}
