//! A form that posts itself to a client, with the answer to an authorization request. It is the only page with a script;
//! without one, the user presses the button.

use super::{parts::name, shell};
use crate::pages::language::Html as _;
use maud::{Markup, PreEscaped, html};
use texts::Language;

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
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.text("form_post.title")) }
                p.lead { (language.html("form_post.to_product", &[("product", name(self.product))])) }
                form method="post" action=(self.action) {
                    @for (field, value) in self.fields {
                        input type="hidden" name=(field) value=(value);
                    }
                    button.full type="submit" { (language.text("form_post.title")) }
                }
            }
            script { (PreEscaped(SCRIPT)) }
        };
        shell(language, language.text("form_post.title"), self.brand, body)
    }
}
