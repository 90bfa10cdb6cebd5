//! By trace of the system calls: the checkpointer flushes the file itself, so that the writer need not wait for it.

use crate::support::{MIGRATIONS, add};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use store::{Options, Store};

/// A folder that is flushed for no other reason than to be seen. The traced program works where it is.
const MARK: &str = "mark";

#[test]
fn what_was_moved_is_flushed_although_a_reader_holds_the_rest_back() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: strace is not installed (cargo xtask test installs it)");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
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

/// SQLite flushes the file when a checkpoint has moved the whole log. None does here.
#[tokio::test]
#[ignore = "the program that the test above traces"]
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
