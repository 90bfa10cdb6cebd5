//! `.sarsen`: the folder of the server, or one in the folder for temporary files that ends with it.
//!
//! `dev.json` marks the folder as one of `sarsen dev`. A folder without that mark is never touched, so no other server's data
//! is. Git ignores all of it by a `.gitignore` inside. Nobody else may enter it: it has secrets.

use crate::config::Database;
use crate::error::{Error, Result};
use crate::files::{self, Lock};
use crate::scratch::ScratchFolder;
use serde::{Deserialize, Serialize};
use server::declared::Credentials;
use server::{SecretKey, SystemRandom};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const MARK: &str = "sarsen dev";
const RECORD: &str = "dev.json";
const LOCK: &str = "dev.lock";
const IGNORED: &str = ".gitignore";
/// The beginning of the names of temporary folders.
const TEMPORARY: &str = "sarsen-dev-";

/// What each start in the same folder finds again.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    made_by: String,
    /// The port, which stays the same.
    #[serde(default)]
    pub(super) port: Option<u16>,
    #[serde(default)]
    pub(super) credentials: Credentials,
    /// Everything that was ever declared, such as `plan pro`.
    #[serde(default)]
    pub(super) declared: BTreeSet<String>,
}

/// An open folder. No other server uses it meanwhile.
pub(super) struct DataDir {
    path: PathBuf,
    pub(super) record: Record,
    _lock: Lock,
    _scratch: Option<ScratchFolder>,
}

impl DataDir {
    /// Opens or creates the folder.
    pub(super) fn open(path: PathBuf) -> Result<DataDir> {
        if path.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
            return Err(Error::failed(format!(
                "{} is a symbolic link, and may lead to another server's data; move it away",
                path.display()
            )));
        }
        files::private_folder(&path)?;
        DataDir::of_own_folder(path, None)
    }

    /// One that is removed when it is dropped.
    pub(super) fn temporary() -> Result<DataDir> {
        let scratch = ScratchFolder::create(&std::env::temp_dir(), TEMPORARY)?;
        DataDir::of_own_folder(scratch.path().to_owned(), Some(scratch))
    }

    fn of_own_folder(path: PathBuf, scratch: Option<ScratchFolder>) -> Result<DataDir> {
        let record = read_record(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))
            .map_err(Error::file("close", &path))?;
        let lock = match Lock::take(&path.join(LOCK))? {
            Ok(lock) => lock,
            Err(holder) => {
                return Err(Error::failed(format!(
                    "the server of {} runs already, as {holder}; stop that one first",
                    path.display()
                )));
            }
        };
        let folder = DataDir { path, record, _lock: lock, _scratch: scratch };
        folder.save()?;
        let (ignored, key) = (folder.path.join(IGNORED), folder.key_path());
        if !ignored.exists() {
            files::create_private(&ignored, "*\n")?;
        }
        if !key.exists() {
            files::create_private(&key, &format!("{}\n", SecretKey::generate(&SystemRandom)))?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> Database {
        Database::Sqlite(self.path.join("dev.db"))
    }

    pub(super) fn key(&self) -> Result<SecretKey> {
        let path = self.key_path();
        let text = files::read(&path)?.unwrap_or_default();
        SecretKey::parse(&text).map_err(|error| Error::failed(format!("{}: {error}", path.display())))
    }

    /// Writes the record.
    pub(super) fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.record);
        let text = text.map_err(|error| Error::failed(format!("cannot write {RECORD}: {error}")))?;
        files::replace_private(&self.path.join(RECORD), &format!("{text}\n"))
    }

    fn key_path(&self) -> PathBuf {
        self.path.join("dev.key")
    }
}

/// The record of a folder, or a new one for an empty folder. Refuses the folder of anything else.
fn read_record(folder: &Path) -> Result<Record> {
    let path = folder.join(RECORD);
    let foreign = |what: String| {
        Err(Error::failed(format!(
            "{what}; sarsen dev touches only what it made, so move it away or run sarsen dev in another folder"
        )))
    };
    let Some(text) = files::read(&path)? else {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(Error::file("read", folder))? {
            names.push(entry.map_err(Error::file("read", folder))?.file_name());
        }
        // A start that was interrupted leaves the lock, or an unfinished record.
        names.retain(|name| !name.to_string_lossy().starts_with("dev."));
        return match names.is_empty() {
            true => Ok(Record {
                made_by: MARK.to_owned(),
                port: None,
                credentials: Credentials::default(),
                declared: BTreeSet::new(),
            }),
            false => foreign(format!("{} has files that are not from sarsen dev", folder.display())),
        };
    };
    match serde_json::from_str::<Record>(&text) {
        Ok(record) if record.made_by == MARK => Ok(record),
        _ => foreign(format!("{} is not from sarsen dev", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        DataDir::open(path.to_owned()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_folder_is_private_ignored_and_open_once() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join(".sarsen");
        let first = DataDir::open(path.clone()).unwrap_or_else(|error| panic!("{error}"));
        let mode = std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        assert_eq!(std::fs::read_to_string(path.join(IGNORED)).expect("there"), "*\n");
        assert!(refusal(&path).contains(&format!("process {}", std::process::id())));
        drop(first);
        assert_eq!(refusal(&path), "");
    }

    #[test]
    fn the_folder_of_something_else_is_left_alone() {
        let place = tempfile::tempdir().expect("a folder");
        let (path, linked) = (place.path().join("data"), place.path().join("linked"));
        std::fs::create_dir(&path).expect("made");
        std::fs::write(path.join("sarsen.db"), "a server's").expect("written");
        assert!(refusal(&path).contains("not from sarsen dev"));
        std::fs::write(path.join(RECORD), "{\"made_by\": \"sarsen demo\"}").expect("written");
        assert!(refusal(&path).contains("not from sarsen dev"));
        assert_eq!(std::fs::read_dir(&path).expect("read").count(), 2, "nothing was added");

        std::os::unix::fs::symlink(&path, &linked).expect("a link");
        assert!(refusal(&linked).contains("symbolic link"));
    }

    #[test]
    fn a_temporary_folder_ends_with_its_use() {
        let folder = DataDir::temporary().unwrap_or_else(|error| panic!("{error}"));
        let path = folder.path().to_owned();
        assert!(path.join(RECORD).exists());
        drop(folder);
        assert!(!path.exists());
    }
}
