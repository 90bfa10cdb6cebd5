//! Backups of a SQLite file: what a copy holds, which files are refused, and what a restore leaves behind.

use crate::support::{COUNT, Database, MIGRATIONS, TestStore};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::backup::{Mark, MarkKey};
use store::{Error, Options, Store, args, backup, sql};

/// Backups under load; `SARSEN_SOAK` takes more.
const ROUNDS: usize = 10;
const SOAK_ROUNDS: usize = 100;
const WRITERS: u64 = 8;
/// Rows before the first backup, so that it takes a while.
const ROWS: u64 = 4_000;

fn key() -> MarkKey {
    MarkKey::new([7; 32])
}

/// A database under full write load. Each writer counts what was acknowledged to it.
struct Load {
    test: Arc<TestStore>,
    acknowledged: Arc<Vec<AtomicU64>>,
    stopped: Arc<AtomicBool>,
}

impl Load {
    fn new() -> Load {
        let test = Arc::new(Database::Sqlite.open_with(|options| options.check = false));
        let acknowledged = Arc::new((0..WRITERS).map(|_| AtomicU64::new(0)).collect());
        Load { test, acknowledged, stopped: Arc::default() }
    }

    fn writers(&self) -> Vec<tokio::task::JoinHandle<()>> {
        let write = |writer: u64| {
            let (test, stopped) = (self.test.clone(), self.stopped.clone());
            let acknowledged = self.acknowledged.clone();
            tokio::spawn(async move {
                for number in 1.. {
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    test.add(&id(writer, number), "ada", &body(writer, number)).await.expect("writes");
                    acknowledged[writer as usize].store(number, Ordering::SeqCst);
                }
            })
        };
        (0..WRITERS).map(write).collect()
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    async fn wait_for_rows(&self, rows: u64) {
        while self.acknowledged().iter().sum::<u64>() < rows {
            tokio::task::yield_now().await;
        }
    }
}

/// Scattered over the table, so that each batch changes pages everywhere.
fn id(writer: u64, number: u64) -> String {
    format!("{:016x}", (number * WRITERS + writer).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn body(writer: u64, number: u64) -> String {
    format!("{writer}-{number}-{}", "x".repeat(200))
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_backup_under_full_load_has_every_write_that_was_acknowledged_before() {
    let load = Load::new();
    let writers = load.writers();
    load.wait_for_rows(ROWS).await;
    let soak = std::env::vars().any(|(name, _)| name == "SARSEN_SOAK");
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..if soak { SOAK_ROUNDS } else { ROUNDS } {
        let path = folder.path().join(format!("{round}.db"));
        let before = load.acknowledged();
        let (store, target) = (load.test.store.clone(), path.clone());
        let bytes = tokio::task::spawn_blocking(move || store.backup(&target, &key())).await.expect("joins");
        let bytes = bytes.expect("a backup");
        let found = backup::inspect(&path, MIGRATIONS, &[key()]).expect("whole");
        assert_eq!((found.problems, found.bytes), (vec![], bytes));
        assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        let wanted: Vec<String> = (0..WRITERS)
            .flat_map(|writer| (1..=before[writer as usize]).map(move |number| id(writer, number)))
            .collect();
        let missing = backup::read(&path, |snapshot| {
            let mut ids = std::collections::HashSet::new();
            snapshot
                .each(&sql("SELECT id FROM notes"), args![], |row| Ok(ids.insert(row.get::<String>(0)?)))?;
            Ok::<_, Error>(wanted.iter().filter(|id| !ids.contains(*id)).count())
        });
        assert_eq!(missing.expect("opens").expect("reads"), 0, "of {} in round {round}", wanted.len());
        std::fs::remove_file(&path).expect("removed");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left behind");
    load.stopped.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.expect("joins");
    }
}

/// A closed database with two rows, of which one refers to the other.
struct Family {
    folder: tempfile::TempDir,
}

const PAIRS: &[store::Migration] = &[store::Migration {
    number: 1,
    name: "pairs",
    text: "CREATE TABLE pairs (id {key} NOT NULL PRIMARY KEY, other_id {key},
               FOREIGN KEY (other_id) REFERENCES pairs (id)) {table};",
}];

impl Family {
    async fn new() -> Family {
        let family = Family { folder: tempfile::tempdir().expect("a folder") };
        let store = family.open();
        let rows = store.write("pairs", |tx| {
            tx.exec(&sql("INSERT INTO pairs (id) VALUES ('a')"), args![])?;
            tx.exec(&sql("INSERT INTO pairs (id, other_id) VALUES ('b', 'a')"), args![])
        });
        rows.await.map_err(|error: Error| error).expect("writes");
        store.close();
        family
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pairs.db")
    }

    fn open(&self) -> Store {
        Store::open(Options::new(format!("sqlite:{}", self.path().display()), PAIRS)).expect("opens")
    }

    fn change(&self, sql: &str) {
        let raw = rusqlite::Connection::open(self.path()).expect("opens");
        raw.execute_batch(&format!("PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = OFF; {sql}"))
            .expect("changes");
    }

    fn problems(&self) -> String {
        match backup::inspect(&self.path(), PAIRS, &[key()]) {
            Ok(found) => found.problems.join("\n"),
            Err(error) => error.to_string(),
        }
    }
}

#[tokio::test]
async fn a_check_names_what_is_wrong_and_changes_nothing() {
    for (change, expected) in [
        ("", ""),
        ("DELETE FROM pairs WHERE id = 'a'", "1 rows of pairs refer to rows of pairs that are not there"),
        ("DROP TABLE pairs", "table pairs is missing"),
        ("CREATE VIEW more AS SELECT 1", "view more is not part of schema 1"),
        (
            "INSERT INTO sarsen_migrations VALUES (2, 'later')",
            "it has schema 2, and this program knows up to 1",
        ),
        ("DROP TABLE sarsen_version", "is not a whole database of Sarsen"),
    ] {
        let family = Family::new().await;
        family.change(change);
        let before = std::fs::read(family.path()).expect("reads");
        let problems = family.problems();
        assert!(
            problems.contains(expected) && expected.is_empty() == problems.is_empty(),
            "{change}: {problems}"
        );
        assert_eq!(std::fs::read(family.path()).expect("reads"), before, "{change}");
    }
}

/// As after an upgrade from a version whose migrations had other words.
#[tokio::test]
async fn a_schema_is_compared_by_its_structure_also_beside_a_server() {
    let family = Family::new().await;
    family.change(
        "CREATE TABLE other (other_id TEXT REFERENCES pairs (id), id TEXT NOT NULL, PRIMARY KEY (id)) WITHOUT ROWID;
         INSERT INTO other (id, other_id) SELECT id, other_id FROM pairs;
         DROP TABLE pairs;
         ALTER TABLE other RENAME TO pairs;
         CREATE INDEX mine ON pairs (other_id);",
    );
    let found = backup::inspect(&family.path(), PAIRS, &[key()]).expect("reads");
    let warning = "index mine of table pairs is not part of schema 1";
    assert_eq!((&found.problems[..], &found.warnings[..]), (&[][..], &[warning.to_owned()][..]));
    let store = family.open();
    let served = backup::compare_schema(&family.path(), PAIRS).expect("reads beside the server");
    assert_eq!((&served.problems[..], &served.warnings[..]), (&[][..], &[warning.to_owned()][..]));
    let copy = family.folder.path().join("copy.db");
    store.backup(&copy, &key()).expect("a backup");
    store.close();
    let before = std::fs::read(&copy).expect("reads");
    assert_eq!(backup::compare_schema(&copy, PAIRS).expect("reads"), served);
    assert_eq!(std::fs::read(&copy).expect("reads"), before, "it is not changed");
    family.change("CREATE TRIGGER more AFTER INSERT ON pairs BEGIN DELETE FROM pairs; END");
    let problems = backup::compare_schema(&family.path(), PAIRS).expect("reads").problems;
    assert_eq!(problems, ["trigger more is not part of schema 1"]);
}

#[tokio::test]
async fn a_check_refuses_a_damaged_file_and_one_with_a_log() {
    let family = Family::new().await;
    let whole = std::fs::read(family.path()).expect("reads");
    let damaged = |bytes: &[u8]| {
        std::fs::write(family.path(), bytes).expect("written");
        family.problems()
    };
    assert!(damaged(b"").contains("is empty"));
    assert!(
        damaged(b"a text that is no database, longer than the header of one").contains("use another backup")
    );
    assert_ne!(damaged(&whole[..whole.len() - 4096]), "", "cut off");
    for page in 1..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0xA5);
        assert_ne!(damaged(&bytes), "", "page {page} of {}", whole.len() / 4096);
    }
    assert_eq!(damaged(&whole), "");
    std::fs::write(family.folder.path().join("pairs.db-wal"), "x").expect("written");
    assert!(damaged(&whole).contains("write-ahead log beside it"));
}

#[tokio::test]
async fn what_is_no_file_is_named_as_such() {
    let family = Family::new().await;
    let folder = family.folder.path();
    let no_file = |path: &Path| backup::inspect(path, PAIRS, &[key()]).expect_err("no file").to_string();
    assert!(no_file(folder).contains("is not a file; name the file of a backup"));
    assert!(no_file(&folder.join("none.db")).contains("none.db does not exist; check the name"));
    let itself =
        backup::restore(&family.path(), &family.path(), &folder.join("kept.db"), |_| Ok::<_, Error>(()));
    let itself = itself.expect_err("the same file").to_string();
    assert!(itself.contains("is the database itself; name a backup"), "{itself}");
    let store = family.open();
    for (target, expected) in [
        ("none/copy.db", "none is not a folder that exists; create it, or use another"),
        ("", "is a folder; name a file in it"),
        ("pairs.db", "exists; choose another name"),
    ] {
        let refused = store.backup(&folder.join(target), &key()).expect_err("refused").to_string();
        assert!(refused.contains(expected), "{target}: {refused}");
    }
    store.close();
}

/// A backup of the family.
async fn backup_of(family: &Family) -> PathBuf {
    let path = family.folder.path().join("backup.db");
    let store = family.open();
    store.backup(&path, &key()).expect("a backup");
    store.close();
    path
}

#[tokio::test]
async fn a_backup_with_one_changed_byte_or_a_missing_end_is_refused_wherever_it_is() {
    let family = Family::new().await;
    let path = backup_of(&family).await;
    let whole = std::fs::read(&path).expect("reads");
    let found = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        match backup::inspect(&path, PAIRS, &[key()]) {
            Ok(found) => found.problems.join("\n"),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(found(&whole), "");
    // Each byte of the file's header and of its end; in the pages between, one in a hundred.
    let near_an_end = |at: &usize| *at < 128 || *at + 200 > whole.len() || at.is_multiple_of(97);
    for at in (0..whole.len()).filter(near_an_end) {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        let problems = found(&changed);
        assert!(
            problems.contains("backup.db is") && problems.contains("use another backup"),
            "{at}: {problems}"
        );
    }
    let lengths = (1..whole.len()).filter(|length| length.is_multiple_of(613) || *length + 165 > whole.len());
    for length in lengths {
        assert_ne!(found(&whole[..length]), "", "cut off at {length} of {}", whole.len());
    }
    assert_ne!(found(&[&whole[..], b"more"].concat()), "", "with something behind it");
}

#[tokio::test]
async fn a_backup_shows_under_which_key_it_was_made_and_without_its_end_nothing() {
    let family = Family::new().await;
    let path = backup_of(&family).await;
    let mark = |keys: &[MarkKey]| backup::inspect(&path, PAIRS, keys).expect("reads").mark;
    let other = MarkKey::new([8; 32]);
    assert_eq!(mark(&[key()]), Mark::Key(0));
    assert_eq!(mark(&[other.clone(), key()]), Mark::Key(1));
    assert_eq!(mark(&[other]), Mark::OtherKey);
    assert_eq!(mark(&[]), Mark::OtherKey);
    let whole = std::fs::read(&path).expect("reads");
    let pages = whole.len() / 4096 * 4096;
    std::fs::write(&path, &whole[..pages]).expect("written");
    assert_eq!(mark(&[key()]), Mark::None);
}

#[tokio::test]
async fn a_backup_is_a_database_that_the_next_server_changes() {
    let family = Family::new().await;
    let path = backup_of(&family).await;
    std::fs::rename(&path, family.path()).expect("moved");
    // As a user may do it by hand: the checksum is behind the last page, and is in nobody's way.
    for id in ["c", "d"] {
        let store = family.open();
        let insert = sql("INSERT INTO pairs (id, other_id) VALUES (?1, 'a')");
        let row = store.write("pairs", move |tx| tx.exec(&insert, args![id])).await;
        row.map_err(|error: Error| error).expect("writes");
        store.close();
        assert_eq!(family.problems(), "", "after {id}");
    }
}

async fn count(options: Options) -> (i64, u64) {
    let store = Store::open(options).expect("opens");
    let rows = store.read(|snapshot| snapshot.one(&COUNT, args![], |row| row.get(0)));
    let rows = rows.await.map_err(|error: Error| error).expect("reads").expect("a count");
    let version = store.version().number();
    store.close();
    (rows, version)
}

#[tokio::test]
async fn a_restore_keeps_the_old_database_and_continues_behind_its_versions() {
    let test = Database::Sqlite.open();
    let (path, options) = (test.path(), test.options());
    let folder = path.parent().expect("a folder").to_owned();
    let (saved, kept) = (folder.join("saved.db"), folder.join("kept.db"));
    test.add("n1", "ada", "one").await.expect("writes");
    test.store.backup(&saved, &key()).expect("a backup");
    let taken = test.store.backup(&saved, &key()).expect_err("not overwritten").to_string();
    assert!(taken.contains("exists"), "{taken}");
    test.add("n2", "ada", "two").await.expect("writes");
    let old_version = test.store.version().number();

    let accept = |_: &Path| Ok::<_, Error>(());
    let served = backup::restore(&saved, &path, &kept, accept).expect_err("it is in use").to_string();
    assert!(served.contains("in use by process"), "{served}");
    test.store.close();
    let refuse = |_: &Path| Err(Error::Open("not this one".to_owned()));
    let refused = backup::restore(&saved, &path, &kept, refuse).expect_err("refused").to_string();
    assert_eq!(refused, "not this one");
    assert!(!kept.exists() && count(options.clone()).await.0 == 2, "nothing has changed");

    // As after a kill between the second name and the new content: both names are one file.
    std::fs::hard_link(&path, &kept).expect("linked");
    let taken = backup::restore(&saved, &path, &kept, accept).expect_err("not overwritten").to_string();
    assert!(taken.contains("exists"), "{taken}");
    assert_eq!(count(options.clone()).await.0, 2, "nothing has changed");
    std::fs::remove_file(&kept).expect("removed");

    assert!(backup::restore(&saved, &path, &kept, accept).expect("restored"));
    let (rows, version) = count(options.clone()).await;
    assert!(rows == 1 && version > old_version + 1_000_000, "{rows} rows, {old_version} → {version}");
    let mut old = options;
    old.url = format!("sqlite:{}", kept.display());
    assert_eq!(count(old).await.0, 2);
    let left: Vec<String> = backup::list(&folder, "", store::leftovers::END).expect("a folder");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn commits_of_a_killed_server_are_in_the_database_that_a_restore_keeps() {
    let test = Database::Sqlite.open();
    test.add("n1", "ada", "one").await.expect("writes");
    let folder = tempfile::tempdir().expect("a folder");
    let (path, saved) = (folder.path().join("copy.db"), folder.path().join("saved.db"));
    test.store.backup(&saved, &key()).expect("a backup");
    test.add("n2", "ada", "two").await.expect("writes");
    // What a kill leaves behind: the file and its log.
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", test.path().display());
        std::fs::copy(from, format!("{}{suffix}", path.display())).expect("copied");
    }
    let kept = folder.path().join("kept.db");
    backup::restore(&saved, &path, &kept, |_| Ok::<_, Error>(())).expect("restored");
    let options = |path: &Path| Options::new(format!("sqlite:{}", path.display()), MIGRATIONS);
    assert_eq!((count(options(&kept)).await.0, count(options(&path)).await.0), (2, 1));
}

#[tokio::test]
async fn an_old_database_that_cannot_be_kept_stays_as_it_is() {
    let test = Database::Sqlite.open();
    let (path, options) = (test.path(), test.options());
    let folder = path.parent().expect("a folder").to_owned();
    let saved = folder.join("saved.db");
    test.store.backup(&saved, &key()).expect("a backup");
    let reader = rusqlite::Connection::open(&path).expect("opens");
    let begin = "BEGIN; SELECT count(*) FROM notes";
    reader.execute_batch(begin).expect("reads");
    test.add("n1", "ada", "one").await.expect("writes");
    test.store.close();
    // While it reads, the log cannot be moved into the file.
    let kept = folder.join("no such folder/kept.db");
    let refused = backup::restore(&saved, &path, &kept, |_| Ok::<_, Error>(())).expect_err("no such folder");
    assert!(refused.to_string().contains("cannot be kept"), "{refused}");
    drop(reader);
    assert_eq!(count(options).await.0, 1, "the commit is in the log");
}

#[tokio::test]
async fn the_database_file_follows_its_log_within_seconds() {
    let test = Database::Sqlite.open();
    test.add("n1", "ada", "one").await.expect("writes");
    let folder = tempfile::tempdir().expect("a folder");
    let (copy, gives_up) = (folder.path().join("copy.db"), Instant::now() + Duration::from_secs(60));
    loop {
        std::fs::copy(test.path(), &copy).expect("copied");
        let rows = backup::read(&copy, |snapshot| snapshot.one(&COUNT, args![], |row| row.get::<i64>(0)));
        if matches!(rows, Ok(Ok(Some(1)))) {
            break;
        }
        assert!(Instant::now() < gives_up, "{rows:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn references_are_known_and_rows_without_their_parents_are_counted() {
    let family = Family::new().await;
    let tables = store::transfer::tables(PAIRS).expect("tables");
    let references = tables[0].references.clone();
    let shown: Vec<_> =
        references.iter().map(|one| (&*one.columns[0], &*one.parent, &*one.parent_columns[0])).collect();
    assert_eq!(shown, [("other_id", "pairs", "id")]);
    for (change, expected) in [("", 0), ("DELETE FROM pairs WHERE id = 'a'", 1)] {
        family.change(change);
        let store = family.open();
        let (table, reference) = (tables[0].clone(), references[0].clone());
        let count = store.read(move |snapshot| table.dangling(snapshot, &reference)).await;
        assert_eq!(count.map_err(|error: Error| error).expect("reads"), expected, "{change}");
        store.close();
    }
}
