//! A one-time sign-in link was opened. A form uses it, because mail scanners open links too.

use maud::{Markup, html};
use texts::Language;

use super::parts::{address, hidden_fields};
use super::shell;
use crate::pages::language::Html as _;

pub struct OneTimeLink<'a> {
    pub org_name: &'a str,
    pub user_email: &'a str,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
}

impl OneTimeLink<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.text("one_time_link.heading")) }
                p.lead { (language.html("one_time_link.lead", &[("email", html! { strong { (address(self.user_email)) } })])) }
                form method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    button.full type="submit" { (language.text("page.sign_in")) }
                }
                p.small { (language.text("one_time_link.about")) }
            }
        };
        shell(language, language.text("one_time_link.title"), self.org_name, body)
    }
}
