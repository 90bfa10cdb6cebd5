//! The files of the certificate and its key: read at the start, and again when they change.

use crate::api_client;
use crate::config::Config;
use crate::error::{Error, Result};
use server::{Tls, TlsError};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the files are read again.
const EVERY: Duration = Duration::from_secs(10);

/// The files, and what was read of them last.
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    last: (Vec<u8>, Vec<u8>),
    tls: Tls,
}

impl Files {
    /// Reads the files of the configuration; none if it names none.
    pub fn read(config: &Config) -> Result<Option<Files>> {
        let paths = config.tls_certificate.value.clone().zip(config.tls_key.value.clone());
        let Some((certificate, key)) = paths else { return Ok(None) };
        let last = contents(&certificate, &key)?;
        let tls = Tls::new(&last.0, &last.1).map_err(|error| named(&certificate, &key, &error))?;
        warn_if_ended(&tls, &certificate);
        Ok(Some(Files { certificate, key, last, tls }))
    }

    /// The certificate that connections use; it follows the files.
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Reads the files again and again.
    pub async fn follow(mut self) {
        loop {
            tokio::time::sleep(EVERY).await;
            let looked = tokio::task::spawn_blocking(move || {
                let found = self.look();
                (self, found)
            });
            let Ok((files, found)) = looked.await else { return };
            self = files;
            match found {
                Ok(true) => {
                    tracing::info!("the TLS certificate was replaced");
                    warn_if_ended(&self.tls, &self.certificate);
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the TLS certificate stays as it is"),
            }
        }
    }

    /// Uses the files if they have changed. Returns whether they have. Content that cannot be used is an error once.
    fn look(&mut self) -> Result<bool> {
        let found = contents(&self.certificate, &self.key)?;
        if found == self.last {
            return Ok(false);
        }
        let replaced = self.tls.replace(&found.0, &found.1);
        self.last = found;
        replaced.map(|()| true).map_err(|error| named(&self.certificate, &self.key, &error))
    }
}

/// It is used all the same: some clients do not look, and a new one is used as soon as it is there.
fn warn_if_ended(tls: &Tls, certificate: &Path) {
    if tls.ends().is_some_and(|ends| ends <= api_client::now()) {
        let file = certificate.display();
        tracing::warn!(%file, "the TLS certificate has ended, so clients refuse it; renew it");
    }
}

fn contents(certificate: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let read = |name: &str, path: &Path| {
        fs::read(path).map_err(|error| {
            Error::failed(format!(
                "cannot read {} ({name}): {error}; check the path and its owner",
                path.display()
            ))
        })
    };
    Ok((read("tls_certificate", certificate)?, read("tls_key", key)?))
}

fn named(certificate: &Path, key: &Path, error: &TlsError) -> Error {
    let (path, name) = match error {
        TlsError::Certificate(_) => (certificate, "tls_certificate"),
        TlsError::Key(_) => (key, "tls_key"),
    };
    Error::failed(format!("{} ({name}) {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Writes a new certificate and its key into a folder.
    fn issue(folder: &Path) {
        let made = Command::new("openssl")
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '))
            .args("-subj /CN=localhost -keyout tls.key -out tls.pem".split(' '))
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .current_dir(folder)
            .output()
            .expect("openssl makes certificates");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn config(folder: &Path, text: &str) -> Result<Config> {
        let file = folder.join("sarsen.toml");
        fs::write(&file, text).expect("written");
        Config::load(&crate::config::Flags::with_config(file), &crate::environment::Environment::of(&[]))
    }

    #[test]
    fn files_are_read_again_when_they_change_and_a_pair_that_does_not_fit_changes_nothing() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path();
        let config = config(folder, "tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\n").expect("valid");
        let wrong = Files::read(&config).map(drop).expect_err("no file").to_string();
        assert!(wrong.contains("tls.pem (tls_certificate): No such file"), "{wrong}");
        issue(folder);
        let mut files = Files::read(&config).expect("readable").expect("named");
        assert!(!files.look().expect("unchanged"));
        let is_for =
            ["localhost", "127.0.0.1", "[::1]", "id.example.com"].map(|host| files.tls().is_for(host));
        assert_eq!(is_for, [true, true, false, false]);
        let old_key = fs::read(folder.join("tls.key")).expect("read");
        issue(folder);
        assert!(files.look().expect("changed"));
        fs::write(folder.join("tls.key"), old_key).expect("written");
        let wrong = files.look().expect_err("another key").to_string();
        assert!(wrong.contains("tls.key (tls_key) is not the key of the certificate"), "{wrong}");
        assert!(!files.look().expect("an error once"));
        fs::write(folder.join("tls.pem"), "rubbish").expect("written");
        let wrong = files.look().expect_err("rubbish").to_string();
        assert!(wrong.contains("tls.pem (tls_certificate) is not a chain of certificates"), "{wrong}");
    }
}
