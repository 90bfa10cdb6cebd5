//! `/o/{slug}/code`: the code of a mail that this browser has asked for. The page does not know whether there is one.

use maud::{Markup, html};
use texts::Language;

use super::{
    FormError,
    field::{self, Field},
    parts::{address, error_notice, hidden_fields, sentence_of, titled},
    shell,
};
use crate::pages::language::Html as _;

pub struct EnterCode<'a> {
    pub org_name: &'a str,
    /// The address that was entered.
    pub email: &'a str,
    /// Whether it is that of the signed-in user.
    pub is_own: bool,
    /// How long a code is good.
    pub minutes: u64,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    /// The form that asks for another mail.
    pub again_href: &'a str,
    pub error: Option<&'a FormError>,
}

impl EnterCode<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let title = language.text("enter_code.title");
        let lead = if self.is_own { "enter_code.lead_own" } else { "enter_code.lead" };
        let email = html! { strong { (address(self.email)) } };
        let body = html! {
            div.card.stack {
                h1 { (title) }
                p.lead { (language.html(lead, &[("email", email)])) }
                (error_notice(language, sentence_of(self.error)))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (field::fields(language, vec![Field::MAILED_CODE], self.error))
                    button.full type="submit" { (language.text("page.continue")) }
                }
                p.small { (language.count("enter_code.about", self.minutes, &[])) }
                p.small { (language.text("enter_code.nothing")) " " a href=(self.again_href) { (language.text("enter_code.again")) } }
            }
        };
        shell(language, &titled(language, self.error.is_some(), title), self.org_name, body)
    }
}
