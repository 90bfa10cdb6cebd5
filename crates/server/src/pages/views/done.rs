//! The last page of a flow: it succeeded or was denied.

use maud::{Markup, html};

use super::shell;

pub struct Done<'a> {
    pub brand: &'a str,
    pub title: &'a str,
    pub text: &'a str,
    /// A tick if the user got the result they wanted, a bar if they stopped the flow.
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
