//! One process owns a database file. A second one gets an error that names the first. Symbolic links lead to the same lock;
//! another name of the same file (a hard link) does not, so it is warned of.

use crate::Error;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

/// Holds `<database>-lock` until dropped; the operating system lets go of it when the process dies.
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    pub(super) fn take(database: &Path) -> Result<FileLock, Error> {
        let path = super::beside(database, "-lock");
        let failed = |error: std::io::Error| Error::Open(format!("cannot open {}: {error}", path.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                warn_of_other_names(database);
                file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
                write!(file, "{}", std::process::id()).map_err(failed)?;
                Ok(FileLock { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Without the number the sentence is still true.
                let _ = file.read_to_string(&mut owner);
                Err(Error::Open(format!(
                    "{} is in use by process {}, and one process owns a database file; stop it first",
                    database.display(),
                    if owner.is_empty() { "unknown" } else { &owner }
                )))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

fn warn_of_other_names(database: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let names = std::fs::metadata(database).map_or(1, |file| file.nlink());
    if names > 1 {
        tracing::warn!(
            database = %database.display(),
            names,
            "the database file has other names (hard links); remove them, because a program that used one of them would damage it"
        );
    }
}
