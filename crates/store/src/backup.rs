//! Backups of SQLite databases: copies, checks and restores of files. [`crate::Store::backup`] copies the open database.
//!
//! A backup is one file with a whole database. It needs no write-ahead log beside it.

pub use crate::mark::{Mark, MarkKey};
pub use crate::sqlite::{Inspection, SchemaDifferences};

use crate::{Error, Migration, Snapshot, sqlite};
use std::path::{Path, PathBuf};

/// Copies the database at `source`, which another process may use, to the new file `target`, marked under the key. The copy
/// has each write that was acknowledged before the call. Returns its size.
pub fn copy(source: &Path, target: &Path, key: &MarkKey) -> Result<u64, Error> {
    sqlite::copy(source, target, key)
}

/// The file that a path names in the end, if it is a symbolic link.
pub fn real_path(path: &Path) -> PathBuf {
    sqlite::real_path(path)
}

/// Checks a file that no process uses: its structure, the references between its rows, its schema. Fails if it cannot be
/// read at all. The mark at its end is compared with the keys. The file is not changed.
pub fn inspect(path: &Path, migrations: &[Migration], keys: &[MarkKey]) -> Result<Inspection, Error> {
    sqlite::inspect(path, migrations, keys)
}

/// Compares the schema of a database, which another process may use, with that of its migrations.
pub fn compare_schema(path: &Path, migrations: &[Migration]) -> Result<SchemaDifferences, Error> {
    sqlite::compare_schema(path, migrations)
}

/// Runs a query on a file that no process uses, and does not change it.
pub fn read<T>(path: &Path, query: impl FnOnce(&mut Snapshot<'_>) -> T) -> Result<T, Error> {
    sqlite::read(path, query)
}

/// Replaces the database at `database`, which no process may use, by a backup. `check` gets the very copy that is about
/// to be used and may refuse it. The old database is kept under the name `kept`; the result says whether there was one.
/// The restored database continues with versions that neither the old one nor the backup has had.
pub fn restore<E: From<Error>>(
    backup: &Path,
    database: &Path,
    kept: &Path,
    check: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<bool, E> {
    sqlite::replace(backup, database, kept, check)
}

/// The backups in a folder: files whose names begin and end like this, oldest first. Their names must sort by time.
pub fn list(folder: &Path, begin: &str, end: &str) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        if let Ok(name) = entry?.file_name().into_string()
            && name.starts_with(begin)
            && name.ends_with(end)
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes a backup.
pub fn remove(folder: &Path, name: &str) -> std::io::Result<()> {
    std::fs::remove_file(folder.join(name))
}
