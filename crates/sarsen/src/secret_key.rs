//! The secret key of an installation, and the folder in which its files are.

use crate::config::{Config, SECRET_KEY_VARIABLE};
use crate::error::{Error, Result};
use crate::files;
use server::SecretKey;
use std::path::{Path, PathBuf};

/// The folder of the database's file; of the configuration when the database is a server.
pub fn beside_data(config: &Config) -> PathBuf {
    let file = config.database.value.path().unwrap_or(&config.file);
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The secret key: from the environment, or from its file.
pub fn read(config: &Config) -> Result<SecretKey> {
    if let Some(text) = &config.secret_key {
        return SecretKey::parse(text)
            .map_err(|error| Error::usage(format!("{SECRET_KEY_VARIABLE}: {error}")));
    }
    let path = &config.secret_key_file.value;
    match files::read(path)? {
        Some(text) => {
            SecretKey::parse(&text).map_err(|error| Error::usage(format!("{}: {error}", path.display())))
        }
        None => Err(Error::usage(missing_key(config))),
    }
}

fn missing_key(config: &Config) -> String {
    let (key, database) = (config.secret_key_file.value.display(), &config.database.value);
    match database.path() {
        Some(path) if path.exists() => format!(
            "the secret key {key} is missing, and the database {} cannot be used without it; restore the file, or set \
             {SECRET_KEY_VARIABLE}",
            path.display()
        ),
        Some(path) => format!(
            "there is no secret key ({key}) and no database ({}); for a new server run `sarsen init` first, to restore a \
             backup put its key there, and for a server elsewhere name its configuration with --config",
            path.display()
        ),
        None => format!(
            "the secret key {key} is missing; for a new server run `sarsen init` first, for another instance copy its \
             key or set {SECRET_KEY_VARIABLE}"
        ),
    }
}

/// A text by which a key is recognized, and from which it cannot be computed.
pub fn fingerprint(key: &SecretKey) -> String {
    key.derive(&["fingerprint"])
}
