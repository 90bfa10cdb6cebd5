//! A copy of a database file while it is in use, without stopping the writer.
//!
//! The copy is one snapshot: it holds each commit from before the start and nothing of those that come later. SQLite's
//! backup API copies page by page, in steps; every few steps the copy is flushed, so that the last flush is short.
//!
//! The copy is written under another name beside its target, gets a checksum, and is renamed at the end. If the process is killed, no file
//! has the target's name, and what is left behind ends in `.sarsen-new` (`leftovers.rs`).
//!
//! The snapshot keeps the write-ahead log from starting again. A copy ends with an error before the log reaches the
//! length at which writes are refused.

use super::checksum::{self, Checked};
use super::connection::{Connection, Role};
use crate::Error;
use crate::engine::Shared;
use crate::leftovers;
use crate::mark::MarkKey;
use rusqlite::ErrorCode;
use rusqlite::backup::{Backup, StepResult};
use std::fs::{self, File};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pages a step: a megabyte.
const STEP_PAGES: i32 = 256;
/// Steps between two flushes.
const STEPS_A_FLUSH: u64 = 8;
/// A copy ends when the write-ahead log is longer than this (768 MiB).
const LOG_MAX: u64 = 768 * 1024 * 1024;
/// Where the header of a file has the versions of its format, and the value for a file without a write-ahead log.
const FORMAT_AT: u64 = 18;
const NO_LOG: [u8; 2] = [1, 1];

/// Copies the database at `source` to `target`, which must not exist. Returns the size of the copy.
pub(crate) fn copy(source: &Path, target: &Path, key: &MarkKey) -> Result<u64, Error> {
    copy_within(source, target, key, &Limits::default())
}

/// The same, but ends with an error soon after `stopped` was set.
pub(super) fn copy_until(
    source: &Path,
    target: &Path,
    key: &MarkKey,
    shared: Option<&Arc<Shared>>,
    stopped: &AtomicBool,
) -> Result<u64, Error> {
    copy_within(source, target, key, &Limits { stopped: Some(stopped), shared, ..Limits::default() })
}

/// What ends a copy before it is complete.
struct Limits<'a> {
    /// The length of the write-ahead log.
    log_max: u64,
    stopped: Option<&'a AtomicBool>,
    /// What the connections of this server share.
    shared: Option<&'a Arc<Shared>>,
}

impl Limits<'_> {
    fn check_stopped(&self) -> Result<(), Error> {
        match self.stopped {
            Some(stopped) if stopped.load(Ordering::Relaxed) => Err(Error::Stopped),
            _ => Ok(()),
        }
    }
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { log_max: LOG_MAX, stopped: None, shared: None }
    }
}

fn copy_within(source: &Path, target: &Path, key: &MarkKey, limits: &Limits<'_>) -> Result<u64, Error> {
    if target.is_dir() {
        return Err(failed(target, "is a folder; name a file in it"));
    }
    if target.symlink_metadata().is_ok() {
        return Err(failed(target, "exists; choose another name"));
    }
    let mut reader = Connection::open(source, Role::Reader, false)?;
    if let Some(shared) = limits.shared {
        reader = reader.of(shared);
    }
    let unfinished = Unfinished::create(target)?;
    let log = super::beside(source, "-wal");
    fill(reader, &unfinished, &log, limits)?;
    unfinished.mark_as_closed()?;
    let bytes = checksum::append(&unfinished.file, key, limits.stopped);
    limits.check_stopped()?;
    let bytes = bytes.map_err(|error| unfinished.error(&error))?;
    unfinished.finish(target)?;
    Ok(bytes)
}

/// Copies all pages of one snapshot.
fn fill(
    mut reader: Connection,
    unfinished: &Unfinished,
    log: &Path,
    limits: &Limits<'_>,
) -> Result<(), Error> {
    reader.run("BEGIN")?;
    // The snapshot begins with the first read.
    let first = reader.raw().query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    first.map_err(|error| reader.error(error))?;
    let refused = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => disk_is_full(&unfinished.path),
        _ => failed(&unfinished.path, &format!("cannot be written: {error}")),
    };
    let mut target = rusqlite::Connection::open(&unfinished.path).map_err(refused)?;
    // Nobody reads an unfinished copy, so that it needs no journal; it is flushed here.
    target
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -2048;")
        .map_err(refused)?;
    {
        let backup = Backup::new(reader.raw(), &mut target).map_err(refused)?;
        let mut steps = 0_u64;
        loop {
            match backup.step(STEP_PAGES).map_err(refused)? {
                StepResult::Done => break,
                StepResult::More => {}
                // Neither file has another writer, so that this does not last.
                _ => std::thread::yield_now(),
            }
            steps += 1;
            if steps.is_multiple_of(STEPS_A_FLUSH) {
                unfinished.flush()?;
                check_log(log, limits.log_max)?;
            }
            limits.check_stopped()?;
        }
    }
    target.close().map_err(|(_, error)| refused(error))
}

/// Fails when the snapshot has held the log for too long.
fn check_log(log: &Path, log_max: u64) -> Result<(), Error> {
    match fs::metadata(log) {
        Ok(file) if file.len() > log_max => Err(Error::Unavailable {
            what: format!(
                "the write-ahead log has grown to {} MiB during the backup, which was ended so that writes go on",
                file.len() >> 20
            ),
            advice: "back up to a faster disk, or when the server writes less".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A copy that does not have its name yet. Dropping it removes it.
pub(super) struct Unfinished {
    path: PathBuf,
    file: File,
}

impl Unfinished {
    /// A new file beside `target` that only its owner may read.
    pub(super) fn create(target: &Path) -> Result<Unfinished, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = super::beside(target, &format!(".{}-{number}{}", std::process::id(), leftovers::END));
        let file = leftovers::create(&path).map_err(|error| cannot_create(&path, &error))?;
        Ok(Unfinished { path, file })
    }

    /// Removes the checksum of a copied backup: what follows changes the database.
    pub(super) fn remove_checksum(&self) -> Result<(), Error> {
        let removed = checksum::check(&self.file, &[]).and_then(|checked| match checked {
            Checked::Right { length, .. } => self.file.set_len(length),
            Checked::None | Checked::Wrong => Ok(()),
        });
        removed.map_err(|error| self.error(&error))
    }

    fn flush(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| self.error(&error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Notes in the header that the file has no write-ahead log, so that reading it creates none.
    pub(super) fn mark_as_closed(&self) -> Result<(), Error> {
        let mut file = &self.file;
        let written = file.seek(SeekFrom::Start(FORMAT_AT)).and_then(|_| file.write_all(&NO_LOG));
        written.map_err(|error| self.error(&error))
    }

    /// Flushes the copy and gives it its name.
    pub(super) fn finish(&self, target: &Path) -> Result<(), Error> {
        let named = self
            .file
            .sync_all()
            .and_then(|()| leftovers::check_named(&self.path, &self.file))
            .and_then(|()| fs::rename(&self.path, target))
            .and_then(|()| flush_folder(target));
        named.map_err(|error| self.error(&error))
    }

    pub(super) fn error(&self, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::StorageFull => disk_is_full(&self.path),
            _ => failed(&self.path, &format!("cannot be written: {error}")),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` there is nothing of this name, or a new file of another process with the same number.
        if leftovers::is_named(&self.path, &self.file) {
            let _ = fs::remove_file(&self.path);
        }
        // To close the file is not enough: a child of this process that is being started has it too, and a server would find the
        // restored database locked.
        let _ = self.file.unlock();
    }
}

/// Makes a new name in the folder of `path` durable.
pub(super) fn flush_folder(path: &Path) -> std::io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// The name of an unfinished copy is not what the user gave: the folder is what is wrong.
fn cannot_create(path: &Path, error: &std::io::Error) -> Error {
    let folder = folder_of(path);
    let what = match error.kind() {
        _ if !folder.is_dir() => "is not a folder that exists; create it, or use another",
        ErrorKind::PermissionDenied => {
            "cannot be written to by this user; use another, or run the command as its owner"
        }
        ErrorKind::StorageFull => return disk_is_full(path),
        _ => return failed(path, &format!("cannot be created: {error}")),
    };
    failed(folder, what)
}

fn disk_is_full(path: &Path) -> Error {
    failed(folder_of(path), "is on a disk that is full; free some space, or use another folder")
}

fn failed(path: &Path, what: &str) -> Error {
    Error::Open(format!("{} {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Migration, Options, Store, args, sql};

    const BLOBS: &[Migration] = &[Migration {
        number: 1,
        name: "blobs",
        text: "CREATE TABLE blobs (id {key} NOT NULL PRIMARY KEY, content {long_bytes} NOT NULL) {table};",
    }];
    const MIB: usize = 1024 * 1024;

    async fn write(store: &Store, id: usize) {
        let insert = sql("INSERT INTO blobs (id, content) VALUES (?1, ?2)");
        let row =
            store.write("blob", move |tx| tx.exec(&insert, args![&id.to_string(), &vec![id as u8; MIB][..]]));
        row.await.map_err(|error: Error| error).expect("writes");
    }

    #[tokio::test]
    async fn a_copy_that_holds_a_long_log_ends_and_writes_go_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, target) = (folder.path().join("a.db"), folder.path().join("copy.db"));
        let store = Store::open(Options::new(format!("sqlite:{}", source.display()), BLOBS)).expect("opens");
        let key = MarkKey::new([1; 32]);
        let limits = Limits { log_max: MIB as u64, ..Limits::default() };
        // More than the pages between two looks at the log.
        for id in 0..20 {
            write(&store, id).await;
        }
        let ended = copy_within(&source, &target, &key, &limits).expect_err("too long");
        let Error::Unavailable { what, advice } = ended else { panic!("{ended:?}") };
        assert!(what.contains("has grown to") && advice.contains("a faster disk"), "{what}; {advice}");
        let names = fs::read_dir(folder.path()).expect("a folder");
        let names: Vec<String> =
            names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        assert!(!names.iter().any(|name| name.starts_with("copy.db")), "{names:?}");

        write(&store, 20).await;
        let stopped = AtomicBool::new(true);
        let ended = copy_until(&source, &target, &key, None, &stopped).expect_err("the store was closed");
        assert!(matches!(ended, Error::Stopped), "{ended:?}");
        assert!(!target.exists());
        stopped.store(false, Ordering::Relaxed);
        assert!(copy_until(&source, &target, &key, None, &stopped).expect("a copy") > 20 * MIB as u64);
        store.close();
    }
}
