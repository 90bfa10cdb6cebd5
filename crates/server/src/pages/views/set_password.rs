//! `/password`: a user sets a password with a one-time link.

use maud::{Markup, html};

use super::{
    FormError, field,
    parts::{address, error_notice, hidden_fields, text_of, titled},
    shell,
};

pub struct SetPassword<'a> {
    /// The organization's display name.
    pub brand: &'a str,
    pub user_email: &'a str,
    /// Whether the user already has a password.
    pub has_password: bool,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    pub error: Option<&'a FormError>,
}

impl SetPassword<'_> {
    pub fn markup(&self) -> Markup {
        let title = if self.has_password { "Choose a new password" } else { "Choose a password" };
        let body = html! {
            div.card.stack {
                h1 { (title) }
                p.lead { "for the account " strong { (address(self.user_email)) } }
                (error_notice(text_of(self.error)))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (field::username(self.user_email))
                    (field::fields(vec![field::new_password("password", "Password")], self.error))
                    div.decide {
                        button type="submit" { "Set password" }
                        button.plain type="submit" name="later" value="yes" formnovalidate { "Not now" }
                    }
                }
                p.small {
                    "This signs you in here and signs you out everywhere else. The link works once. \"Not now\" changes \
                     nothing, and the link works until it expires."
                }
            }
        };
        shell(&titled(text_of(self.error), title), self.brand, body)
    }
}
