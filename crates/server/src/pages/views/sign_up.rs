//! `/o/{slug}/signup`: a new account.

use maud::{Markup, html};

use super::{
    field::{self, Field},
    parts::{error_notice_with, hidden_fields, titled},
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
    pub error: Option<&'a str>,
    /// Whether the error is that the e-mail address has an account: then it links to `signin_href`.
    pub is_taken: bool,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    pub signin_href: &'a str,
}

impl SignUp<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { "Create an account" }
                p.lead {
                    @match self.client_name {
                        Some(client) => { "to continue to " strong { bdi { (client) } } }
                        None => { "One account for everything from " strong { bdi { (self.org_name) } } }
                    }
                }
                (error_notice_with(self.error, self.is_taken.then_some(("Sign in instead", self.signin_href))))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (person_fields(self.name, self.email, self.error.is_some()))
                    button.full type="submit" { "Create account" }
                }
                p.small { "Have an account already? " a href=(self.signin_href) { "Sign in" } }
            }
        };
        shell(&titled(self.error, "Create an account"), self.org_name, body)
    }
}

/// Name, e-mail and a new password; the first empty one has the focus.
pub(super) fn person_fields(name: &str, email: &str, in_error: bool) -> Markup {
    let focused = !name.is_empty() && email.is_empty();
    let field = Field { value: email, autofocus: focused, in_error, ..Field::EMAIL };
    person_fields_for(name, field, in_error)
}

/// The same with the page's own e-mail field.
pub(super) fn person_fields_for(name: &str, email: Field<'_>, in_error: bool) -> Markup {
    let (no_name, no_email) = (name.is_empty(), email.value.is_empty());
    let new_password = Field {
        autofocus: !no_name && !no_email,
        in_error,
        ..field::new_password(Field::PASSWORD.name, Field::PASSWORD.label)
    };
    html! {
        (Field { value: name, autofocus: no_name, in_error, ..Field::NAME }.markup())
        (email.markup())
        (new_password.markup())
    }
}
