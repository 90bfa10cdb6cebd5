//! Files with secrets: only their owner may read them, from the moment that they exist.

use crate::error::{Error, Result};
use crate::output;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use store::leftovers::{self, Leftover, Written};

/// The owner may read and write, no one else.
const PRIVATE: u32 = 0o600;
/// The most leftovers that one command names: a folder may have any number of them.
pub const LEFTOVERS_NAMED_MAX: usize = 20;

/// Writes a new file, whole or not at all, also when the machine loses power. Fails when there is one already.
pub fn create_private(path: &Path, text: &str) -> Result<()> {
    let beside = write_beside(path, text.as_bytes())?;
    beside.check_named(path)?;
    // A second name is given only where there is none, unlike by a rename.
    let named = match fs::hard_link(&beside.path, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists && path.symlink_metadata().is_err() => {
            // A file system without hard links.
            fs::rename(&beside.path, path)
        }
        linked => linked,
    };
    beside.remove()?;
    named.and_then(|()| flush_folder(path)).map_err(Error::file("create", path))
}

/// Creates or replaces a file. Readers see the old or the new content.
pub fn replace_private(path: &Path, text: &str) -> Result<()> {
    replace_private_bytes(path, text.as_bytes())
}

/// The same of a file that need not be text.
pub fn replace_private_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = write_beside(path, bytes)?;
    beside.check_named(path)?;
    rename(&beside.path, path)
}

/// Gives a file another name, which is durable when this returns. A file that had the name is gone.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).and_then(|()| flush_folder(to)).map_err(Error::file("write", to))
}

/// A text that does not have its name yet. The open file keeps the lock, so that no other process takes the temporary name.
struct Beside {
    path: PathBuf,
    file: File,
}

impl Beside {
    /// Fails if another process has the temporary name: `target` would get its content.
    fn check_named(&self, target: &Path) -> Result<()> {
        leftovers::check_named(&self.path, &self.file).map_err(Error::file("write", target))
    }

    /// Removes the temporary name, unless it is another process's.
    fn remove(&self) -> Result<()> {
        if leftovers::is_named(&self.path, &self.file) { remove(&self.path) } else { Ok(()) }
    }
}

/// Writes the content, flushed, to a file beside `path`.
fn write_beside(path: &Path, bytes: &[u8]) -> Result<Beside> {
    let name = with_suffix(path, &format!(".{}{}", std::process::id(), leftovers::END));
    let file = leftovers::create(&name).map_err(Error::file("create", path))?;
    let mut beside = Beside { path: name, file };
    let written = beside.file.write_all(bytes).and_then(|()| beside.file.sync_all());
    if written.is_err() {
        // It is not whole, for example because the disk is full.
        beside.remove()?;
    }
    written.map_err(Error::file("write", path))?;
    Ok(beside)
}

/// Makes a new name in the folder of `path` durable.
fn flush_folder(path: &Path) -> std::io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Removes what killed commands left of copies of databases in the folder of `path`. The user is told of each file.
pub fn remove_unfinished_copies(path: &Path) {
    tell_of(&leftovers::remove(folder_of(path), Written::Databases));
}

/// The same of the texts that are written under the name of `path`, or under a longer one that begins with it.
pub fn remove_unfinished_texts(path: &Path) {
    if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
        tell_of(&leftovers::remove(folder_of(path), Written::Texts(name)));
    }
}

/// Removes what killed commands left beside the database and under the names of `texts`. The log has each file.
pub fn clear_for_a_server(database: Option<&Path>, texts: &[&Path]) {
    let copies = database.map(|path| leftovers::remove(folder_of(path), Written::Databases));
    let named = texts.iter().filter_map(|path| Some((path, path.file_name()?.to_str()?)));
    let texts = named.flat_map(|(path, name)| leftovers::remove(folder_of(path), Written::Texts(name)));
    let found: Vec<Leftover> = copies.into_iter().flatten().chain(texts).collect();
    name_leftovers(&found, |text| tracing::warn!("{text}"));
}

/// What killed commands left beside the database and the key, without removing it.
pub fn unfinished(database: Option<&Path>, key: &Path) -> Vec<Leftover> {
    let mut found =
        database.map(|path| leftovers::find(folder_of(path), Written::Databases)).unwrap_or_default();
    if let Some(name) = key.file_name().and_then(|name| name.to_str()) {
        found.extend(leftovers::find(folder_of(key), Written::Texts(name)));
    }
    found
}

fn tell_of(found: &[Leftover]) {
    name_leftovers(found, |text| output::tell(&format!("sarsen: {text}")));
}

/// Passes a sentence about each leftover to `tell`, until the command has named as many as it may.
fn name_leftovers(found: &[Leftover], tell: impl Fn(&str)) {
    // For the whole process, because a command may clear more than one folder.
    static NAMED: AtomicUsize = AtomicUsize::new(0);
    for left in found {
        match NAMED.fetch_add(1, Ordering::Relaxed) {
            ..LEFTOVERS_NAMED_MAX => tell(&describe(left)),
            LEFTOVERS_NAMED_MAX => tell(&format!(
                "killed commands left more than {LEFTOVERS_NAMED_MAX} files; only so many are named. The names of those that \
                 remain end in {}",
                leftovers::END
            )),
            _ => {}
        }
    }
}

/// A leftover and what became of it, in a sentence. The path is escaped, because a name may have characters that a terminal
/// obeys.
fn describe(left: &Leftover) -> String {
    let Leftover { path, bytes, process, kept } = left;
    match kept {
        None => format!("removed {path:?} ({bytes} bytes), which process {process} left when it was killed"),
        Some(why) => format!("process {process} left {path:?} ({bytes} bytes): {why}"),
    }
}

/// The text of a file; none when there is no such file.
pub fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// The mode of a file that others than its owner may read or write; `None` for a private file.
pub fn open_to_others(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    (mode & !PRIVATE & 0o077 != 0).then_some(mode)
}

/// Removes a file that may be there.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Creates a folder, and its parents, that only its owner may enter. A folder that exists must belong to this user.
pub fn private_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file("create", path))?;
    require_own_folder(path)
}

fn require_own_folder(path: &Path) -> Result<()> {
    let owner = fs::metadata(path).map_err(Error::file("read", path))?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(Error::usage(format!(
            "{} belongs to another user; choose another folder",
            path.display()
        )));
    }
    Ok(())
}

/// Fails if [`private_folder`] would, or if nothing can be written to the folder. For root the user of the server is not known.
pub fn check_private_folder(path: &Path) -> Result<()> {
    if path.exists() && !rustix::process::geteuid().is_root() {
        require_own_folder(path)?;
    }
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent == Path::new("") => Some(PathBuf::from(".")),
        other => other.map(Path::to_owned),
    };
    let mut there = path.to_owned();
    while !there.exists() {
        let Some(above) = parent(&there) else { break };
        there = above;
    }
    if !there.is_dir() {
        return Err(Error::failed(format!("{} is no folder; choose another folder", there.display())));
    }
    let refused = |error: rustix::io::Errno| Error::file("write to", &there)(error.into());
    rustix::fs::access(&there, rustix::fs::Access::WRITE_OK).map_err(refused)
}

/// Fails if the file belongs to another user: what replaces it would belong to this one, and the server could not open
/// it. A file that does not exist belongs to nobody.
pub fn require_own(path: &Path) -> Result<()> {
    let Ok(file) = fs::metadata(path) else { return Ok(()) };
    let owner = file.uid();
    if owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{} belongs to another user (number {owner}); run the command as that user, such as sudo -u '#{owner}' sarsen …",
        path.display()
    )))
}

/// The same, but root may: for what only reads the file.
pub fn require_own_or_root(path: &Path) -> Result<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { require_own(path) }
}

/// `path` with `suffix` at its end.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A lock on a file. It ends when this value is dropped or the process ends.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock.
    pub fn wait(path: &Path) -> Result<Lock> {
        let file = open_lock(path)?;
        file.lock().map_err(Error::file("lock", path))?;
        Ok(Lock { _file: file })
    }

    /// Takes the lock, or returns the process that has it.
    pub fn take(path: &Path) -> Result<std::result::Result<Lock, Holder>> {
        let mut file = open_lock(path)?;
        match file.try_lock() {
            Ok(()) => {
                let failed = Error::file("write", path);
                let number = std::process::id().to_string();
                let noted = file
                    .set_len(0)
                    .and_then(|()| file.rewind())
                    .and_then(|()| file.write_all(number.as_bytes()));
                noted.map_err(failed)?;
                Ok(Ok(Lock { _file: file }))
            }
            Err(TryLockError::WouldBlock) => Ok(Err(Holder::read(&mut file))),
            Err(TryLockError::Error(error)) => Err(Error::file("lock", path)(error)),
        }
    }
}

fn open_lock(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
    options.open(path).map_err(Error::file("open", path))
}

/// The process that holds a lock.
pub struct Holder(String);

impl Holder {
    fn read(file: &mut File) -> Holder {
        let mut number = String::new();
        // Without the number the message still holds.
        let _ = file.read_to_string(&mut number);
        Holder(number)
    }

    /// The process that has the lock at `path`, if there is one.
    pub fn of(path: &Path) -> Option<Holder> {
        let mut file = File::open(path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(Holder::read(&mut file)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.trim() {
            "" => out.write_str("another process"),
            number => write!(out, "process {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_stays_private_and_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        create_private(&path, "one").expect("made");
        let taken = create_private(&path, "two").expect_err("taken").to_string();
        assert!(taken.contains("cannot create") && taken.contains("File exists"), "{taken}");
        assert_eq!(read(&path).expect("read").as_deref(), Some("one"));
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("opened up");
        replace_private(&path, "three").expect("replaced");
        assert_eq!(read(&path).expect("read").as_deref(), Some("three"));
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, PRIVATE);
        let names = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 1, "nothing else is left");
        remove(&path).expect("removed");
        remove(&path).expect("nothing to remove is fine");
        assert_eq!(read(&path).expect("read"), None);
    }

    #[test]
    fn a_lock_names_its_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        assert!(Holder::of(&path).is_none());
        let held = Lock::take(&path).expect("works").ok().expect("free");
        let Err(holder) = Lock::take(&path).expect("works") else { panic!("taken twice") };
        assert_eq!(holder.to_string(), format!("process {}", std::process::id()));
        assert!(Holder::of(&path).is_some());
        drop(held);
        assert!(Holder::of(&path).is_none());
    }
}
