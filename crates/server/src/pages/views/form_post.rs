//! A form that posts itself to a client, with the answer to an authorization request. It is the only page with a script;
//! without one, the user presses the button.

use super::shell;
use maud::{Markup, PreEscaped, html};

/// The script of the page. The policy of the page names its hash, so no other script runs.
pub const SCRIPT: &str = "document.forms[0].submit()";

pub struct FormPost<'a> {
    pub brand: &'a str,
    /// The name of the product.
    pub product: &'a str,
    /// The redirect URI of the client.
    pub action: &'a str,
    pub fields: &'a [(&'a str, &'a str)],
}

impl FormPost<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Continue" }
                p.lead { "to " strong { bdi { (self.product) } } }
                form method="post" action=(self.action) {
                    @for (name, value) in self.fields {
                        input type="hidden" name=(name) value=(value);
                    }
                    button.full type="submit" { "Continue" }
                }
            }
            script { (PreEscaped(SCRIPT)) }
        };
        shell("Continue", self.brand, body)
    }
}
