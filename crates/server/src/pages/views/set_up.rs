//! The set-up link: the first platform owner creates their account.

use maud::{Markup, html};

use super::{
    FormError, SARSEN,
    parts::{error_notice, hidden_fields, text_of, titled},
    shell,
    sign_up::person_fields,
};

pub struct SetUp<'a> {
    pub csrf: &'a str,
    pub action: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub error: Option<&'a FormError>,
    /// The earlier input, or empty.
    pub email: &'a str,
    /// The earlier input, or empty.
    pub name: &'a str,
}

impl SetUp<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Welcome to your new server" }
                p.lead {
                    "Make the account of its owner. The owner approves organizations and can do everything "
                    "else, so choose a password that you use nowhere else."
                }
                (error_notice(text_of(self.error)))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (person_fields(self.name, self.email, self.error))
                    button.full type="submit" { "Become the owner" }
                }
                p.small { "This link works once. When the account exists, the link is void." }
            }
        };
        shell(&titled(text_of(self.error), "Set up"), SARSEN, body)
    }
}
