//! The set-up link: the first platform owner creates their account.

use maud::{Markup, html};
use texts::Language;

use super::{
    FormError, SARSEN,
    parts::{error_notice, hidden_fields, sentence_of, titled},
    shell,
    sign_up::person_fields,
};

pub struct SetUp<'a> {
    pub csrf: &'a str,
    pub action: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub error: Option<&'a FormError>,
    /// The earlier input, or empty.
    pub email: &'a str,
    /// The earlier input, or empty.
    pub name: &'a str,
}

impl SetUp<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.text("set_up.heading")) }
                p.lead { (language.text("set_up.lead")) }
                (error_notice(language, sentence_of(self.error)))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (person_fields(language, self.name, self.email, self.error))
                    button.full type="submit" { (language.text("set_up.submit")) }
                }
                p.small { (language.text("set_up.about")) }
            }
        };
        let title = titled(language, self.error.is_some(), language.text("set_up.title"));
        shell(language, &title, SARSEN, body)
    }
}
