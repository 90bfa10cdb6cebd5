//! `/consent`: a client requests access; the user allows or denies it.

use maud::{Markup, html};

use super::{
    parts::{decision_buttons, hidden_fields, scope_list, signed_in_as},
    shell,
};

/// A scope.
pub struct ScopeLine<'a> {
    /// The scope in the protocol, such as `email`.
    pub name: &'a str,
    /// The scope for people, such as "See your e-mail address".
    pub says: &'a str,
}

pub struct Consent<'a> {
    pub org_name: &'a str,
    pub client_name: &'a str,
    pub service_name: &'a str,
    pub user_email: &'a str,
    /// Where the client's codes go, if a program decided that and no owner has confirmed it.
    pub unreviewed: Option<&'a str>,
    pub scopes: &'a [ScopeLine<'a>],
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    /// Signs this user out and comes back to this page.
    pub switch_href: &'a str,
}

impl Consent<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { bdi { (self.client_name) } " asks to use your account" }
                p.lead {
                    "It is part of " strong { bdi { (self.service_name) } }
                    " by " strong { bdi { (self.org_name) } } "."
                }
                @if let Some(destination) = self.unreviewed {
                    p.notice.warn {
                        "If you allow it, you go on to " strong { bdi { (destination) } } ". A program set this address, and nobody at "
                        bdi { (self.org_name) } " has confirmed it yet. Allow it only if you know the address."
                    }
                }
                (scope_list(self.scopes))
                form method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (decision_buttons())
                }
                (signed_in_as(self.user_email, self.switch_href))
            }
        };
        shell("Allow access", self.org_name, body)
    }
}
