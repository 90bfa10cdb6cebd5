//! `/activate` while very many wrong codes are entered: the user signs in first, at an organization that they name.

use maud::{Markup, html};
use texts::Language;

use super::{
    field::Field,
    parts::{error_notice, hidden_fields, titled},
    shell,
};
use crate::pages::sentence::Sentence;

pub struct ActivateSignIn<'a> {
    pub brand: &'a str,
    pub error: Option<&'a Sentence>,
    pub csrf: &'a str,
    pub action: &'a str,
}

impl ActivateSignIn<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let organization = Field {
            name: "organization",
            label: "activate_sign_in.organization",
            autocomplete: "off",
            hint: Some("activate_sign_in.organization_hint"),
            autofocus: true,
            in_error: self.error.is_some(),
            ..Field::NAME
        };
        let body = html! {
            div.card.stack {
                h1 { (language.text("activate_sign_in.title")) }
                p.lead { (language.text("activate_sign_in.lead")) }
                (error_notice(language, self.error))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, &[]))
                    (organization.markup(language))
                    button.full type="submit" { (language.text("activate_sign_in.submit")) }
                }
            }
        };
        let title = titled(language, self.error.is_some(), language.text("activate_sign_in.title"));
        shell(language, &title, self.brand, body)
    }
}
