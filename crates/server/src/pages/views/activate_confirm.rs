//! `/activate` with a code: which client asks, for what, from where. This page has to stop phishing, so it names
//! what to compare and shows the code large; opening it approves nothing.

use maud::{Markup, html};

use super::{
    ScopeLine,
    field::Field,
    parts::{decision_buttons, error_notice, hidden_fields, scope_list, signed_in_as, titled},
    shell,
};

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
    pub error: Option<&'a str>,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    /// Signs this user out and comes back to this page.
    pub switch_href: &'a str,
}

impl ActivateConfirm<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Is this your device?" }
                p.lead {
                    strong { bdi { (self.client_name) } } " asks to sign in to "
                    strong { bdi { (self.service_name) } } " as you."
                }
                (large_code(self.user_code))
                p.notice.warn {
                    "Only continue if you started this on your own device, and the code there is the same. "
                    "If somebody sent you the code or a link to this page, deny."
                }
                (self.facts())
                (scope_list(self.scopes))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (error_notice(self.error))
                    @if self.ask_password { (self.password_field()) }
                    (decision_buttons())
                }
                (signed_in_as(self.user_email, self.switch_href))
            }
        };
        shell(&titled(self.error, "Connect a device"), self.org_name, body)
    }

    fn facts(&self) -> Markup {
        html! {
            dl.facts {
                dt { "Asked" } dd { (self.requested_ago) }
                dt { "From" } dd { bdi { (self.requester_address) } }
                @if !self.requester_agent.is_empty() {
                    dt { "Says it is" } dd { bdi { (self.requester_agent) } }
                }
            }
        }
    }

    /// The hidden e-mail field is for password managers; it has no name and is not sent.
    /// The field gets the focus only after an error, so that people read the page from its top.
    fn password_field(&self) -> Markup {
        let in_error = self.error.is_some();
        let field = Field {
            label: "Your password",
            hint: Some("This access is powerful, so we ask once more."),
            autofocus: in_error,
            in_error,
            ..Field::PASSWORD
        };
        html! {
            input type="email" value=(self.user_email) autocomplete="username" readonly hidden;
            (field.markup())
        }
    }
}

/// The code, with a label in which screen readers spell it.
fn large_code(code: &str) -> Markup {
    let spelled: Vec<String> = code.chars().filter(|c| *c != '-').map(String::from).collect();
    html! {
        p {
            span.user-code translate="no" aria-hidden="true" { (code) }
            span.visually-hidden { "The code is " (spelled.join(" ")) }
        }
    }
}
