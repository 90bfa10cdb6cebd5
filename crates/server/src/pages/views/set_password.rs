//! `/password` and `/o/{slug}/reset`: a user sets a password with a one-time link.

use maud::{Markup, html};
use texts::Language;

use super::{
    FormError, field,
    parts::{address, error_notice, hidden_fields, sentence_of, titled},
    shell,
};
use crate::pages::language::Html as _;

pub struct SetPassword<'a> {
    /// The organization's display name.
    pub brand: &'a str,
    pub user_email: &'a str,
    /// Whether the user already has a password.
    pub has_password: bool,
    /// The link of an administrator works until it expires; that of a mail is gone soon.
    pub may_wait: bool,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    pub error: Option<&'a FormError>,
}

impl SetPassword<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let title = if self.has_password { "set_password.title_new" } else { "set_password.title_first" };
        let title = language.text(title);
        let body = html! {
            div.card.stack {
                h1 { (title) }
                p.lead { (language.html("page.for_account", &[("email", html! { strong { (address(self.user_email)) } })])) }
                (error_notice(language, sentence_of(self.error)))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (field::username(self.user_email))
                    (field::fields(language, vec![field::new_password("password", "field.password")], self.error))
                    div.decide {
                        button type="submit" { (language.text("set_password.submit")) }
                        @if self.may_wait {
                            button.plain type="submit" name="later" value="yes" formnovalidate { (language.text("page.not_now")) }
                        }
                    }
                }
                p.small { (language.text(if self.may_wait { "set_password.about" } else { "set_password.about_mail" })) }
            }
        };
        shell(language, &titled(language, self.error.is_some(), title), self.brand, body)
    }
}
