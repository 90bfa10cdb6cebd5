//! `/activate`: the user types the code that a device or a terminal shows.

use maud::{Markup, html};
use texts::Language;

use super::{
    field::described_by,
    parts::{error_notice, hidden_fields, titled},
    shell,
};
use crate::pages::sentence::Sentence;

pub struct ActivateEnter<'a> {
    pub brand: &'a str,
    /// The earlier input, or empty.
    pub user_code: &'a str,
    pub error: Option<&'a Sentence>,
    pub csrf: &'a str,
    pub action: &'a str,
}

impl ActivateEnter<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let in_error = self.error.is_some();
        let body = html! {
            div.card.stack {
                h1 { (language.text("activate.title")) }
                p.lead { (language.text("activate.enter")) }
                (error_notice(language, self.error))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, &[]))
                    div {
                        label for="user_code" { (language.text("field.code")) }
                        p.hint id="user_code-hint" { (language.text("field.code_hint")) }
                        input.code-input id="user_code" name="user_code" type="text" required autofocus
                            value=[Some(self.user_code).filter(|code| !code.is_empty())]
                            autocomplete="off" autocapitalize="characters" autocorrect="off"
                            spellcheck="false" inputmode="text" enterkeyhint="next" translate="no"
                            aria-describedby=[described_by(Some("user_code-hint"), in_error)]
                            aria-invalid=[in_error.then_some("true")];
                    }
                    button.full type="submit" { (language.text("page.continue")) }
                }
                p.small { (language.text("activate.give_to_nobody")) }
            }
        };
        let title = titled(language, in_error, language.text("activate.title"));
        shell(language, &title, self.brand, body)
    }
}
