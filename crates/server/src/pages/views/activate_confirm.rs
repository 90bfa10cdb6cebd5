//! `/activate` with a code: which client asks, for what, from where. This page has to stop phishing, so it names
//! what to compare and shows the code large; opening it approves nothing.

use maud::{Markup, html};
use texts::Language;

use super::{
    ScopeLine,
    field::Field,
    parts::{decision_buttons, error_notice, hidden_fields, name, scope_list, signed_in_as, titled},
    shell,
};
use crate::pages::language::Html as _;
use crate::pages::sentence::Sentence;

pub struct ActivateConfirm<'a> {
    pub org_name: &'a str,
    pub client_name: &'a str,
    pub service_name: &'a str,
    pub user_email: &'a str,
    /// In the format of the device: `XXXX-XXXX`.
    pub user_code: &'a str,
    pub scopes: &'a [ScopeLine<'a>],
    /// The address that requested the code.
    pub requester_address: &'a str,
    /// The time of the request, in words: "2 minutes ago".
    pub requested_ago: &'a str,
    /// The `User-Agent` of that request; empty if it sent none.
    pub requester_agent: &'a str,
    /// Allowing asks for the password again (the platform's own clients).
    pub ask_password: bool,
    pub error: Option<&'a Sentence>,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    /// Signs this user out and comes back to this page.
    pub switch_href: &'a str,
}

impl ActivateConfirm<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let who = [("client", name(self.client_name)), ("service", name(self.service_name))];
        let body = html! {
            div.card.stack {
                h1 { (language.text("activate_confirm.heading")) }
                p.lead { (language.html("activate_confirm.lead", &who)) }
                (large_code(language, self.user_code))
                p.notice.warn { (language.text("activate_confirm.warning")) }
                (self.facts(language))
                (scope_list(language, self.scopes))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (error_notice(language, self.error))
                    @if self.ask_password { (self.password_field(language)) }
                    (decision_buttons(language))
                }
                (signed_in_as(language, self.user_email, self.switch_href))
            }
        };
        let title = titled(language, self.error.is_some(), language.text("activate.title"));
        shell(language, &title, self.org_name, body)
    }

    fn facts(&self, language: &Language) -> Markup {
        html! {
            dl.facts {
                dt { (language.text("activate_confirm.asked")) } dd { (self.requested_ago) }
                dt { (language.text("activate_confirm.from")) } dd { bdi { (self.requester_address) } }
                @if !self.requester_agent.is_empty() {
                    dt { (language.text("activate_confirm.says_it_is")) } dd { bdi { (self.requester_agent) } }
                }
            }
        }
    }

    /// The hidden e-mail field is for password managers; it has no name and is not sent.
    /// The field gets the focus only after an error, so that people read the page from its top.
    fn password_field(&self, language: &Language) -> Markup {
        let in_error = self.error.is_some();
        let field = Field {
            label: "activate_confirm.your_password",
            hint: Some("activate_confirm.password_hint"),
            autofocus: in_error,
            in_error,
            ..Field::PASSWORD
        };
        html! {
            input type="email" value=(self.user_email) autocomplete="username" readonly hidden;
            (field.markup(language))
        }
    }
}

/// The code, with a label in which screen readers spell it.
fn large_code(language: &Language, code: &str) -> Markup {
    let spelled: Vec<String> = code.chars().filter(|c| *c != '-').map(String::from).collect();
    html! {
        p {
            span.user-code translate="no" aria-hidden="true" { (code) }
            span.visually-hidden { (language.fill("activate_confirm.spelled", &[("code", &spelled.join(" "))])) }
        }
    }
}
