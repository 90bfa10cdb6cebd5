//! `/o/{slug}/signup` where people cannot create accounts themselves.

use maud::{Markup, html};

use super::{Contact, shell};

pub struct SignUpClosed<'a> {
    pub org_name: &'a str,
    pub contact: Option<Contact<'a>>,
    pub signin_href: &'a str,
}

impl SignUpClosed<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Sign-up is closed" }
                p {
                    "The administrators of " strong { bdi { (self.org_name) } }
                    " create the accounts here. Ask one of them for an account or an invitation."
                }
                @if let Some(contact) = self.contact { (contact.markup()) }
                p { "Have an account already? " a href=(self.signin_href) { "Sign in" } }
            }
        };
        shell("Sign-up is closed", self.org_name, body)
    }
}
