//! One process owns a database file. A second one gets an error that names the first.
//!
//! `<database>-lock` has the process, and is there before the file is. Symbolic links lead to the same one. The file itself is
//! locked too, because it may have other names: hard links, or a container into which only the file is mounted.

use crate::Error;
use crate::leftovers::has_both_kinds_of_locks;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Holds both locks until dropped; the operating system lets go of them when the process dies.
pub(super) struct FileLock {
    /// The database itself, if it was there. Closed after all connections: closing it takes the locks away that SQLite has on the
    /// file (POSIX). Then the next program that reads it would remove the log when it ends, as if nobody used it any more.
    database: Option<File>,
    /// Let go of last: who has it finds the database free.
    lock: File,
}

impl Drop for FileLock {
    /// To close the files is not enough: a child of this process that is being started has them too until it runs its program.
    fn drop(&mut self) {
        if let Some(database) = self.database.take() {
            // The system would let go of it, too late.
            let _ = database.unlock();
        }
        let _ = self.lock.unlock();
    }
}

impl FileLock {
    /// Locks a database for a server, and creates it if need be: for its owner only, and SQLite makes the log beside it the same.
    pub(super) fn own(database: &Path) -> Result<FileLock, Error> {
        FileLock::take(database, true)
    }

    /// Locks a database that is to be replaced, if there is one.
    pub(super) fn replace(database: &Path) -> Result<FileLock, Error> {
        FileLock::take(database, false)
    }

    /// Whether this user could lock and write the database and what lies beside it. Nothing is locked or created, so a server
    /// may have it.
    pub(super) fn rehearse(database: &Path) -> Result<(), Error> {
        for suffix in ["-lock", "", "-wal", "-shm"] {
            let path = super::beside(database, suffix);
            match OpenOptions::new().read(true).write(true).open(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&path, &error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn take(database: &Path, creates: bool) -> Result<FileLock, Error> {
        let path = super::beside(database, "-lock");
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => {
                Error::Open(format!("the folder of {} does not exist; create it first", database.display()))
            }
            _ => unwritable(&path, &error),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Without the number the sentence is still true.
                let _ = lock.read_to_string(&mut owner);
                return Err(Error::Open(format!(
                    "{} is in use by process {}, and one process owns a database file; stop it first",
                    database.display(),
                    if owner.is_empty() { "unknown" } else { &owner }
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let file = match options.create(creates).open(database) {
            Ok(file) => Some(file),
            // A database that will be replaced may be read-only.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !creates => {
                File::open(database).ok()
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !creates => None,
            Err(error) => return Err(unwritable(database, &error)),
        };
        if file.as_ref().is_some_and(is_locked_elsewhere) {
            return Err(Error::Open(format!(
                "{} is in use by another process under another name (a hard link, or mounted elsewhere), and one process owns a \
                 database file; stop it first",
                database.display()
            )));
        }
        warn_of_other_names(database);
        lock.set_len(0).and_then(|()| lock.rewind()).map_err(failed)?;
        write!(lock, "{}", std::process::id()).map_err(failed)?;
        Ok(FileLock { lock, database: file })
    }

    /// The database, to be flushed.
    pub(super) fn database(&self) -> Option<&File> {
        self.database.as_ref()
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => "; change its owner or mode, or run the program as its owner",
        _ => "",
    };
    Error::Open(format!("cannot open {} for writing: {error}{advice}", path.display()))
}

/// Locks the file beside SQLite's own locks, which are of another kind on the disks of Linux. Elsewhere, and on the network, the
/// two kinds meet, and SQLite could not open the file any more: there `<database>-lock` is all. What is mounted into containers
/// is a disk.
fn is_locked_elsewhere(file: &File) -> bool {
    has_both_kinds_of_locks(file) && matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

fn warn_of_other_names(database: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let names = std::fs::metadata(database).map_or(1, |file| file.nlink());
    if names > 1 && database.is_file() {
        tracing::warn!(
            database = %database.display(),
            names,
            "the database file has other names (hard links); remove them, because a program that used one of them would damage it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_free_although_a_child_still_has_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let lock = FileLock::own(&path).expect("the first");
        let inherited =
            [&lock.lock, lock.database().expect("a file")].map(|file| file.try_clone().expect("a copy"));
        assert!(FileLock::own(&path).is_err());
        drop(lock);
        FileLock::own(&path).expect("free again");
        drop(inherited);
    }
}
