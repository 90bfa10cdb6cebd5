//! `/activate` from a link with a code: the user compares it with what their device shows (RFC 8628 section 3.3.1). The
//! page does not reveal whether the code exists.

use maud::{Markup, html};
use texts::Language;

use super::{parts::hidden_fields, shell};

pub struct ActivateLink<'a> {
    pub brand: &'a str,
    pub user_code: &'a str,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
}

impl ActivateLink<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 { (language.text("activate.compare")) }
                p.lead { (language.text("activate.compare_lead")) }
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    div {
                        label for="user_code" { (language.text("field.code")) }
                        input.code-input id="user_code" name="user_code" type="text" required
                            value=(self.user_code) autocomplete="off" autocapitalize="characters"
                            autocorrect="off" spellcheck="false" inputmode="text" enterkeyhint="next"
                            translate="no";
                    }
                    button.full type="submit" { (language.text("page.continue")) }
                }
                p.small { (language.text("activate.compare_other")) }
            }
        };
        shell(language, language.text("activate.title"), self.brand, body)
    }
}
