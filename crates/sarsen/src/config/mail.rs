//! What the settings of mail need of each other. A relay without a sender, a user without a password and a sender without a relay are
//! errors.

use super::{Config, SMTP_PASSWORD_VARIABLE, Source};
use crate::error::{Error, Result};

impl Config {
    pub(super) fn check_mail(&self) -> Result<()> {
        let Some(relay) = &self.smtp_url.value else {
            let alone = [
                ("smtp_password_file", &self.smtp_password_file.source),
                ("mail_from", &self.mail_from.source),
                ("mail_dkim_selector", &self.mail_dkim_selector.source),
            ];
            let alone = alone.into_iter().find(|(_, source)| **source != Source::Default);
            return alone.map_or(Ok(()), |(name, source)| {
                Err(Error::usage(format!(
                    "{name} ({source}) is set and smtp_url is not set; set the mail relay"
                )))
            });
        };
        let source = &self.smtp_url.source;
        if self.mail_from.value.is_none() {
            return Err(Error::usage(format!(
                "smtp_url ({source}) is set and mail_from is not set; set the sender of mails, like \
                 Example <mail@example.com>"
            )));
        }
        let has_password = self.smtp_password_file.value.is_some() || self.smtp_password.is_some();
        match (relay.user(), has_password) {
            (Some(_), false) => Err(Error::usage(format!(
                "smtp_url ({source}) has a user, and no password is set; set smtp_password_file or \
                 {SMTP_PASSWORD_VARIABLE}"
            ))),
            (None, true) => Err(Error::usage(format!(
                "a password of the mail relay is set, and smtp_url ({source}) has no user; write it as \
                 smtps://user@host:465, or remove the password"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, print};
    use crate::environment::Environment;

    fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sarsen.toml");
        std::fs::write(&file, text).expect("written");
        Config::load(&Flags::with_config(file), &Environment::of(variables))
    }

    const RELAY: &str =
        "smtp_url = \"smtps://ada@smtp.example.com\"\nmail_from = \"Example <mail@example.com>\"\n";
    const PASSWORD: (&str, &str) = (SMTP_PASSWORD_VARIABLE, "hunter2");

    #[test]
    fn a_relay_has_a_sender_and_a_password_has_a_user() {
        for (text, variables, expected) in [
            ("smtp_url = \"smtp://smtp.example.com\"", &[][..], "mail_from is not set"),
            ("mail_from = \"mail@example.com\"", &[], "smtp_url is not set"),
            ("mail_dkim_selector = \"s1\"", &[], "smtp_url is not set"),
            (RELAY, &[], "has a user, and no password is set"),
            (
                "smtp_url = \"smtp://smtp.example.com\"\nmail_from = \"mail@example.com\"",
                &[PASSWORD],
                "has no user",
            ),
            ("smtp_url = \"smtps://ada:hunter2@smtp.example.com\"", &[], "without a password"),
            ("mail_from = \"Example\"", &[], "use an address, or a name and an address"),
            ("mail_dkim_selector = \"a b\"", &[], "letters, digits, dots and hyphens"),
            ("outgoing_allow = [\"localhost\"]", &[], "ports of addresses"),
            ("outgoing_allow = [\"10.0.0.7/8\"]", &[], "ports of addresses"),
            ("outgoing_proxy = \"https://ada:hunter2@proxy\"", &[], "use http://host:port"),
            ("dns_servers = [\"dns.example.com\"]", &[], "with a port if it is not 53"),
        ] {
            let refused = load(text, variables).expect_err(text).to_string();
            let is_line =
                refused.lines().count() == 1 && refused.contains("line 1") || refused.contains("password");
            assert!(is_line && refused.contains(expected) && !refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn what_is_set_is_shown_without_passwords() {
        let text = [
            RELAY,
            "mail_dkim_selector = \"s1\"\noutgoing_allow = [\"10.0.0.0/8\", \"127.0.0.1:25\"]\n",
            "outgoing_proxy = \"http://ada:hunter2@proxy:3128\"\ndns_servers = \"10.0.0.53,127.0.0.1:5353\"\n",
        ];
        let config = load(&text.concat(), &[PASSWORD]).expect("good");
        assert!(config.has_secrets_in_file(), "the proxy's password");
        let printed = print(&config);
        for line in [
            "smtp_url = \"smtps://ada@smtp.example.com:465\"",
            "mail_from = \"Example <mail@example.com>\"",
            "# smtp_password = ********",
            "outgoing_allow = [\"10.0.0.0/8\", \"127.0.0.1:25\"]",
            "outgoing_proxy = \"http://********@proxy:3128\"",
            "dns_servers = [\"10.0.0.53:53\", \"127.0.0.1:5353\"]",
        ] {
            assert!(printed.contains(line), "{line} is not in:\n{printed}");
        }
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
