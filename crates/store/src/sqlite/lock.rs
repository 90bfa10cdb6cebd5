//! One process owns a database file. A second one gets an error that names the first.

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
