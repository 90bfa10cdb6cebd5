//! The saved sign-ins of this terminal: `credentials.json` in the configuration folder. Only its owner may read it.

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::files::{self, Lock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A sign-in at one server. No `Debug`: it holds tokens.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// The e-mail address of the user.
    pub email: String,
    /// The granted scope, with the organizations that the token covers.
    pub scope: String,
    /// Expires at `expires_at`.
    pub access_token: String,
    /// Gets the next access token, once.
    pub refresh_token: String,
    /// Seconds since 1970, by the clock of this machine.
    pub expires_at: i64,
    /// Where tokens are refreshed.
    pub token_endpoint: String,
    /// Where tokens are revoked.
    pub revocation_endpoint: Option<String>,
}

impl Login {
    /// The organizations that the token covers, without the platform.
    pub fn organizations(&self) -> Vec<&str> {
        let covered = self.scope.split(' ').filter_map(|scope| scope.strip_prefix("org:"));
        covered.filter(|slug| !["*", "platform"].contains(slug)).collect()
    }

    /// Whether the user owns the server: only its owners administer the platform.
    pub fn owns_server(&self) -> bool {
        self.scope.split(' ').any(|scope| scope == "org:platform")
    }

    /// What the user may administer, in words that follow "you".
    pub fn powers(&self) -> String {
        let organizations = self.organizations().join(", ");
        match (self.owns_server(), self.covers_all(), organizations.is_empty()) {
            (true, true, _) => "own this server and administer many organizations".to_owned(),
            (false, true, _) => "administer many organizations".to_owned(),
            (true, _, true) => "own this server".to_owned(),
            (true, _, false) => format!("own this server and administer {organizations}"),
            (false, _, true) => "administer no organization yet".to_owned(),
            (false, _, false) => format!("administer {organizations}"),
        }
    }

    /// Whether the token covers all organizations of the user, because they are too many to name.
    pub fn covers_all(&self) -> bool {
        self.scope.split(' ').any(|scope| scope == "org:*")
    }
}

/// All sign-ins, by issuer.
#[derive(Default, Serialize, Deserialize)]
pub struct SavedLogins {
    /// The server of commands that name none.
    pub current: Option<String>,
    /// Sign-ins by issuer.
    pub servers: BTreeMap<String, Login>,
}

/// The file of the sign-ins.
#[derive(Clone)]
pub struct CredentialsFile {
    path: PathBuf,
}

impl CredentialsFile {
    /// In `$XDG_CONFIG_HOME/sarsen`, else `~/.config/sarsen`.
    pub fn new(environment: &Environment) -> Result<CredentialsFile> {
        let configured = environment.get("XDG_CONFIG_HOME").map(PathBuf::from);
        let home = || environment.get("HOME").map(|home| PathBuf::from(home).join(".config"));
        let folder = configured.or_else(home);
        let folder = folder
            .ok_or_else(|| Error::usage("there is no folder for the sign-in; set HOME or XDG_CONFIG_HOME"))?;
        Ok(CredentialsFile { path: folder.join("sarsen").join("credentials.json") })
    }

    /// The sign-ins as they are now.
    pub fn read(&self) -> Result<SavedLogins> {
        let Some(text) = files::read(&self.path)? else { return Ok(SavedLogins::default()) };
        serde_json::from_str(&text).map_err(|_| {
            Error::failed(format!("{} cannot be read; remove it and sign in again", self.path.display()))
        })
    }

    /// Changes the sign-ins under a lock. When `change` fails, nothing is written.
    pub fn change<T>(&self, change: impl FnOnce(&mut SavedLogins) -> Result<T>) -> Result<T> {
        if let Some(folder) = self.path.parent() {
            files::private_folder(folder)?;
        }
        let _lock = Lock::wait(&files::with_suffix(&self.path, ".lock"))?;
        let mut saved = self.read()?;
        let result = change(&mut saved)?;
        let text = serde_json::to_string_pretty(&saved);
        let text = text.map_err(|error| Error::failed(format!("cannot write the sign-in: {error}")))?;
        files::replace_private(&self.path, &format!("{text}\n"))?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn the_powers_of_a_sign_in_are_put_into_words() {
        let login = |scope: &str| Login {
            email: "ada@acme.test".to_owned(),
            scope: scope.to_owned(),
            access_token: String::new(),
            refresh_token: String::new(),
            expires_at: 0,
            token_endpoint: String::new(),
            revocation_endpoint: None,
        };
        for (scope, powers) in [
            ("openid platform", "administer no organization yet"),
            ("openid org:acme org:henge", "administer acme, henge"),
            ("openid platform org:platform", "own this server"),
            ("org:acme org:platform", "own this server and administer acme"),
            ("openid org:*", "administer many organizations"),
            ("openid org:* org:platform", "own this server and administer many organizations"),
        ] {
            assert_eq!(login(scope).powers(), powers, "{scope}");
        }
    }

    #[test]
    fn only_its_owner_may_read_a_sign_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("text");
        let credentials_file =
            CredentialsFile::new(&Environment::of(&[("XDG_CONFIG_HOME", path)])).expect("a credentials_file");
        assert!(credentials_file.read().expect("empty").servers.is_empty());
        credentials_file
            .change(|saved| {
                saved.current = Some("https://id.example.com".to_owned());
                Ok(())
            })
            .expect("kept");
        assert!(
            credentials_file
                .change(|saved| {
                    saved.current = None;
                    Err::<(), _>(Error::AlreadyReported)
                })
                .is_err()
        );
        assert_eq!(credentials_file.read().expect("read").current.as_deref(), Some("https://id.example.com"));
        let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!(mode(&credentials_file.path), 0o600);
        assert_eq!(mode(credentials_file.path.parent().expect("a folder")), 0o700);
    }
}
