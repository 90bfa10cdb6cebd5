//! Files that a killed program was writing. A file gets its name when it is whole; until then it is called
//! `NAME.PROCESS.new` or `NAME.PROCESS-NUMBER.new`, and a program that is killed leaves it.
//!
//! Who writes such a file locks it. One is removed only if it is surely ours and surely nobody's: a plain file of this user
//! that nobody else may read, whose process has ended and whose lock is free. Of the others, those that somebody should look
//! at are named.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const END: &str = ".new";
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
                digits(count)?;
                process
            }
            Written::Texts(_) => numbers,
        };
        digits(process)
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

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Locks a file that this process writes and that does not have its name yet. The lock ends with the file or the process.
pub fn claim(file: &File) -> std::io::Result<()> {
    if has_both_kinds_of_locks(file) { file.lock() } else { Ok(()) }
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
        let seen = path.symlink_metadata().ok().filter(is_private)?;
        let kept = judge(&path, &seen, written, process, removes).ok()??;
        let kept = match kept {
            Judged::Nobodys => None,
            Judged::Kept(why) => Some(why),
        };
        Some(Leftover { path, bytes: seen.len(), process, kept })
    });
    judged.collect()
}

/// A plain file that only its owner may read, as all of these are from their first moment on.
fn is_private(seen: &Metadata) -> bool {
    seen.is_file() && seen.mode() & 0o7777 == 0o600
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
    if seen.uid() != rustix::process::geteuid().as_raw() {
        return kept(format!("it belongs to another user (number {}), who may remove it", seen.uid()));
    }
    let mut options = OpenOptions::new();
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut file = options.read(true).custom_flags(no_follow.bits() as i32).open(path)?;
    let opened = file.metadata()?;
    if !is_same(seen, &opened) || !written.fits(&mut file, opened.len())? {
        return Ok(None);
    }
    if !has_both_kinds_of_locks(&file) {
        return kept(
            "the folder is of the network, where another machine may be writing it; remove it if none is"
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
    if removes
        && path.symlink_metadata().is_ok_and(|now| is_same(&now, &opened))
        && let Err(error) = fs::remove_file(path)
    {
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
        let [whole, begun] = [0, 1].map(|number| format!("a.db.{gone}-{number}.new"));
        file(folder, &whole, b"SQLite format 3\0 and so on");
        file(folder, &begun, b"");
        // Names or contents that we do not write.
        let foreign = [
            format!("a.db.{gone}-2.new"),
            format!("a.db.{gone}.new"),
            format!("a.db.x{gone}-1.new"),
            format!("a.db.{gone}-1.new.gz"),
            "a.db".to_owned(),
        ];
        for name in &foreign {
            file(folder, name, b"notes of somebody");
        }
        let readable = format!("b.db.{gone}-0.new");
        file(folder, &readable, b"")
            .set_permissions(fs::Permissions::from_mode(0o644))
            .expect("opened to others");
        std::os::unix::fs::symlink("a.db", folder.join(format!("c.db.{gone}-0.new"))).expect("a link");

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
        let held = file(folder, &format!("a.db.{}-0.new", ended()), b"");
        claim(&held).expect("a lock");
        // This process has just made it and not locked it yet.
        let own = format!("a.db.{}-7.new", std::process::id());
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
        let name = format!("a.db.{}-0.new", child.id());
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
        let own = [format!("sarsen.key.{gone}.new"), format!("sarsen.key.new.{gone}.new")];
        // The new key of a change of the key is waited for, and has no number.
        let others = ["sarsen.key.new".to_owned(), format!("other.key.{gone}.new"), "sarsen.key".to_owned()];
        for name in own.iter().chain(&others) {
            file(place.path(), name, b"a key");
        }
        let removed = names(&remove(place.path(), Written::Texts("sarsen.key")));
        assert_eq!(removed, own.map(|name| (name, true)));
        assert!(others.iter().all(|name| place.path().join(name).exists()));
    }
}
