//! A folder for as long as a command runs: nobody else may enter it, and dropping it removes it. A later command removes
//! what one that was killed has left.

use crate::api_client;
use crate::error::{Error, Result};
use crate::output;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A folder that was just made may not be locked yet.
const LOCKED_WITHIN_S: i64 = 60;

/// The folder.
pub struct ScratchFolder {
    path: PathBuf,
    /// A lock on the folder, which ends with the process. Some network folders have no locks: nobody removes theirs.
    _lock: Option<File>,
}

impl ScratchFolder {
    /// Creates it in the folder `place`, with a name that begins with `prefix`.
    pub fn create(place: &Path, prefix: &str) -> Result<ScratchFolder> {
        remove_abandoned(place, prefix);
        let path = place.join(format!("{prefix}{}-{}", std::process::id(), api_client::now()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(Error::file("create", &path))?;
        let lock = File::open(&path).and_then(|folder| folder.lock().map(|()| folder));
        Ok(ScratchFolder { _lock: lock.ok(), path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the folders of commands that were killed: nobody holds their lock.
fn remove_abandoned(place: &Path, prefix: &str) {
    let old = api_client::now() - LOCKED_WITHIN_S;
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| {
            let numbers = name.strip_prefix(prefix).and_then(|numbers| numbers.split_once('-'));
            numbers.is_some_and(|(process, time)| {
                process.parse::<u32>().is_ok() && time.parse().is_ok_and(|time: i64| (0..old).contains(&time))
            })
        });
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        if is_ours && is_folder && File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok()) {
            remove(&path);
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        output::tell(&format!("sarsen: cannot remove {}: {error}", folder.display()));
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_removes_what_a_killed_command_left() {
        let place = tempfile::tempdir().expect("a folder");
        let abandoned = place.path().join("rehearsal-17-1700000000");
        let other = place.path().join("rehearsal-notes");
        for folder in [&abandoned, &other] {
            std::fs::create_dir(folder).expect("created");
            std::fs::write(folder.join("sarsen.db"), "a copy").expect("written");
        }
        // One that runs has the lock of its folder.
        let running = place.path().join("rehearsal-18-1700000000");
        std::fs::create_dir(&running).expect("created");
        let lock = File::open(&running).expect("opens");
        lock.lock().expect("locked");
        let folder = ScratchFolder::create(place.path(), "rehearsal-").expect("a folder");
        assert!(!abandoned.exists() && other.exists() && running.exists() && folder.path.exists());
        let path = folder.path.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
