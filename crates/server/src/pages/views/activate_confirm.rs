//! `/activate` with a code: who asks, for what, from where. The page that must stop phishing, so it says
//! what to compare and shows the code large; nothing is approved by opening it.

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
    /// As the device shows it: `XXXX-XXXX`.
    pub user_code: &'a str,
    pub scopes: &'a [ScopeLine<'a>],
    /// The address that asked for the code.
    pub requester_address: &'a str,
    /// When it asked, in words: "2 minutes ago".
    pub requested_ago: &'a str,
    /// What it says it is, such as its user agent; empty when it said nothing.
    pub requester_agent: &'a str,
    /// Allowing asks for the password again (the platform's own clients).
    pub ask_password: bool,
    pub error: Option<&'a str>,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    /// Signs this user out and comes back here.
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

    /// The hidden e-mail tells a password manager whose password to offer; it has no name and is not sent.
    /// The field takes the focus only after an error: the page wants to be read from its top first.
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

/// The code for eyes, and the same spelled letter by letter for ears.
fn large_code(code: &str) -> Markup {
    let spelled: Vec<String> = code.chars().filter(|c| *c != '-').map(String::from).collect();
    html! {
        p {
            span.user-code translate="no" aria-hidden="true" { (code) }
            span.visually-hidden { "The code is " (spelled.join(" ")) }
        }
    }
}
