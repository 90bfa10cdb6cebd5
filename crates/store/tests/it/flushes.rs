//! By trace of the system calls: the checkpointer flushes the file itself, so that the writer need not wait for it.

use crate::support::{MIGRATIONS, add};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use store::testing::say_skipped;
use store::{Options, Store};

/// A folder that is flushed for no other reason than to be seen. The traced program works where it is.
const MARK: &str = "mark";

#[test]
fn what_was_moved_is_flushed_although_a_reader_holds_the_rest_back() {
    let folder = tempfile::tempdir().expect("a folder");
    if Command::new("strace").arg("-V").output().is_err() {
        return say_skipped("a trace of the flushes: strace is not installed");
    }
    std::fs::create_dir(folder.path().join(MARK)).expect("a folder");
    let trace = folder.path().join("trace.txt");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&trace);
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "flushes::moves_a_part_of_the_log", "--ignored"]).current_dir(folder.path());
    let ended = command.output().expect("runs");
    assert!(ended.status.success(), "{ended:?}");

    let calls = std::fs::read_to_string(&trace).expect("a trace");
    let mark = format!("<{}>", folder.path().join(MARK).display());
    let parts: Vec<&str> = calls.split(&mark).collect();
    let [_, between, _] = parts[..] else { panic!("two marks: {calls}") };
    assert!(between.contains("test.db-wal>"), "commits: {between}");
    assert!(between.contains("test.db>"), "a flush of the file: {between}");
}

#[test]
fn after_a_failed_flush_of_the_file_the_log_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    // A process of its own: in it every flush of a database fails.
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "flushes::writes_although_a_flush_fails", "--ignored"]);
    let ended = program.env(FAILING, "1").current_dir(folder.path()).output().expect("runs");
    assert!(ended.status.success(), "{ended:?}");
    let connection = rusqlite::Connection::open(folder.path().join("test.db")).expect("opens");
    let count: i64 = connection.query_row("SELECT COUNT(*) FROM notes", [], |row| row.get(0)).expect("reads");
    assert_eq!(count, NOTES);
}

const FAILING: &str = "STORE_TEST_FAILING_FLUSHES";
/// More than the length at which the log usually starts again: 64 MiB.
const NOTES: i64 = 210;

#[tokio::test]
#[ignore = "not a test: the program that the test above runs"]
async fn writes_although_a_flush_fails() {
    if std::env::vars().all(|(name, _)| name != FAILING) {
        return;
    }
    store::planted::plant(store::planted::Bug::FlushFails);
    // Of the header of the log: it changes when the log starts again.
    let salt = || std::fs::read("test.db-wal").expect("a log").get(16..24).map(<[u8]>::to_vec);
    let store = Store::open(Options::new("sqlite:test.db", MIGRATIONS)).expect("opens");
    add(&store, "note 0", "ada", "first").await.expect("writes");
    while store.stats().flushes_failed == 0 {
        tokio::task::yield_now().await;
    }
    // What was moved as a whole has also been flushed by SQLite, and the next commit may start the log again.
    add(&store, "note 1", "ada", "second").await.expect("writes");
    let before = salt();
    for number in 2..NOTES {
        let id = format!("note {number}");
        add(&store, &id, "ada", &id.repeat(50_000)).await.expect("writes");
    }
    let stats = store.stats();
    assert!(stats.wal_bytes > 72 * 1024 * 1024 && stats.flushes_failed == 1, "{stats:?}");
    store.close();
    assert_eq!(salt(), before, "the log has not started again, and is still there");
}

/// SQLite flushes the file when a checkpoint has moved the whole log. None does here.
#[tokio::test]
#[ignore = "not a test: the program that the test above traces"]
async fn moves_a_part_of_the_log() {
    if !Path::new(MARK).is_dir() {
        return;
    }
    let file = Path::new("test.db");
    let store = Store::open(Options::new(format!("sqlite:{}", file.display()), MIGRATIONS)).expect("opens");
    add(&store, "first", "ada", "first").await.expect("writes");
    let foreign = rusqlite::Connection::open(file).expect("opens");
    foreign.execute_batch("BEGIN; SELECT COUNT(*) FROM notes;").expect("holds a snapshot");
    mark();
    let before = store.stats().checkpoints;
    for number in 0.. {
        if store.stats().checkpoints > before {
            break;
        }
        let id = format!("note {number}");
        add(&store, &id, "ada", &id.repeat(10_000)).await.expect("writes");
    }
    store.close();
    mark();
    drop(foreign);
}

/// Shows in the trace, and changes nothing.
fn mark() {
    File::open(MARK).and_then(|mark| mark.sync_all()).expect("flushes");
}
