//! `/activate` while very many wrong codes are entered: the user signs in first, at an organization that they name.

use maud::{Markup, html};

use super::{
    field::Field,
    parts::{error_notice, hidden_fields, titled},
    shell,
};

pub struct ActivateSignIn<'a> {
    pub brand: &'a str,
    pub error: Option<&'a str>,
    pub csrf: &'a str,
    pub action: &'a str,
}

impl ActivateSignIn<'_> {
    pub fn markup(&self) -> Markup {
        let organization = Field {
            name: "organization",
            label: "Organization",
            autocomplete: "off",
            hint: Some(
                "Its short name: acme, if its sign-in page is /o/acme/login. Administrators: platform.",
            ),
            autofocus: true,
            in_error: self.error.is_some(),
            ..Field::NAME
        };
        let body = html! {
            div.card.stack {
                h1 { "Sign in first" }
                p.lead { "Very many wrong codes are being entered at this moment. Sign in, then enter your code." }
                (error_notice(self.error))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, &[]))
                    (organization.markup())
                    button.full type="submit" { "Go to sign-in" }
                }
            }
        };
        shell(&titled(self.error, "Sign in first"), self.brand, body)
    }
}
