//! The question before a sign-out: opening a link changes nothing.

use super::parts::{address, hidden_fields};
use super::shell;
use maud::{Markup, html};

/// The question.
pub struct SignOut<'a> {
    /// The brand of the page.
    pub brand: &'a str,
    /// The signed-in users: one, or one of each organization.
    pub user_emails: &'a [&'a str],
    /// What is wrong with the request of the product that sent the user here. Then it does not get the user back.
    pub fault: Option<&'a str>,
    /// The CSRF token.
    pub csrf: &'a str,
    /// Further hidden fields.
    pub hidden: &'a [(&'a str, &'a str)],
    /// The form's target.
    pub action: &'a str,
    /// The target of "Stay signed in".
    pub stay_href: &'a str,
}

impl SignOut<'_> {
    /// The whole page.
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Sign out?" }
                p.lead {
                    "You are signed in as "
                    @for (index, email) in self.user_emails.iter().enumerate() {
                        @if index > 0 { (if index + 1 < self.user_emails.len() { ", " } else { " and " }) }
                        strong { (address(email)) }
                    }
                    "."
                }
                @if let Some(fault) = self.fault {
                    p.notice {
                        "The product that sent you here made a mistake, so you will not return to it: " (fault)
                    }
                }
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
