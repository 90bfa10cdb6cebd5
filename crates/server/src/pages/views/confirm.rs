//! `/o/{slug}/confirm`: a mailed link was opened that confirms an address. A form uses it, because mail scanners open links too.

use maud::{Markup, html};
use texts::Language;

use super::parts::{address, hidden_fields, name};
use super::shell;
use crate::pages::language::Html as _;

pub struct Confirm<'a> {
    pub org_name: &'a str,
    pub user_email: &'a str,
    /// Whether the user is signed in here. Otherwise what was set before is void.
    pub keeps_password: bool,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
}

impl Confirm<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let title = language.text("confirm.title");
        let email = [("email", address(self.user_email))];
        let body = html! {
            div.card.stack {
                h1 { (title) }
                p.lead { (language.html("confirm.lead", &[("organization", name(self.org_name))])) }
                @if self.keeps_password {
                    p { (language.text("confirm.keeps_password")) }
                } @else {
                    p { (language.text("confirm.voids_password")) }
                    p { (language.text("confirm.or_code")) }
                }
                form method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    button.full type="submit" { (language.html("confirm.submit", &email)) }
                }
                p.small { (language.text("confirm.about")) }
            }
        };
        shell(language, title, self.org_name, body)
    }
}
