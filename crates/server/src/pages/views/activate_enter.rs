//! `/activate`: the user types the code that a device or a terminal shows.

use maud::{Markup, html};

use super::{
    field::described_by,
    parts::{error_notice, hidden_fields, titled},
    shell,
};

pub struct ActivateEnter<'a> {
    pub brand: &'a str,
    /// The earlier input, or empty.
    pub user_code: &'a str,
    pub error: Option<&'a str>,
    pub csrf: &'a str,
    pub action: &'a str,
}

impl ActivateEnter<'_> {
    pub fn markup(&self) -> Markup {
        let in_error = self.error.is_some();
        let body = html! {
            div.card.stack {
                h1 { "Connect a device" }
                p.lead { "Type the code that your device or terminal shows." }
                (error_notice(self.error))
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, &[]))
                    div {
                        label for="user_code" { "Code" }
                        p.hint id="user_code-hint" { "8 letters, such as BCDF-GHJK" }
                        input.code-input id="user_code" name="user_code" type="text" required autofocus
                            value=[Some(self.user_code).filter(|code| !code.is_empty())]
                            autocomplete="off" autocapitalize="characters" autocorrect="off"
                            spellcheck="false" inputmode="text" enterkeyhint="next" translate="no"
                            aria-describedby=[described_by(Some("user_code-hint"), in_error)]
                            aria-invalid=[in_error.then_some("true")];
                    }
                    button.full type="submit" { "Continue" }
                }
                p.small {
                    "Do not give this code to anyone who calls or writes to you. "
                    "Only type one from a device in front of you."
                }
            }
        };
        shell(&titled(self.error, "Connect a device"), self.brand, body)
    }
}
