//! Puts a backup in the place of a database that no server uses.
//!
//! The backup is copied beside the database, checked there, and renamed over it: after a kill, the old or the new
//! database has the name, and each of them whole. The old one stays under another name. Its write-ahead log is moved
//! into it first, because SQLite would apply the log to any file of that name.

use super::copy::{Unfinished, flush_folder};
use super::inspect::require_file;
use super::lock::FileLock;
use crate::Error;
use crate::leftovers;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A restored database continues this far behind every version that the old one or the backup has had: what clients
/// have seen of the lost history stays apart from the new one. No server makes as many commits between a backup and its
/// restore.
const VERSIONS_APART: u64 = 1 << 32;

/// Replaces `database` by `backup`. `check` gets the copy that is about to be used. The old database is kept as `kept`.
/// Returns whether there was one.
pub(crate) fn replace<E: From<Error>>(
    backup: &Path,
    database: &Path,
    kept: &Path,
    check: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<bool, E> {
    require_file(backup)?;
    if is_same(backup, database) {
        return Err(Error::Open(format!("{} is the database itself; name a backup", backup.display())).into());
    }
    let _lock = FileLock::replace(database)?;
    if kept.symlink_metadata().is_ok() {
        return Err(Error::Open(format!("{} exists; choose another name", kept.display())).into());
    }
    let unfinished = Unfinished::create(database)?;
    let log = super::beside(backup, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let text =
            format!("{} has a write-ahead log beside it; make a backup of it and use that", backup.display());
        return Err(Error::Open(text).into());
    }
    let copied = File::open(backup).and_then(|mut from| std::io::copy(&mut from, &mut unfinished.file()));
    copied.map_err(|error| match error.kind() {
        ErrorKind::StorageFull => unfinished.error(&error),
        _ => Error::Open(format!("{} cannot be copied: {error}", backup.display())),
    })?;
    unfinished.mark_as_closed()?;
    check(unfinished.path())?;
    unfinished.remove_checksum()?;
    let existed = database.exists();
    let old = if existed { fold_log(database) } else { Ok(0) };
    let old = old.unwrap_or_else(|error| {
        tracing::warn!(%error, "the old database cannot be read; it is kept as it is");
        0
    });
    continue_behind(unfinished.path(), old)?;
    let renamed = keep(database, kept, existed);
    renamed.map_err(|error| Error::Open(format!("{} cannot be kept: {error}", database.display())))?;
    if let Err(error) = unfinished.finish(database) {
        // If the old database still has its name, a log that could not be moved into it gets it back too.
        if !leftovers::is_named(database, unfinished.file()) {
            let _ = fs::rename(super::beside(kept, "-wal"), super::beside(database, "-wal"));
        }
        return Err(error.into());
    }
    Ok(existed)
}

fn is_same(left: &Path, right: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    number(left).is_some_and(|left| Some(left) == number(right))
}

/// Moves the write-ahead log of a database into it. Returns its version.
fn fold_log(database: &Path) -> rusqlite::Result<u64> {
    let connection = rusqlite::Connection::open(database)?;
    connection.busy_timeout(Duration::from_secs(1))?;
    let version = connection
        .query_row("SELECT version FROM sarsen_version WHERE id = 1", [], |row| row.get::<_, i64>(0))?;
    connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(version.unsigned_abs())
}

/// Gives the restored database a version behind its own and the old one's.
fn continue_behind(path: &Path, old: u64) -> Result<(), Error> {
    let update = |connection: &rusqlite::Connection| {
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
        connection.execute(
            "UPDATE sarsen_version SET version = MAX(version, ?1) + ?2 WHERE id = 1",
            [old as i64, VERSIONS_APART as i64],
        )
    };
    let updated = rusqlite::Connection::open(path).and_then(|connection| update(&connection));
    updated.map(drop).map_err(|error| Error::Open(format!("{} cannot be written: {error}", path.display())))
}

/// Gives the old database a second name. A log that could not be moved gets that name too, and does not keep its own.
fn keep(database: &Path, kept: &Path, existed: bool) -> std::io::Result<()> {
    if existed && let Err(error) = fs::hard_link(database, kept) {
        // A second name of the same file must not be written to.
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            return Err(error);
        }
        // A file system without hard links.
        let mut copy = File::options().write(true).create_new(true).mode(0o600).open(kept)?;
        std::io::copy(&mut File::open(database)?, &mut copy)?;
        copy.sync_all()?;
    }
    // The last step: a database that cannot be kept stays as it is.
    remove(&super::beside(database, "-shm"))?;
    let log = super::beside(database, "-wal");
    if log.exists() {
        fs::rename(&log, super::beside(kept, "-wal"))?;
    }
    flush_folder(database)
}

fn remove(path: &PathBuf) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
