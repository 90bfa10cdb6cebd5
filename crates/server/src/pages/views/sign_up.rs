//! `/o/{slug}/signup`: a new account.

use maud::{Markup, html};

use super::{
    FormError,
    field::{self, Field},
    parts::{error_notice_with, hidden_fields, text_of, titled},
    shell,
};

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
    pub fn markup(&self) -> Markup {
        let error = text_of(self.error);
        let body = html! {
            div.card.stack {
                h1 { "Create an account" }
                p.lead {
                    @match self.client_name {
                        Some(client) => { "to continue to " strong { bdi { (client) } } }
                        None => { "One account for everything from " strong { bdi { (self.org_name) } } }
                    }
                }
                (error_notice_with(error, self.is_taken.then_some(("Sign in instead", self.signin_href))))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (person_fields(self.name, self.email, self.error))
                    button.full type="submit" { "Create account" }
                }
                p.small { "Have an account already? " a href=(self.signin_href) { "Sign in" } }
            }
        };
        shell(&titled(error, "Create an account"), self.org_name, body)
    }
}

/// Name, e-mail and a new password.
pub(super) fn person_fields(name: &str, email: &str, error: Option<&FormError>) -> Markup {
    person_fields_for(name, Field { value: email, ..Field::EMAIL }, error)
}

/// The same with the page's own e-mail field.
pub(super) fn person_fields_for(name: &str, email: Field<'_>, error: Option<&FormError>) -> Markup {
    let new_password = field::new_password(Field::PASSWORD.name, Field::PASSWORD.label);
    field::fields(vec![Field { value: name, ..Field::NAME }, email, new_password], error)
}
