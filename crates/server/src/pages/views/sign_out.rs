//! The question before a sign-out: opening a link changes nothing.

use super::parts::hidden_fields;
use super::shell;
use maud::{Markup, html};

/// The question.
pub struct SignOut<'a> {
    /// Whose page it is.
    pub brand: &'a str,
    /// Who is signed in.
    pub user_email: &'a str,
    /// The CSRF token.
    pub csrf: &'a str,
    /// Further hidden fields.
    pub hidden: &'a [(&'a str, &'a str)],
    /// Where the form goes.
    pub action: &'a str,
    /// Where "Stay signed in" leads.
    pub stay_href: &'a str,
}

impl SignOut<'_> {
    /// The whole page.
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Sign out?" }
                p.lead { "You are signed in as " strong { bdi { (self.user_email) } } "." }
                form method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    button.full type="submit" { "Sign out" }
                }
                a.button.plain.full href=(self.stay_href) { "Stay signed in" }
            }
        };
        shell("Sign out", self.brand, body)
    }
}
