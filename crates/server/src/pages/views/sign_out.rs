//! The question before a sign-out: opening a link changes nothing.

use super::parts::{address, hidden_fields};
use super::shell;
use crate::pages::language::Html as _;
use crate::pages::sentence::Sentence;
use maud::{Markup, html};
use texts::Language;

/// The question.
pub struct SignOut<'a> {
    /// The brand of the page.
    pub brand: &'a str,
    /// The signed-in users: one, or one of each organization.
    pub user_emails: &'a [&'a str],
    /// What is wrong with the request of the product that sent the user here. Then it does not get the user back.
    pub fault: Option<&'a Sentence>,
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
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.text("sign_out.question")) }
                p.lead { (language.html("sign_out.who", &[("emails", self.emails(language))])) }
                @if let Some(fault) = self.fault {
                    p.notice { (language.html("sign_out.fault", &[("fault", fault.markup(language))])) }
                }
                form method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    button.full type="submit" { (language.text("sign_out.title")) }
                }
                a.button.plain.full href=(self.stay_href) { (language.text("sign_out.stay")) }
            }
        };
        shell(language, language.text("sign_out.title"), self.brand, body)
    }

    /// "A, B and C".
    fn emails(&self, language: &Language) -> Markup {
        let shown = |email: &&str| html! { strong { (address(email)) } };
        let last = self.user_emails.len().saturating_sub(1);
        let mut all = html! {};
        for (index, email) in self.user_emails.iter().enumerate() {
            let joint = if index == last { "page.and" } else { "page.comma" };
            all = match index {
                0 => shown(email),
                _ => language.html(joint, &[("first", all), ("last", shown(email))]),
            };
        }
        all
    }
}
