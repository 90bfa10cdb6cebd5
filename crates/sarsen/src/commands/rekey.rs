//! `sarsen rekey`: a new secret key. The stored answers to keyed writes are dropped. Everything else that is sealed is sealed
//! again in one transaction, then the files are exchanged.
//!
//! The new key is on disk as `<key>.new` before the database has anything of it, so that an interrupted run continues:
//! if the database already belongs to the new key, only the files are left to do. No server starts in between.

use super::backup;
use crate::api_client;
use crate::config::{Config, ConfigFile, SECRET_KEY_VARIABLE};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::secret_key;
use crate::{files, output, server_process};
use server::{SecretKey, Store, StoreError, SystemRandom, Time, WriterLimits, backups};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long the sealing may take on SQLite.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// Between the name of the key's file and the letters of an old key that is kept.
const KEPT: &str = ".before-";

/// Replace the secret key by a new one. Stop all servers first.
#[derive(clap::Args)]
#[command(
    after_help = "Everything in the database that is sealed with the key is sealed with the new one. Sessions and tokens stay\n\
    valid; codes of devices and sign-ins that are under way end. The stored answers to writes with an Idempotency-Key are\n\
    dropped: such a write is still done once, but one that is sent again gets idempotency_answer_lost. The old key is kept: backups from before need it.\n\
    Run an interrupted command again to finish it."
)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let config = Config::load(&args.config.flags(), environment)?;
    if config.secret_key.is_some() {
        return Err(Error::usage(format!(
            "the key comes from {SECRET_KEY_VARIABLE}; write it to {}, unset the variable, and run the command again",
            config.secret_key_file.value.display()
        )));
    }
    let old = secret_key::read(&config)?;
    files::require_own(&config.secret_key_file.value)?;
    if let Some(path) = config.database.value.path() {
        files::require_own(path)?;
        backup::require_database(path)?;
    }
    server_process::keep_files_private();
    files::remove_unfinished_texts(&config.secret_key_file.value);
    // All servers are stopped, so no other command waits, also on SQLite.
    let limits = WriterLimits { command_time: COMMAND_TIME, ..WriterLimits::default() };
    let options = config.store_options(limits);
    let store = server_process::open_store(&config.database.value, options)?;
    let sealed = server_process::runtime()?.block_on(change(&config, &store, &old));
    store.close();
    let sealed = sealed?;

    let key_file = &config.secret_key_file.value;
    let kept = keep(&old, key_file)?;
    files::rename(&new_key_file(&config), key_file)?;
    output::after_change(output::print(&format!(
        "{} has a new key, with which {sealed} values were sealed now. Copy it to another place, and to every other instance.\n\
         The old key is {}: backups from before need it. Remove it with the last of them.\n",
        key_file.display(),
        kept.display()
    )))
}

/// Seals everything with the new key, unless an earlier run has done it. Returns the number of values.
async fn change(config: &Config, store: &Store, old: &SecretKey) -> Result<u64> {
    let failed = |error: &dyn std::fmt::Display| Error::failed(format!("the key was not changed: {error}"));
    let now = Time::from_millis(api_client::now() * 1000);
    // One process owns a SQLite file. Instances on a server renew a lease.
    if config.database.value.path().is_none()
        && backups::is_served(store, now).await.map_err(|error| failed(&error))?
    {
        let text = "a server has used the database in the last 90 seconds; stop all instances, wait, and run it again";
        return Err(failed(&text));
    }
    let new_file = new_key_file(config);
    let new = new_key(&new_file)?;
    if backups::is_key_of(store, new.clone()).await.map_err(|error| failed(&error))? {
        return Ok(0);
    }
    match backups::reseal(store, old.clone(), new.clone(), Arc::new(SystemRandom)).await {
        Ok(sealed) => Ok(sealed),
        Err(error) => Err(give_up(store, new, &new_file, &error).await?),
    }
}

/// Removes the file of the new key after the sealing failed, if the database surely has nothing of that key: the file is
/// its only copy. Returns what to say.
async fn give_up(store: &Store, new: SecretKey, new_file: &Path, error: &server::Error) -> Result<Error> {
    // The commit may take effect after any look at the database.
    if matches!(error, server::Error::Store(StoreError::OutcomeUnknown)) {
        return Ok(Error::failed(format!(
            "whether the key was changed is unknown ({error}); run the command again"
        )));
    }
    if matches!(backups::is_key_of(store, new).await, Ok(false)) {
        files::remove(new_file)?;
    }
    Ok(Error::failed(format!("the key was not changed: {error}")))
}

/// Keeps the old key under another name. An interrupted run may have left less than the key there.
fn keep(old: &SecretKey, key_file: &Path) -> Result<PathBuf> {
    let kept = files::with_suffix(key_file, &format!("{KEPT}{}", fingerprint(old)));
    let found = files::read(&kept)?.map(|text| SecretKey::parse(&text));
    match found {
        Some(Ok(key)) if secret_key::fingerprint(&key) == secret_key::fingerprint(old) => {}
        Some(Ok(_)) => {
            return Err(Error::usage(format!(
                "{} has another key; give that file another name, and run the command again",
                kept.display()
            )));
        }
        Some(Err(_)) | None => {
            let text = std::fs::read_to_string(key_file).map_err(Error::file("read", key_file))?;
            files::replace_private(&kept, &text)?;
        }
    }
    Ok(kept)
}

/// The new key: that of an interrupted run, or a fresh one.
fn new_key(path: &Path) -> Result<SecretKey> {
    let text = match files::read(path)? {
        Some(text) => text,
        None => {
            let text = format!("{}\n", SecretKey::generate(&SystemRandom));
            files::create_private(path, &text)?;
            text
        }
    };
    SecretKey::parse(&text)
        .map_err(|error| Error::usage(format!("{}: {error}; remove the file", path.display())))
}

/// Fails if a change of the key was interrupted.
pub fn check_finished(config: &Config) -> Result<()> {
    let new_file = new_key_file(config);
    if config.secret_key.is_none() && new_file.exists() {
        return Err(Error::usage(format!(
            "{} exists, so a change of the secret key was interrupted; run sarsen rekey again",
            new_file.display()
        )));
    }
    Ok(())
}

fn new_key_file(config: &Config) -> PathBuf {
    files::with_suffix(&config.secret_key_file.value, ".new")
}

/// How many old keys are read at most.
const OLD_KEYS_MAX: usize = 100;

/// Old keys, each with its file: the keys that this command kept beside the secret key, and the key in the key file when the
/// secret key comes from a variable. Files without a key are left out.
pub fn other_keys(config: &Config) -> Vec<(PathBuf, SecretKey)> {
    let path = &config.secret_key_file.value;
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let begin = path.file_name().map(|name| format!("{}{KEPT}", name.display())).unwrap_or_default();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut kept: Vec<PathBuf> =
        names.filter(|name| name.starts_with(&begin)).map(|name| path.with_file_name(name)).collect();
    kept.sort();
    let own = config.secret_key.is_some().then(|| path.clone());
    let files = own.into_iter().chain(kept).take(OLD_KEYS_MAX);
    let read = |file: PathBuf| {
        let key = SecretKey::parse(&files::read(&file).ok()??).ok()?;
        Some((file, key))
    };
    files.filter_map(read).collect()
}

/// A few letters that tell keys apart.
fn fingerprint(key: &SecretKey) -> String {
    secret_key::fingerprint(key).chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A database that belongs to this key.
    async fn database(folder: &Path, key: &SecretKey) -> Store {
        let url = format!("sqlite:{}", folder.join("sarsen.db").display());
        let store = Store::open(server::store_options(url)).expect("opens");
        let app =
            server_process::app(store.clone(), server::Settings::new("http://localhost"), key.clone(), None);
        server::first_start::prepare(&app.expect("starts")).await.expect("prepares");
        store
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_new_key_is_kept_while_the_database_may_come_to_need_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new_file) = (SecretKey::new(&[7; 32]), folder.path().join("sarsen.key.new"));
        let store = database(folder.path(), &old).await;
        let new = new_key(&new_file).expect("a key");

        // The commit has no effect yet when the database is looked at, and takes effect then.
        let unknown = server::Error::Store(StoreError::OutcomeUnknown);
        let error = give_up(&store, new.clone(), &new_file, &unknown).await.expect("an answer").to_string();
        assert!(error.contains("is unknown") && error.ends_with("run the command again"), "{error}");
        let kept = new_key(&new_file).expect("the same key");
        assert_eq!(secret_key::fingerprint(&kept), secret_key::fingerprint(&new));
        backups::reseal(&store, old.clone(), new.clone(), Arc::new(SystemRandom)).await.expect("seals");
        // From here on it is needed whatever the error was.
        let slow = server::Error::Store(StoreError::TooSlow { limit: Duration::from_secs(1) });
        give_up(&store, new.clone(), &new_file, &slow).await.expect("an answer");
        assert!(new_file.exists());

        backups::reseal(&store, new.clone(), old, Arc::new(SystemRandom)).await.expect("seals");
        let error = give_up(&store, new, &new_file, &slow).await.expect("an answer").to_string();
        assert!(error.starts_with("the key was not changed") && !new_file.exists(), "{error}");
        store.close();
    }
}
