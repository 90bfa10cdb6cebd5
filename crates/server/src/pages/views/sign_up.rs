//! `/o/{slug}/signup`: a new account.

use maud::{Markup, html};
use texts::Language;

use super::{
    FormError,
    field::{self, Field},
    parts::{error_notice_with, hidden_fields, name, sentence_of, titled},
    shell,
};
use crate::pages::language::Html as _;

pub struct SignUp<'a> {
    pub org_name: &'a str,
    /// The product to which the user returns, if a client sent them here.
    pub client_name: Option<&'a str>,
    /// The earlier input, or empty.
    pub name: &'a str,
    /// The earlier input, or empty.
    pub email: &'a str,
    pub error: Option<&'a FormError>,
    /// Whether the error is that the e-mail address has an account: then it links to `signin_href`.
    pub is_taken: bool,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    pub signin_href: &'a str,
}

impl SignUp<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let instead = self.is_taken.then_some((language.text("sign_up.sign_in_instead"), self.signin_href));
        let body = html! {
            div.card.stack {
                h1 { (language.text("sign_up.title")) }
                p.lead {
                    @match self.client_name {
                        Some(client) => (language.html("sign_up.to_client", &[("client", name(client))])),
                        None => (language.html("sign_up.with_account", &[("organization", name(self.org_name))])),
                    }
                }
                (error_notice_with(language, sentence_of(self.error), instead))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (person_fields(language, self.name, self.email, self.error))
                    button.full type="submit" { (language.text("sign_up.submit")) }
                }
                p.small { (language.text("page.have_account")) " " a href=(self.signin_href) { (language.text("page.sign_in")) } }
            }
        };
        let title = titled(language, self.error.is_some(), language.text("sign_up.title"));
        shell(language, &title, self.org_name, body)
    }
}

/// Name, e-mail and a new password.
pub(super) fn person_fields(
    language: &Language,
    name: &str,
    email: &str,
    error: Option<&FormError>,
) -> Markup {
    person_fields_for(language, name, Field { value: email, ..Field::EMAIL }, error)
}

/// The same with the page's own e-mail field.
pub(super) fn person_fields_for(
    language: &Language,
    name: &str,
    email: Field<'_>,
    error: Option<&FormError>,
) -> Markup {
    let new_password = field::new_password(Field::PASSWORD.name, Field::PASSWORD.label);
    field::fields(language, vec![Field { value: name, ..Field::NAME }, email, new_password], error)
}
