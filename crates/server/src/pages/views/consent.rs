//! `/consent`: a client requests access; the user allows or denies it.

use maud::{Markup, html};
use texts::Language;

use super::{
    parts::{decision_buttons, hidden_fields, name, scope_list, signed_in_as},
    shell,
};
use crate::pages::language::Html as _;

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
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.html("consent.heading", &[("client", html! { bdi { (self.client_name) } })])) }
                p.lead {
                    (language.html("consent.part_of", &[("service", name(self.service_name)), ("organization", name(self.org_name))]))
                }
                @if let Some(destination) = self.unreviewed {
                    @let values = [("destination", name(destination)), ("organization", html! { bdi { (self.org_name) } })];
                    p.notice.warn { (language.html("consent.unreviewed", &values)) }
                }
                (scope_list(language, self.scopes))
                form method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (decision_buttons(language))
                }
                (signed_in_as(language, self.user_email, self.switch_href))
            }
        };
        shell(language, language.text("consent.title"), self.org_name, body)
    }
}
