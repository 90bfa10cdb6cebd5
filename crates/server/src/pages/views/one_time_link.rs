//! A one-time sign-in link was opened. A form uses it, because mail scanners open links too.

use maud::{Markup, html};

use super::parts::{address, hidden_fields};
use super::shell;

pub struct OneTimeLink<'a> {
    pub org_name: &'a str,
    pub user_email: &'a str,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
}

impl OneTimeLink<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Sign in with this link" }
                p.lead { "You will be signed in as " strong { (address(self.user_email)) } "." }
                form method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    button.full type="submit" { "Sign in" }
                }
                p.small {
                    "The link works once. If you did not ask for it, close this page and nothing happens."
                }
            }
        };
        shell("Sign in with a link", self.org_name, body)
    }
}
