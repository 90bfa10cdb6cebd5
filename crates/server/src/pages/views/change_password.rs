//! `/o/{slug}/account/password`: a signed-in user changes the password.

use maud::{Markup, html};

use super::{
    FormError,
    field::{self, Field},
    parts::{address, error_notice, hidden_fields, text_of, titled},
    shell,
};

/// What proves that the user changes the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldPassword {
    /// The user signed in a short while ago.
    NotNeeded,
    /// The user enters the old password.
    Needed,
    /// The account has no password, and the sign-in is too long ago.
    None,
}

pub struct ChangePassword<'a> {
    /// The organization's display name.
    pub brand: &'a str,
    pub user_email: &'a str,
    pub old: OldPassword,
    pub csrf: &'a str,
    pub action: &'a str,
    pub account_href: &'a str,
    pub error: Option<&'a FormError>,
}

impl ChangePassword<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Change your password" }
                p.lead { "for the account " strong { (address(self.user_email)) } }
                (error_notice(text_of(self.error)))
                @if self.old == OldPassword::None {
                    p {
                        "This account has no password, and you signed in more than ten minutes ago. Ask an administrator \
                         for a link to set a password."
                    }
                } @else {
                    (self.form())
                }
                p.small { a href=(self.account_href) { "Back to your account" } }
            }
        };
        shell(&titled(text_of(self.error), "Change your password"), self.brand, body)
    }

    fn form(&self) -> Markup {
        let old = Field { label: "Current password", ..Field::PASSWORD };
        let old = (self.old == OldPassword::Needed).then_some(old);
        let new = field::new_password("new_password", "New password");
        let fields = old.into_iter().chain([new]).collect();
        html! {
            form.stack method="post" action=(self.action) {
                (hidden_fields(self.csrf, &[]))
                (field::username(self.user_email))
                (field::fields(fields, self.error))
                button.full type="submit" { "Change the password" }
                p.small { "You stay signed in here and are signed out everywhere else." }
            }
        }
    }
}
