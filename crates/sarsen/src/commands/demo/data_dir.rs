//! The folder of a demo: its database, its key and its credentials.
//!
//! `demo.json` marks the folder as one of a demo and names the database. A database without that mark is never touched.

use crate::config::Database;
use crate::error::{Error, Result};
use crate::files::{self, Lock};
use serde::{Deserialize, Serialize};
use server::demo::Credentials;
use server::{SecretKey, SystemRandom};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

const MARK: &str = "sarsen demo";
/// The folder's own database, in the record.
const OWN: &str = "sqlite:demo.db";

/// The content of `demo.json`.
#[derive(Serialize, Deserialize)]
struct Record {
    made_by: String,
    /// Without its password.
    database: String,
    /// `None` until the tenant is complete.
    credentials: Option<Credentials>,
}

/// An open folder. No other demo uses it meanwhile.
pub(super) struct DataDir {
    path: PathBuf,
    database: Database,
    record: RefCell<Record>,
    _lock: Lock,
}

/// `target/sarsen-demo` in a folder of cargo, otherwise in the folder for temporary files.
pub(super) fn default_path() -> PathBuf {
    let target = Path::new("target");
    let parent = if target.is_dir() { target.to_owned() } else { std::env::temp_dir() };
    parent.join("sarsen-demo")
}

impl DataDir {
    /// Opens or creates the folder at `path`. `database` is in place of the file `demo.db` in it.
    pub(super) fn open(path: PathBuf, database: Option<Database>) -> Result<DataDir> {
        files::private_folder(&path)?;
        refuse_foreign(&path)?;
        let lock = match Lock::take(&path.join("demo.lock"))? {
            Ok(lock) => lock,
            Err(holder) => {
                return Err(Error::failed(format!(
                    "{} is in use by {holder}; choose another folder with --data, or stop that demo",
                    path.display()
                )));
            }
        };
        let own = path.join("demo.db");
        let database = match database {
            Some(other) if !other.path().is_some_and(|path| is_same_path(path, &own)) => other,
            _ => Database::Sqlite(own.clone()),
        };
        let record = match read_record(&path.join("demo.json"), &database, &own)? {
            // The tenant was not completed: start again.
            Some(record) if record.credentials.is_none() && database.path() == Some(&own) => {
                remove_database(&own)?;
                record
            }
            Some(record) => record,
            None => {
                if let Some(file) = database.path().filter(|file| file.exists()) {
                    return Err(Error::failed(format!(
                        "{} is not a database that a demo in {} made; choose another folder with --data",
                        file.display(),
                        path.display()
                    )));
                }
                Record { made_by: MARK.to_owned(), database: name_of(&database, &own), credentials: None }
            }
        };
        let folder = DataDir { path, database, record: RefCell::new(record), _lock: lock };
        folder.make_key()?;
        folder.write()?;
        Ok(folder)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The demo's database.
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// The demo's secret key.
    pub(super) fn key(&self) -> Result<SecretKey> {
        let path = self.key_path();
        let text = files::read(&path)?.unwrap_or_default();
        SecretKey::parse(&text).map_err(|error| Error::failed(format!("{}: {error}", path.display())))
    }

    /// The credentials of the tenant, if it is complete.
    pub(super) fn credentials(&self) -> Option<Credentials> {
        self.record.borrow().credentials.clone()
    }

    /// Saves the credentials of the tenant.
    pub(super) fn save(&self, credentials: &Credentials) -> Result<()> {
        self.record.borrow_mut().credentials = Some(credentials.clone());
        self.write()
    }

    fn key_path(&self) -> PathBuf {
        self.path.join("demo.key")
    }

    fn make_key(&self) -> Result<()> {
        let path = self.key_path();
        if path.exists() {
            return Ok(());
        }
        files::create_private(&path, &format!("{}\n", SecretKey::generate(&SystemRandom)))
    }

    fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&*self.record.borrow());
        let text = text.map_err(|error| Error::failed(format!("cannot write demo.json: {error}")))?;
        files::replace_private(&self.path.join("demo.json"), &format!("{text}\n"))
    }
}

/// Refuses a folder with files of which none is from a demo.
fn refuse_foreign(path: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::file("read", path))? {
        names.push(entry.map_err(Error::file("read", path))?.file_name());
    }
    // A new volume has this folder.
    names.retain(|name| name != "lost+found");
    if names.is_empty() || names.iter().any(|name| name.to_string_lossy().starts_with("demo.")) {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{} is not empty, and its files are not from a demo; choose another folder with --data",
        path.display()
    )))
}

/// The record, if there is one. It must be from a demo and name this database.
fn read_record(path: &Path, database: &Database, own: &Path) -> Result<Option<Record>> {
    let Some(text) = files::read(path)? else { return Ok(None) };
    let record: Option<Record> = serde_json::from_str(&text).ok();
    match record.filter(|record| record.made_by == MARK) {
        None => Err(Error::failed(format!(
            "{} is not from a demo; choose another folder with --data",
            path.display()
        ))),
        Some(record) if !is_database_of(&record, database, own) => Err(Error::failed(format!(
            "the demo of this folder ({}) has its data in {}, not in {database}; choose another folder with --data",
            path.display(),
            record.database
        ))),
        Some(record) => Ok(Some(Record { database: name_of(database, own), ..record })),
    }
}

/// The database as the record names it: the folder's own file without the folder, which may move.
fn name_of(database: &Database, own: &Path) -> String {
    match database.path() {
        Some(path) if path == own => OWN.to_owned(),
        Some(path) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            Database::Sqlite(absolute).to_string()
        }
        None => database.to_string(),
    }
}

/// Whether this is the database of the record.
fn is_database_of(record: &Record, database: &Database, own: &Path) -> bool {
    if record.database == name_of(database, own) {
        return true;
    }
    // Earlier versions wrote the path as it was typed, also that of the folder's own file.
    match (Database::parse(&record.database), database.path()) {
        (Some(Database::Sqlite(recorded)), Some(path)) if path == own => {
            recorded.file_name() == own.file_name() && (!recorded.exists() || is_same_path(&recorded, own))
        }
        (Some(Database::Sqlite(recorded)), Some(path)) => is_same_path(&recorded, path),
        _ => false,
    }
}

/// Whether both lead to the same file, be it there or not.
fn is_same_path(left: &Path, right: &Path) -> bool {
    let resolved = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    resolved(left).is_some_and(|left| Some(left) == resolved(right))
}

fn remove_database(path: &Path) -> Result<()> {
    ["", "-wal", "-shm"].iter().try_for_each(|suffix| files::remove(&files::with_suffix(path, suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_touches_only_files_of_a_demo() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        let first = DataDir::open(path.clone(), None).expect("made");
        let Err(error) = DataDir::open(path.clone(), None) else { panic!("opened twice") };
        assert!(error.to_string().contains(&format!("in use by process {}", std::process::id())), "{error}");
        drop(first);
        std::fs::write(path.join("demo.db"), "unfinished").expect("written");
        drop(DataDir::open(path.clone(), None).expect("begun again"));
        assert!(!path.join("demo.db").exists());

        std::fs::remove_file(path.join("demo.json")).expect("removed");
        std::fs::write(path.join("demo.db"), "somebody's").expect("written");
        assert!(DataDir::open(path.clone(), None).is_err());
        assert!(path.join("demo.db").exists());
        std::fs::write(path.join("demo.json"), "{\"made_by\": \"a person\"}").expect("written");
        assert!(DataDir::open(path, None).is_err());
    }

    #[test]
    fn a_folder_with_other_files_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("passwd"), "somebody's").expect("written");
        let Err(error) = DataDir::open(folder.path().to_owned(), None) else { panic!("taken") };
        assert!(error.to_string().contains("is not empty"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1, "nothing was added");

        let volume = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(volume.path().join("lost+found")).expect("made");
        assert!(DataDir::open(volume.path().to_owned(), None).is_ok(), "a new volume is empty");
    }

    #[test]
    fn a_folder_may_move_and_be_named_in_another_way() {
        let parent = tempfile::tempdir().expect("a folder");
        let (before, after) = (parent.path().join("before"), parent.path().join("after"));
        drop(DataDir::open(before.clone(), None).expect("made"));
        drop(DataDir::open(before.join("."), None).expect("another name of it"));
        let own = Database::Sqlite(before.join("./demo.db"));
        drop(DataDir::open(before.clone(), Some(own)).expect("its own database, by another name"));
        std::fs::rename(&before, &after).expect("moved");
        drop(DataDir::open(after.clone(), None).expect("moved"));

        // As earlier versions wrote it.
        let record = after.join("demo.json");
        let text = std::fs::read_to_string(&record).expect("a record").replace(OWN, "sqlite:mine/demo.db");
        std::fs::write(&record, text).expect("written");
        drop(DataDir::open(after, None).expect("its own database, by an old path"));
        assert!(std::fs::read_to_string(&record).expect("a record").contains(OWN));
    }

    #[test]
    fn a_folder_goes_with_one_database() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(DataDir::open(folder.path().to_owned(), None).expect("made"));
        let other = Database::parse("postgres://ada:hunter2@db.test/x");
        let Err(error) = DataDir::open(folder.path().to_owned(), other) else { panic!("taken") };
        let elsewhere = Database::Sqlite(folder.path().join("other.db"));
        assert!(DataDir::open(folder.path().to_owned(), Some(elsewhere)).is_err());
        assert!(
            error.to_string().contains("choose another folder") && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
}
