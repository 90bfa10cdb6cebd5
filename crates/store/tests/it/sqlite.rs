//! What only SQLite can go through: a file with one owner, a log that must be kept short, and an
//! authorizer that tells which tables a statement touches, so that declarations can be checked.

use crate::support::{BODY, Database, INSERT, MIGRATIONS, TestStore};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Cache, Error, Filled, Key, Options, Sql, Store, Time, args, sql};

#[tokio::test]
async fn a_second_owner_is_told_who_the_first_is() {
    let test = Database::Sqlite.open();
    let options = Options::new(format!("sqlite:{}", test.path().display()), MIGRATIONS);
    let Err(refused) = Store::open(options) else { panic!("two owners of one file") };
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
}

#[tokio::test]
async fn a_full_disk_is_said_reads_go_on_and_writes_resume() {
    let test = Database::Sqlite.open();
    test.add("before", "ada", "before").await.expect("writes");
    let limit = |pages: i64| {
        let pragma = store::Sql::dynamic(format!("PRAGMA max_page_count = {pages}"));
        test.store.write("limit", move |tx| tx.one(&pragma, args![], |row| row.get::<i64>(0)))
    };
    limit(1).await.map_err(|error: Error| error).expect("sets the smallest possible limit");
    let big = "x".repeat(200_000);
    let full = test.add("big", "ada", &big).await.expect_err("no room");
    assert!(matches!(&full, Error::Unavailable { what, .. } if what.contains("full")), "{full:?}");
    assert_eq!(test.body("before").await.as_deref(), Some("before"));
    assert_eq!(test.body("big").await, None);
    limit(1_000_000).await.map_err(|error: Error| error).expect("room again");
    test.add("big", "ada", &big).await.expect("writes resume");
}

#[tokio::test]
async fn a_program_that_holds_the_write_lock_gives_a_clear_error() {
    let test = Database::Sqlite.open();
    let foreign = rusqlite::Connection::open(test.path()).expect("opens");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let refused = test.add("n", "ada", "n").await.expect_err("locked");
    assert!(refused.is_temporary(), "{refused:?}");
    foreign.execute_batch("COMMIT").expect("unlocks");
    test.add("n", "ada", "n").await.expect("writes resume");
}

#[tokio::test]
async fn another_name_of_the_file_has_no_second_owner() {
    let test = Database::Sqlite.open();
    let other = test.path().with_file_name("other.db");
    std::fs::hard_link(test.path(), &other).expect("a second name");
    let Err(refused) = Store::open(Options::new(format!("sqlite:{}", other.display()), MIGRATIONS)) else {
        panic!("two owners of one file")
    };
    assert!(refused.to_string().contains("under another name"), "{refused}");
    test.add("n", "ada", "n").await.expect("the first one goes on");
}

/// Adds notes until that is refused. Returns how many there are.
async fn add_until_refused(test: &TestStore, prefix: &str) -> (i64, Error) {
    for number in 0.. {
        let id = format!("{prefix} {number}");
        if let Err(error) = test.add(&id, "ada", &id).await {
            return (number, error);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    unreachable!("it ends by a refusal")
}

fn is_detached(error: &Error) -> bool {
    matches!(error, Error::Unavailable { what, .. } if what.contains("replaced or removed"))
}

#[tokio::test]
async fn a_file_that_was_replaced_under_the_server_takes_no_writes() {
    let test = Database::Sqlite.open();
    test.add("first", "ada", "first").await.expect("writes");
    let (path, away) = (test.path(), test.path().with_file_name("away.db"));
    std::fs::rename(&path, &away).expect("moves it");
    std::fs::write(&path, "a restore by hand").expect("puts another one into its place");
    let (added, error) = add_until_refused(&test, "while away").await;
    assert!(is_detached(&error), "{error:?}");
    std::fs::rename(&away, &path).expect("moves it back");
    let began = Instant::now();
    while let Err(error) = test.add("back", "ada", "back").await {
        assert!(is_detached(&error) && began.elapsed() < Duration::from_secs(20), "{error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(test.reopen().count().await, added + 2, "nothing is lost");
}

#[tokio::test]
async fn a_log_that_was_removed_takes_no_writes_and_a_clean_stop_loses_none() {
    let test = Database::Sqlite.open();
    test.add("first", "ada", "first").await.expect("writes");
    std::fs::remove_file(format!("{}-wal", test.path().display())).expect("removes the log");
    let (added, error) = add_until_refused(&test, "without log").await;
    assert!(is_detached(&error), "{error:?}");
    assert_eq!(test.reopen().count().await, added + 1);
}

/// Whether this process has the lock on the file that SQLite takes for all who use it: 510 bytes after the first GiB.
fn is_locked(path: &Path) -> bool {
    let inode = std::fs::metadata(path).expect("a file").ino();
    let locks = std::fs::read_to_string("/proc/locks").expect("Linux");
    locks.lines().any(|line| {
        let of_this = format!(" READ {} ", std::process::id());
        line.contains(&of_this) && line.ends_with(&format!(":{inode} 1073741826 1073742335"))
    })
}

/// A file that this process opens and closes loses its lock (POSIX). Then another program that reads it and ends removes the log
/// with the last commits, unless its SQLite is 3.51 or newer.
#[tokio::test]
async fn a_file_that_is_in_use_stays_locked() {
    let test = Database::Sqlite.open();
    assert!(is_locked(&test.path()), "a new file");
    test.add("n", "ada", "n").await.expect("writes");
    let folder = tempfile::tempdir().expect("a folder");
    test.store
        .backup(&folder.path().join("backup.db"), &store::backup::MarkKey::new([7; 32]))
        .expect("copies");
    assert!(is_locked(&test.path()), "after a backup");
    let test = test.reopen();
    assert_eq!(test.count().await, 1);
    assert!(is_locked(&test.path()), "an old file");
}

/// SQLite drops the whole transaction when a statement that writes is interrupted.
#[tokio::test]
async fn what_comes_after_a_lost_transaction_is_not_written() {
    static ENDLESS: Sql = sql("INSERT INTO notes (id, owner, body)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'e' || i, 'e', 'e' || i FROM n");
    let test = Database::Sqlite.open();
    let ignored = test.store.write("note.ignore", |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&INSERT, args!["before", "ada", "before"])?;
        let lost = tx.exec(&ENDLESS, args![]);
        assert!(matches!(lost, Err(Error::TooSlow { .. })), "{lost:?}");
        let after = tx.exec(&INSERT, args!["after", "ada", "after"]);
        assert!(matches!(after, Err(Error::TooSlow { .. })), "{after:?}");
        Ok::<_, Error>(())
    });
    let error = ignored.await.expect_err("it was too slow");
    assert!(matches!(error, Error::TooSlow { .. }), "{error:?}");
    assert_eq!((test.body("before").await, test.body("after").await), (None, None));
}

/// Writes rows of a kilobyte until `enough`, and says how many.
async fn write_until(test: &Arc<TestStore>, enough: impl Fn() -> bool) -> u64 {
    let mut number = test.count().await.unsigned_abs();
    while !enough() {
        let jobs = (0..200).map(|_| {
            number += 1;
            let (test, id) = (test.clone(), format!("n{:016x}", number_scattered(number)));
            tokio::spawn(async move {
                let body = format!("{id}{}", "x".repeat(1000));
                test.store
                    .write("note.add", move |tx| {
                        tx.changed(Key::table("notes"));
                        tx.exec(&INSERT, args![&id, "ada", &body])
                    })
                    .await
            })
        });
        for job in jobs.collect::<Vec<_>>() {
            job.await.expect("joins").map_err(|error: Error| error).expect("writes");
        }
    }
    number
}

/// Scatters ids over the table, so that many pages change.
fn number_scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The short form of ten minutes at full rate (`SARSEN_SOAK=1` runs those).
#[tokio::test(flavor = "multi_thread")]
async fn soak_the_log_stays_bounded_and_the_writer_is_not_stopped_for_long() {
    let test = Arc::new(Database::Sqlite.open_with(|options| options.check = false));
    let long = std::env::vars().any(|(name, _)| name == "SARSEN_SOAK");
    let ends = Instant::now() + Duration::from_secs(if long { 600 } else { 4 });
    let rows = write_until(&test, || Instant::now() > ends).await;
    let stats = test.store.stats();
    println!("{rows} rows, {stats:?}");
    assert!(stats.checkpoints > 0);
    assert!(stats.wal_bytes_max < 128 << 20, "{stats:?}");
    // The bound of 100 ms is for a machine that does nothing else; tests share theirs.
    assert!(stats.pause_us_max < 1_000_000, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_meddles_with_its_savepoint_costs_its_mates_nothing() {
    let test = Arc::new(Database::Sqlite.open_with(|options| {
        options.check = false;
        options.writer.batch_time = Duration::from_secs(5);
    }));
    let jobs = (0..60).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            let added = test.store.write("note.add", move |tx| {
                tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])?;
                if number % 20 == 10 { tx.exec(&store::sql("RELEASE command"), args![]) } else { Ok(1) }
            });
            added.await
        })
    });
    let mut failed = Vec::new();
    for (number, job) in jobs.collect::<Vec<_>>().into_iter().enumerate() {
        let result: Result<u64, Error> = job.await.expect("joins");
        failed.extend(result.err().map(|_| number));
    }
    assert_eq!(failed, [10, 30, 50]);
    assert_eq!((test.count().await, test.store.stats().failed), (57, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_reader_delays_the_restart_of_the_log_but_not_for_ever() {
    let test = Arc::new(Database::Sqlite.open_with(|options| options.check = false));
    test.add("first", "ada", "first").await.expect("writes");
    let foreign = rusqlite::Connection::open(test.path()).expect("opens");
    foreign.execute_batch("BEGIN; SELECT COUNT(*) FROM notes;").expect("holds a snapshot");
    let grown = test.clone();
    write_until(&test, || grown.store.stats().wal_bytes > 90 << 20).await;
    let before = test.store.stats().checkpoints;
    write_until(&test, || grown.store.stats().wal_bytes > 150 << 20).await;
    let tries = test.store.stats().checkpoints - before;
    assert!(tries > 3, "past the length at which the writer helps, the checkpointer goes on: {tries}");
    foreign.execute_batch("COMMIT").expect("lets go");
    let shrunk = test.clone();
    let gives_up = Instant::now() + Duration::from_secs(60);
    write_until(&test, || shrunk.store.stats().wal_bytes < 30 << 20 || Instant::now() > gives_up).await;
    assert!(test.store.stats().wal_bytes < 30 << 20, "{:?}", test.store.stats());
}

#[tokio::test]
async fn a_command_must_declare_what_it_changes() {
    let test = Database::Sqlite.open();
    let silent = test.store.write("note.silent", |tx| tx.exec(&INSERT, args!["n", "ada", "x"]));
    let refused = silent.await.map_err(|error: Error| error).expect_err("undeclared");
    assert!(matches!(refused, Error::Undeclared { name: "note.silent", .. }), "{refused:?}");
    assert_eq!(test.body("n").await, None);
}

#[tokio::test]
async fn a_cached_query_must_declare_what_it_reads() {
    let test = Database::Sqlite.open();
    test.add("n", "ada", "one").await.expect("writes");
    let cache: Cache<u8, String> = test.store.cache("bodies");
    let filled = test.store.fill(&cache, 1, Time::from_millis(1_000), |snapshot| {
        let body: Option<String> = snapshot.one(&BODY, args!["n"], |row| row.get(0))?;
        Ok::<_, Error>(body.map(|value| Filled { value, until: Time::NEVER }))
    });
    let refused = filled.await.expect_err("undeclared");
    assert!(matches!(refused, Error::Undeclared { name: "bodies", .. }), "{refused:?}");
}

#[tokio::test]
async fn what_no_row_was_changed_or_found_in_needs_no_key() {
    static DELETE: Sql = sql("DELETE FROM notes WHERE id = ?1");
    static COUNT_OF: Sql = sql("SELECT COUNT(*) FROM notes WHERE id = ?1");
    let test = Database::Sqlite.open();
    let deleted = test.store.write("note.delete", |tx| tx.exec(&DELETE, args!["absent"]));
    assert_eq!(deleted.await.map_err(|error: Error| error).expect("nothing was changed"), 0);
    let deleted = test.store.write_batched("note.delete", |tx| tx.exec_one(&DELETE, args!["absent"]));
    assert!(!deleted.await.map_err(|error: Error| error).expect("nothing was changed"));

    let cache: Cache<u8, bool> = test.store.cache("presence");
    let present = |declared: bool, sql: &'static Sql| {
        test.store.fill(&cache, 1, Time::from_millis(1_000), move |snapshot| {
            if declared {
                snapshot.depends(|| [Key::row("elsewhere", "id", "n")]);
            }
            let value = snapshot.one(sql, args!["n"], |_| Ok(()))?.is_some();
            Ok::<_, Error>(Some(Filled { value, until: Time::from_millis(1_000) }))
        })
    };
    assert_eq!(present(true, &BODY).await.expect("a key is declared, and nothing was found"), Some(false));
    let refused = present(false, &BODY).await.expect_err("it would stay in the cache for ever");
    assert!(matches!(refused, Error::Undeclared { name: "presence", .. }), "{refused:?}");
    let refused = present(true, &COUNT_OF).await.expect_err("a count is a row, also that of nothing");
    assert!(matches!(refused, Error::Undeclared { name: "presence", .. }), "{refused:?}");
}

/// Caches the body of a note under the key of the note `declared`.
async fn cache_body(test: &TestStore, cache: &Cache<u8, String>, declared: &'static str) {
    let filled = test.store.fill(cache, 1, Time::from_millis(1_000), move |snapshot| {
        let body: Option<String> = snapshot.one(&BODY, args!["n"], |row| row.get(0))?;
        snapshot.depends(|| [Key::row("notes", "id", declared)]);
        Ok::<_, Error>(body.map(|value| Filled { value, until: Time::NEVER }))
    });
    assert!(filled.await.expect("reads").is_some());
}

async fn rename_as(test: &TestStore, declared: &'static str, body: &'static str) -> Result<u64, Error> {
    static RENAME: Sql = sql("UPDATE notes SET body = ?1 WHERE id = 'n'");
    let renamed = test.store.write("note.rename", move |tx| {
        tx.changed(Key::row("notes", "id", declared));
        tx.exec(&RENAME, args![body])
    });
    renamed.await
}

#[tokio::test]
async fn a_commit_that_makes_a_cached_result_wrong_fails_its_command() {
    for (dependency, change, is_found) in
        [("n", "n", false), ("m", "n", true), ("n", "m", true), ("m", "m", false)]
    {
        let test = Database::Sqlite.open();
        test.add("n", "ada", "one").await.expect("writes");
        let cache: Cache<u8, String> = test.store.cache("bodies");
        cache_body(&test, &cache, dependency).await;
        let renamed = rename_as(&test, change, "two").await;
        let is_stale = matches!(renamed, Err(Error::StaleCache { cache: "bodies" }));
        assert_eq!(is_stale, is_found, "{dependency} {change}: {renamed:?}");
        assert_eq!(test.body("n").await.as_deref(), Some("two"), "the commit stays");
    }
}

#[tokio::test]
async fn a_commit_that_changes_nothing_of_a_cached_result_passes() {
    let test = Database::Sqlite.open();
    test.add("n", "ada", "one").await.expect("writes");
    let cache: Cache<u8, String> = test.store.cache("bodies");
    cache_body(&test, &cache, "n").await;
    test.add("m", "ada", "other").await.expect("writes");
    rename_as(&test, "m", "one").await.expect("the same value again");
    assert_eq!(cache.len(), 1);
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_not_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, moved) = (folder.path().join("test.db"), folder.path().join("moved.db"));
    let store = Store::open(Options::new(format!("sqlite:{}", file.display()), MIGRATIONS)).expect("opens");
    std::fs::rename(&file, &moved).expect("moves");
    // No connection for scans is open yet.
    let read = store.read(|snapshot| snapshot.one(&BODY, args!["n"], |row| row.get::<String>(0)));
    let error = read.await.map_err(|error: Error| error).expect_err("there is no file");
    assert!(error.to_string().contains("test.db"), "{error}");
    assert!(!file.exists());
    store.close();
}

/// Forms that other libraries know, and that would be files with strange names.
#[test]
fn an_address_that_is_no_path_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = format!("sqlite:{}/missing/board.db", folder.path().display());
    for (url, said) in [
        ("sqlite::memory:", "a database in memory is not supported"),
        ("sqlite://:memory:", "a database in memory is not supported"),
        ("sqlite:board.db?mode=rwc", "parameters after `?` are not supported; expected sqlite:PATH"),
        ("sqlite://board.db", "the path begins with `//`; expected sqlite:PATH"),
        (&missing, "missing/board.db does not exist; create it first"),
    ] {
        let Err(refused) = Store::open(Options::new(url, MIGRATIONS)) else { panic!("opened {url}") };
        assert!(refused.to_string().contains(said), "{refused}");
    }
}
