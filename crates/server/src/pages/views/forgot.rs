//! `/o/{slug}/forgot`: asks for a mail with which a new password can be set.

use maud::{Markup, html};
use texts::Language;

use super::{
    FormError,
    field::{self, Field},
    parts::{error_notice, hidden_fields, name, sentence_of, titled},
    shell,
};
use crate::pages::language::Html as _;

pub struct Forgot<'a> {
    pub org_name: &'a str,
    /// The earlier input, or empty.
    pub email: &'a str,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    pub signin_href: &'a str,
    pub error: Option<&'a FormError>,
}

impl Forgot<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let title = language.text("forgot.title");
        let email = text::mail::shown(self.email);
        let body = html! {
            div.card.stack {
                h1 { (title) }
                p.lead { (language.html("forgot.lead", &[("organization", name(self.org_name))])) }
                (error_notice(language, sentence_of(self.error)))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (field::fields(language, vec![Field { value: &email, ..Field::EMAIL }], self.error))
                    button.full type="submit" { (language.text("forgot.submit")) }
                }
                p.small { a href=(self.signin_href) { (language.text("forgot.back")) } }
            }
        };
        shell(language, &titled(language, self.error.is_some(), title), self.org_name, body)
    }
}
