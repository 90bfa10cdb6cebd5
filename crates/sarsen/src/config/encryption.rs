//! What the settings of TLS need of each other. Settings that contradict each other, or protect nothing, are errors.

use super::{Config, Source};
use crate::error::{Error, Result};

impl Config {
    /// The scheme that the server itself speaks.
    pub fn scheme(&self) -> &'static str {
        let is_https = self.tls_certificate.value.is_some() || !self.acme_domains.value.is_empty();
        if is_https { "https" } else { "http" }
    }

    /// A certificate comes from files or from an ACME server, and needs an issuer of https.
    pub(super) fn check_tls(&self) -> Result<()> {
        let (certificate, key) = (&self.tls_certificate, &self.tls_key);
        match (&certificate.value, &key.value) {
            (Some(_), None) => {
                return Err(Error::usage(format!(
                    "tls_certificate ({}) is set and tls_key is not set; set the file of the key",
                    certificate.source
                )));
            }
            (None, Some(_)) => {
                return Err(Error::usage(format!(
                    "tls_key ({}) is set and tls_certificate is not set; set the file of the certificate",
                    key.source
                )));
            }
            (Some(_), Some(_)) => self.check_issuer_is_https("tls_certificate", &certificate.source)?,
            (None, None) => {}
        }
        self.check_acme()
    }

    fn check_acme(&self) -> Result<()> {
        let domains = &self.acme_domains;
        if domains.value.is_empty() {
            let given = [
                ("acme_email", &self.acme_email.source),
                ("acme_directory", &self.acme_directory.source),
                ("acme_cache", &self.acme_cache.source),
            ];
            let alone = given.into_iter().find(|(_, source)| **source != Source::Default);
            return alone.map_or(Ok(()), |(name, source)| {
                Err(Error::usage(format!(
                    "{name} ({source}) is set and acme_domains is not set; set the names of the certificate"
                )))
            });
        }
        if self.tls_certificate.value.is_some() {
            return Err(Error::usage(format!(
                "acme_domains ({}) and tls_certificate ({}) are both set; remove one: the certificate is from an ACME \
                 server or from files",
                domains.source, self.tls_certificate.source
            )));
        }
        if !cfg!(feature = "acme") {
            return Err(Error::usage(format!(
                "acme_domains ({}) is set, and this program was built without ACME; build it with `cargo build --release \
                 --features acme`, or use tls_certificate",
                domains.source
            )));
        }
        self.check_issuer_is_https("acme_domains", &domains.source)?;
        let Some(issuer) = &self.issuer.value else {
            return Err(Error::usage(format!(
                "acme_domains ({}) is set and issuer is not set; set https:// and one of these names",
                domains.source
            )));
        };
        if domains.value.iter().any(|name| name.eq_ignore_ascii_case(issuer.host())) {
            return Ok(());
        }
        Err(Error::usage(format!(
            "issuer = \"{issuer}\" ({}) is not one of acme_domains ({}); add its name",
            self.issuer.source, domains.source
        )))
    }

    fn check_issuer_is_https(&self, name: &str, source: &Source) -> Result<()> {
        match &self.issuer.value {
            Some(issuer) if !issuer.is_https() => Err(Error::usage(format!(
                "issuer = \"{issuer}\" ({}) is not allowed with {name} ({source}): the server speaks HTTPS only; use \
                 https://…",
                self.issuer.source
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use crate::environment::Environment;

    fn load(text: &str) -> std::result::Result<Config, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sarsen.toml");
        std::fs::write(&file, text).expect("written");
        Config::load(&Flags::with_config(file), &Environment::of(&[])).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let files = "tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\n";
        let acme = "acme_domains = [\"id.example.com\"]\n";
        let issuer = "issuer = \"https://id.example.com\"\n";
        assert_eq!(load(files).map(|config| config.scheme()), Ok("https"));
        assert_eq!(load(&format!("{files}{issuer}")).map(drop), Ok(()));
        assert_eq!(load("").map(|config| config.scheme()), Ok("http"));
        for (text, expected) in [
            ("tls_certificate = \"tls.pem\"", "tls_key is not set"),
            ("tls_key = \"tls.key\"", "tls_certificate is not set"),
            (&format!("{files}issuer = \"http://localhost:7070\""), "use https://"),
            (&format!("{files}{acme}{issuer}"), "are both set; remove one"),
            ("acme_email = \"ada@example.com\"", "acme_domains is not set"),
            ("acme_cache = \"certificates\"", "acme_domains is not set"),
            ("acme_domains = \"https://id.example.com\"", "acme_domains"),
            (&format!("{acme}{issuer}acme_email = \"ada\""), "acme_email"),
            (&format!("{acme}{issuer}acme_directory = \"http://ca.test/dir\""), "acme_directory"),
        ] {
            let wrong = load(text).map(drop).expect_err(text);
            assert!(wrong.contains(expected), "{wrong}");
        }
    }

    #[test]
    #[cfg(feature = "acme")]
    fn the_issuer_is_one_of_the_names_of_an_acme_server() {
        let acme = "acme_domains = [\"id.example.com\", \"www.example.com\"]\n";
        let with = |issuer: &str| load(&format!("{acme}issuer = \"{issuer}\""));
        assert_eq!(with("https://id.example.com").map(|config| config.scheme()), Ok("https"));
        assert!(with("https://id.example.org").map(drop).expect_err("another").contains("add its name"));
        assert!(with("http://localhost:7070").map(drop).expect_err("http").contains("use https://"));
        assert!(load(acme).map(drop).expect_err("none").contains("issuer is not set"));
    }

    #[test]
    #[cfg(not(feature = "acme"))]
    fn a_program_without_acme_refuses_its_settings() {
        let text = "acme_domains = [\"id.example.com\"]\nissuer = \"https://id.example.com\"";
        let wrong = load(text).map(drop).expect_err("built without it");
        assert!(wrong.contains("build it with `cargo build --release --features acme`"), "{wrong}");
    }
}
