//! `/o/{slug}/signup` where people cannot create accounts themselves.

use maud::{Markup, html};
use texts::Language;

use super::{Contact, parts::name, shell};
use crate::pages::language::Html as _;

pub struct SignUpClosed<'a> {
    pub org_name: &'a str,
    pub contact: Option<Contact<'a>>,
    pub signin_href: &'a str,
}

impl SignUpClosed<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.text("sign_up_closed.title")) }
                p { (language.html("sign_up_closed.what", &[("organization", name(self.org_name))])) }
                @if let Some(contact) = self.contact { (contact.markup(language)) }
                p { (language.text("page.have_account")) " " a href=(self.signin_href) { (language.text("page.sign_in")) } }
            }
        };
        shell(language, language.text("sign_up_closed.title"), self.org_name, body)
    }
}
