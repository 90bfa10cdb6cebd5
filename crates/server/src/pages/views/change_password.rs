//! `/o/{slug}/account/password`: a signed-in user changes the password.

use maud::{Markup, html};
use texts::Language;

use super::{
    FormError,
    field::{self, Field},
    parts::{address, error_notice, hidden_fields, sentence_of, titled},
    shell,
};
use crate::pages::language::Html as _;

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
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.text("change_password.title")) }
                p.lead { (language.html("page.for_account", &[("email", html! { strong { (address(self.user_email)) } })])) }
                (error_notice(language, sentence_of(self.error)))
                @if self.old == OldPassword::None {
                    p { (language.text("change_password.without")) }
                } @else {
                    (self.form(language))
                }
                p.small { a href=(self.account_href) { (language.text("change_password.back")) } }
            }
        };
        let title = titled(language, self.error.is_some(), language.text("change_password.title"));
        shell(language, &title, self.brand, body)
    }

    fn form(&self, language: &Language) -> Markup {
        let old = Field { label: "field.current_password", ..Field::PASSWORD };
        let old = (self.old == OldPassword::Needed).then_some(old);
        let new = field::new_password("new_password", "field.new_password");
        let fields = old.into_iter().chain([new]).collect();
        html! {
            form.stack method="post" action=(self.action) {
                (hidden_fields(self.csrf, &[]))
                (field::username(self.user_email))
                (field::fields(language, fields, self.error))
                button.full type="submit" { (language.text("change_password.submit")) }
                p.small { (language.text("change_password.sessions_end")) }
            }
        }
    }
}
