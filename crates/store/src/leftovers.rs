//! Files that a killed program was writing. A file gets its name when it is whole; until then it is called
//! `NAME.PROCESS.sarsen-new` or `NAME.PROCESS-NUMBER.sarsen-new`, and a program that is killed leaves it.
//!
//! Who writes such a file locks it. One is removed only if it is surely ours and surely nobody's: a plain file of this user
//! that nobody else may read, on a local file system, whose process has ended and whose lock is free. Of the others, those
//! that somebody should look at are named. Files of other users are passed over.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The end of the name of a file that is being written. Nobody names an own file like this.
pub const END: &str = ".sarsen-new";
/// The highest number of a process (`PID_MAX_LIMIT` of Linux). A date in a name is higher.
const PROCESS_MAX: u64 = 4_194_304;
/// A file that is being made may not be locked yet. Only this process can tell that its own number is not in use by another.
const LOCKED_WITHIN: Duration = Duration::from_secs(60);
/// The longest text that is written in this way.
const TEXT_MAX: u64 = 1024 * 1024;
/// How a SQLite file begins.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// A file that was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is, or was.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The number of the process that wrote it.
    pub process: u32,
    /// Why it is still there; `None` if it was removed, or by [`find`] if it can be.
    pub kept: Option<String>,
}

/// What is written beside its name in a folder.
#[derive(Clone, Copy)]
pub enum Written<'a> {
    /// Copies of databases, under any name.
    Databases,
    /// A text whose name begins like this.
    Texts(&'a str),
}

impl Written<'_> {
    /// The process in the name of a file, if it is one of these.
    fn process(self, name: &str) -> Option<u32> {
        let stem = match self {
            Written::Databases => name,
            Written::Texts(begin) => name.strip_prefix(begin)?,
        };
        let (_, numbers) = stem.strip_suffix(END)?.rsplit_once('.')?;
        let process = match self {
            Written::Databases => {
                let (process, count) = numbers.split_once('-')?;
                number(count)?;
                process
            }
            Written::Texts(_) => numbers,
        };
        let process = number(process).filter(|process| (1..=PROCESS_MAX).contains(process))?;
        u32::try_from(process).ok()
    }

    /// Whether a file may have this content. One that was just begun has none.
    fn fits(self, file: &mut File, bytes: u64) -> std::io::Result<bool> {
        if let Written::Texts(_) = self {
            return Ok(bytes <= TEXT_MAX);
        }
        let mut begin = Vec::new();
        file.take(SQLITE.len() as u64).read_to_end(&mut begin)?;
        // Its first page may come last.
        Ok(begin.iter().all(|byte| *byte == 0) || begin == SQLITE)
    }
}

/// A number as it is written into a name: without a sign or a leading zero.
fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text)
}

/// Creates a file that does not have its name yet, for its owner only, and locks it. The lock ends with the file or the
/// process. Fails if another process writes a file of this name.
pub fn create(path: &Path) -> std::io::Result<File> {
    remove_unused(path)?;
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    if let Err(error) = claim(&file) {
        if is_named(path, &file) {
            let _ = fs::remove_file(path);
        }
        return Err(error);
    }
    // Another process may have removed it before it was locked.
    check_named(path, &file)?;
    Ok(file)
}

/// Fails if the path does not name this file any more: to rename the path would publish a file of another process.
pub fn check_named(path: &Path, file: &File) -> std::io::Result<()> {
    if is_named(path, file) {
        return Ok(());
    }
    let text =
        format!("another command has removed or replaced {path:?}; run this one again when it has ended");
    Err(Error::new(ErrorKind::ResourceBusy, text))
}

/// Whether the path still names this file. Otherwise another process may have the name.
pub fn is_named(path: &Path, file: &File) -> bool {
    match (path.symlink_metadata(), file.metadata()) {
        (Ok(named), Ok(held)) => is_same(&named, &held),
        _ => false,
    }
}

/// Removes a file of this name that a killed process with the same number left. It may also be in use: in containers, every
/// command can have the number 1.
fn remove_unused(path: &Path) -> std::io::Result<()> {
    let old = match open_unfollowed(path) {
        Ok(old) => old,
        // There is none, or the folder cannot be used. Then the file cannot be created, and that error is the clearer one.
        Err(_) if path.symlink_metadata().is_err() => return Ok(()),
        Err(error) => {
            let text =
                format!("{path:?} exists and cannot be opened ({error}); remove it if nobody writes it");
            return Err(Error::new(ErrorKind::AlreadyExists, text));
        }
    };
    if has_both_kinds_of_locks(&old) {
        match old.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let text = format!("another command writes it ({path:?}); wait for it");
                return Err(Error::new(ErrorKind::ResourceBusy, text));
            }
            Err(TryLockError::Error(error)) if !means_no_locks(&error) => return Err(error),
            _ => {}
        }
    }
    // Its writer may have finished meanwhile.
    if is_named(path, &old) { fs::remove_file(path) } else { Ok(()) }
}

/// Locks a file that this process writes. Without locks on its file system, writing goes on: such a file is never removed as
/// a leftover.
fn claim(file: &File) -> std::io::Result<()> {
    if !has_both_kinds_of_locks(file) {
        return Ok(());
    }
    match file.lock() {
        Err(error) if means_no_locks(&error) => Ok(()),
        locked => locked,
    }
}

/// Whether a lock failed because the file system has none.
fn means_no_locks(error: &Error) -> bool {
    use rustix::io::Errno;
    let number = Errno::from_io_error(error);
    error.kind() == ErrorKind::Unsupported || number == Some(Errno::NOSYS) || number == Some(Errno::OPNOTSUPP)
}

/// Opens a file, but not through a symbolic link, and does not wait for the other end of a pipe.
fn open_unfollowed(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Removes what killed processes left in a folder, and returns it with what somebody should look at. A folder that cannot
/// be read has nothing.
pub fn remove(folder: &Path, written: Written<'_>) -> Vec<Leftover> {
    look(folder, written, true)
}

/// The same without removing anything.
pub fn find(folder: &Path, written: Written<'_>) -> Vec<Leftover> {
    look(folder, written, false)
}

fn look(folder: &Path, written: Written<'_>, removes: bool) -> Vec<Leftover> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<(String, u32)> =
        names.filter_map(|name| written.process(&name).map(|process| (name, process))).collect();
    found.sort();
    let judged = found.into_iter().filter_map(|(name, process)| {
        let path = folder.join(name);
        let seen = path.symlink_metadata().ok().filter(is_ours)?;
        let kept = judge(&path, &seen, written, process, removes).ok()??;
        let kept = match kept {
            Judged::Nobodys => None,
            Judged::Kept(why) => Some(why),
        };
        Some(Leftover { path, bytes: seen.len(), process, kept })
    });
    judged.collect()
}

/// A plain file of this user that nobody else may read, as all of these are from their first moment on. Another user may
/// give a file any name, so those of others are not even named.
fn is_ours(seen: &Metadata) -> bool {
    seen.is_file() && seen.mode() & 0o7777 == 0o600 && seen.uid() == rustix::process::geteuid().as_raw()
}

enum Judged {
    /// Nobody writes it. It was removed, if that was wanted.
    Nobodys,
    /// Why it stays.
    Kept(String),
}

/// `None` for a file that is being written, or is not ours.
fn judge(
    path: &Path,
    seen: &Metadata,
    written: Written<'_>,
    process: u32,
    removes: bool,
) -> std::io::Result<Option<Judged>> {
    let kept = |why: String| Ok(Some(Judged::Kept(why)));
    let mut file = open_unfollowed(path)?;
    let opened = file.metadata()?;
    if !is_same(seen, &opened) || !written.fits(&mut file, opened.len())? {
        return Ok(None);
    }
    if !is_on_a_local_disk(&file) {
        return kept(
            "another machine may be writing it, because its file system is not known to be local; remove it if none is"
                .to_owned(),
        );
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if process == std::process::id() {
        // An earlier process had the number, as those of containers have; or this one has just made the file.
        let age = opened.modified()?.elapsed().unwrap_or_default();
        if age < LOCKED_WITHIN {
            return Ok(None);
        }
    } else if runs(process) {
        return kept(format!(
            "a process with the number {process} runs; remove the file if that is another program"
        ));
    }
    if !is_named(path, &file) {
        // Its writer has finished meanwhile.
        return Ok(None);
    }
    if removes && let Err(error) = fs::remove_file(path) {
        return kept(format!("it cannot be removed: {error}"));
    }
    Ok(Some(Judged::Nobodys))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether there is a process with this number. One that this user may not look at runs too.
fn runs(process: u32) -> bool {
    let number = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    number.is_some_and(|number| rustix::process::test_kill_process(number) != Err(rustix::io::Errno::SRCH))
}

/// Whether the two kinds of locks, of files and of ranges of bytes as SQLite takes them, are apart, as on the disks of Linux.
/// Elsewhere, and on the network, the two kinds meet.
#[cfg(target_os = "linux")]
pub(crate) fn has_both_kinds_of_locks(file: &File) -> bool {
    /// NFS, SMB, CIFS, SMB 2 and 3, Ceph, AFS, 9P (statfs(2)).
    const OF_NETWORKS: [u32; 7] =
        [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x00C3_6400, 0x5346_414F, 0x0102_1997];
    rustix::fs::fstatfs(file).is_ok_and(|system| !OF_NETWORKS.contains(&(system.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn has_both_kinds_of_locks(_: &File) -> bool {
    false
}

/// Whether the file is on a file system that no other machine writes and whose locks are known to work.
#[cfg(target_os = "linux")]
fn is_on_a_local_disk(file: &File) -> bool {
    /// ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, ramfs (statfs(2)).
    const LOCAL: [u32; 8] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1, 0xF2F5_2010, 0x8584_58F6];
    rustix::fs::fstatfs(file).is_ok_and(|system| LOCAL.contains(&(system.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_on_a_local_disk(_: &File) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(folder: &Path, name: &str, content: &[u8]) -> File {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600).open(folder.join(name)).expect("made");
        file.write_all(content).expect("written");
        file
    }

    /// The number of a process that has ended.
    fn ended() -> u32 {
        let mut child = std::process::Command::new("true").spawn().expect("it runs");
        let number = child.id();
        child.wait().expect("it ends");
        number
    }

    fn names(found: &[Leftover]) -> Vec<(String, bool)> {
        let name = |left: &Leftover| left.path.file_name().map(|name| name.to_string_lossy().into_owned());
        found.iter().map(|left| (name(left).expect("a name"), left.kept.is_none())).collect()
    }

    #[test]
    fn what_ended_processes_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        let (folder, gone) = (place.path(), ended());
        let [whole, begun] = [0, 1].map(|number| format!("a.db.{gone}-{number}{END}"));
        file(folder, &whole, b"SQLite format 3\0 and so on");
        file(folder, &begun, b"");
        // Names or contents that we do not write.
        let foreign = [
            format!("a.db.{gone}-2{END}"),
            format!("a.db.{gone}{END}"),
            format!("a.db.x{gone}-1{END}"),
            format!("a.db.{gone}-1{END}.gz"),
            "a.db".to_owned(),
        ];
        for name in &foreign {
            file(folder, name, b"notes of somebody");
        }
        let readable = format!("b.db.{gone}-0{END}");
        file(folder, &readable, b"")
            .set_permissions(fs::Permissions::from_mode(0o644))
            .expect("opened to others");
        std::os::unix::fs::symlink("a.db", folder.join(format!("c.db.{gone}-0{END}"))).expect("a link");

        let expected = [(whole.clone(), true), (begun.clone(), true)];
        assert_eq!(names(&find(folder, Written::Databases)), expected);
        assert!(folder.join(&whole).exists(), "to find is not to remove");
        assert_eq!(names(&remove(folder, Written::Databases)), expected);
        assert!(!folder.join(&whole).exists() && !folder.join(&begun).exists());
        assert!(foreign.iter().all(|name| folder.join(name).exists()) && folder.join(&readable).exists());
        assert!(remove(folder, Written::Databases).is_empty());
    }

    #[test]
    fn a_file_that_is_being_written_stays() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path();
        // A process of another container is not seen; its lock is.
        let held = create(&folder.join(format!("a.db.{}-0{END}", ended()))).expect("made and locked");
        // This process has just made it and not locked it yet.
        let own = format!("a.db.{}-7{END}", std::process::id());
        let fresh = file(folder, &own, b"");
        assert!(remove(folder, Written::Databases).is_empty());
        // An earlier one had the same number.
        let old = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        fresh.set_modified(old).expect("an old file");
        drop(fresh);
        assert_eq!(names(&remove(folder, Written::Databases)), [(own, true)]);
        drop(held);
        assert_eq!(remove(folder, Written::Databases).len(), 1);
    }

    #[test]
    fn a_file_whose_process_may_run_is_named() {
        let place = tempfile::tempdir().expect("a folder");
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("it runs");
        let name = format!("a.db.{}-0{END}", child.id());
        file(place.path(), &name, b"");
        let found = remove(place.path(), Written::Databases);
        child.kill().and_then(|()| child.wait()).expect("it ends");
        let why = found.first().and_then(|left| left.kept.clone()).expect("named");
        assert!(why.contains(&child.id().to_string()) && place.path().join(&name).exists(), "{why}");
        assert_eq!(names(&remove(place.path(), Written::Databases)), [(name, true)]);
    }

    #[test]
    fn texts_are_known_by_the_beginning_of_their_name() {
        let place = tempfile::tempdir().expect("a folder");
        let gone = ended();
        let own = [format!("sarsen.key.{gone}{END}"), format!("sarsen.key.new.{gone}{END}")];
        // The new key of a change of the key is waited for, and has no number.
        let others = ["sarsen.key.new".to_owned(), format!("other.key.{gone}{END}"), "sarsen.key".to_owned()];
        for name in own.iter().chain(&others) {
            file(place.path(), name, b"a key");
        }
        let removed = names(&remove(place.path(), Written::Texts("sarsen.key")));
        assert_eq!(removed, own.map(|name| (name, true)));
        assert!(others.iter().all(|name| place.path().join(name).exists()));
    }

    #[test]
    fn names_that_people_give_are_not_ours() {
        let process = |name: &str| (Written::Databases.process(name), Written::Texts("a").process(name));
        assert_eq!(process("a.4194304-0.sarsen-new"), (Some(4_194_304), None));
        assert_eq!(process("a.1.sarsen-new"), (None, Some(1)));
        for name in [
            "a.20241128-120000.new",
            "a.2026.new",
            "a.20241128-120000.sarsen-new",
            "a.20241128.sarsen-new",
            "a.0-1.sarsen-new",
            "a.0.sarsen-new",
            "a.017-1.sarsen-new",
            "a.017.sarsen-new",
            "a.+17.sarsen-new",
            "a.17-01.sarsen-new",
            "a.4194305.sarsen-new",
            "a..sarsen-new",
        ] {
            assert_eq!(process(name), (None, None), "{name}");
        }
    }

    #[test]
    fn a_name_has_one_writer() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join(format!("a.key.1{END}"));
        let first = create(&path).expect("made");
        let refused = create(&path).expect_err("in use").to_string();
        assert!(refused.contains("another command writes it") && is_named(&path, &first), "{refused}");
        // As after a kill.
        drop(first);
        let second = create(&path).expect("the old file is removed");
        fs::remove_file(&path).expect("removed");
        let third = create(&path).expect("made");
        let replaced = check_named(&path, &second).expect_err("another file").to_string();
        assert!(replaced.contains("has removed or replaced"), "{replaced}");
        check_named(&path, &third).expect("its own file");
        drop(third);
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("elsewhere", &path).expect("a link");
        let refused = create(&path).expect_err("a link is not followed").to_string();
        assert!(refused.contains("cannot be opened"), "{refused}");
    }
}
