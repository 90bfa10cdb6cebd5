//! What only PostgreSQL can go through: other programs, transactions that meet.

use crate::support::{BODY, Database, INSERT, TestStore, add, keep_busy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use store::testing::postgres::with_client;
use store::{Error, Key, Options, Sql, Store, args, sql, update};

/// A store on PostgreSQL; none when the environment names no cluster.
fn open() -> Option<TestStore> {
    Database::postgres().map(Database::open)
}

#[tokio::test]
async fn every_transaction_has_every_setting() {
    static SETTINGS: Sql = sql("SELECT current_setting('transaction_isolation'),
        current_setting('transaction_read_only'), current_setting('synchronous_commit'),
        current_setting('statement_timeout'), current_setting('lock_timeout')");
    fn read(row: &store::Row<'_>) -> Result<[String; 5], Error> {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
    }
    let Some(test) = open() else { return };
    test.database().sql(format!("ALTER DATABASE {} SET synchronous_commit = off", test.database().name));
    let test = test.reopen();
    let command = test.store.write("settings", |tx| tx.one(&SETTINGS, args![], read));
    let command = command.await.map_err(|error: Error| error).expect("runs").expect("a row");
    assert_eq!(command, ["serializable", "off", "on", "1s", "900ms"]);
    let query = test.store.read(|snapshot| snapshot.one(&SETTINGS, args![], read));
    let query = query.await.map_err(|error: Error| error).expect("runs").expect("a row");
    assert_eq!(query[..2], ["repeatable read", "on"]);
    assert_eq!(query[3], "5s");
}

#[tokio::test]
async fn what_another_one_spoilt_runs_again_even_when_the_command_hides_it() {
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let database = test.database().config();
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let renamed = test.store.write("note.rename", move |tx| {
        static RENAME: Sql = sql("UPDATE notes SET body = ?2 WHERE id = ?1");
        tx.changed(Key::row("notes", "id", "n"));
        let seen: Option<String> = tx.one(&BODY, args!["n"], |row| row.get(0))?;
        if counter.fetch_add(1, Ordering::SeqCst) == 0 {
            with_client(database.clone(), |client| {
                client.batch_execute("UPDATE notes SET body = 'foreign' WHERE id = 'n'").expect("updates");
            });
        }
        let body = format!("{} and two", seen.unwrap_or_default());
        Ok::<_, Error>(tx.exec(&RENAME, args!["n", &body]).unwrap_or(0))
    });
    assert_eq!(renamed.await.expect("runs"), 1);
    assert_eq!(test.body("n").await.as_deref(), Some("foreign and two"));
    assert_eq!((runs.load(Ordering::SeqCst), test.store.stats().retried), (2, 1));
}

/// A foreign program's lock on the notes, until the sender is dropped.
fn lock_notes(test: &TestStore) -> (Sender<()>, std::thread::JoinHandle<()>) {
    let config = test.database().config();
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let foreign = std::thread::spawn(move || {
        with_client(config, move |client| {
            client.batch_execute("BEGIN; LOCK TABLE notes IN EXCLUSIVE MODE").expect("locks");
            locked.send(()).expect("the test waits");
            let _ = is_done.recv();
        });
    });
    is_locked.recv().expect("locks");
    (done, foreign)
}

#[tokio::test]
async fn a_row_that_a_foreign_program_locks_gives_a_clear_error() {
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let (done, foreign) = lock_notes(&test);
    let refused = add(&test.store, "m", "ada", "two").await.expect_err("locked");
    assert!(matches!(&refused, Error::Unavailable { what, .. } if what.contains("lock")), "{refused:?}");
    drop(done);
    foreign.join().expect("ends");
    add(&test.store, "m", "ada", "two").await.expect("writes resume");
}

#[tokio::test]
async fn of_commands_that_share_a_transaction_not_each_waits_for_a_foreign_lock() {
    let Some(database) = Database::postgres() else { return };
    let test = database.open_with(|options| {
        options.writers = 1;
        options.writer.deadline = Duration::from_millis(500);
    });
    test.add("n", "ada", "one").await.expect("writes");
    let (hold, busy) = keep_busy(&test).await;
    let jobs = (0..64).map(|number| {
        let store = test.store.clone();
        tokio::spawn(async move {
            let added = store.write_batched("note.add", move |tx| {
                tx.changed(Key::table("notes"));
                tx.exec_one(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])
            });
            added.await
        })
    });
    let jobs: Vec<_> = jobs.collect();
    while test.store.stats().queue_depth < 64 {
        tokio::task::yield_now().await;
    }
    let (done, foreign) = lock_notes(&test);
    drop(hold);
    busy.await.expect("joins").expect("is done");
    let (mut waited, mut refused) = (0, 0);
    for job in jobs {
        match job.await.expect("joins").expect_err("locked") {
            Error::Unavailable { what, .. } if what.contains("lock") => waited += 1,
            Error::Overloaded { .. } => refused += 1,
            error => panic!("{error:?}"),
        }
    }
    assert!(waited < 8 && waited + refused == 64, "{waited} waited for the lock, each for itself");
    drop(done);
    foreign.join().expect("ends");
    add(&test.store, "m", "ada", "two").await.expect("writes resume");
}

#[tokio::test]
async fn a_read_only_database_is_said_and_reads_go_on() {
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let name = test.database().name.clone();
    test.database().sql(format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    test.database().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let refused = test.add("m", "ada", "two").await.expect_err("read-only");
    assert!(
        matches!(&refused, Error::Unavailable { what, .. } if what.contains("cannot be written")),
        "{refused:?}"
    );
    assert_eq!(test.body("n").await.as_deref(), Some("one"));
}

#[tokio::test]
async fn keys_are_logged_with_the_change_and_old_ones_removed() {
    let Some(database) = Database::postgres() else { return };
    let test = database.open_with(|options| options.following.kept = Duration::from_millis(200));
    test.add("n\n1", "ada", "one").await.expect("writes");
    test.add("n\n1", "ada", "two").await.expect_err("fails");
    assert_eq!(test.database().number("SELECT COUNT(*) FROM change_log"), 1);
    let logged = r"SELECT COUNT(*) FROM change_log WHERE keys = 'notes.id=n\n1' AND xid IS NOT NULL";
    assert_eq!(test.database().number(logged), 1);
    // More than one slice. Who commits cuts.
    test.database().sql("INSERT INTO change_log (keys) SELECT 'old' FROM generate_series(1, 12000)");
    let began = Instant::now();
    let mut number = 0;
    while test.database().number("SELECT COUNT(*) FROM change_log WHERE keys = 'old'") > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "old rows are still there");
        test.add(&format!("m{number}"), "ada", &format!("m{number}")).await.expect("writes");
        number += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(test.database().number("SELECT below FROM change_log_cut") > 0, "who was away finds out");
}

#[test]
fn a_store_that_cannot_be_opened_says_why_but_no_password() {
    let Some(test) = open() else { return };
    let refused = |url: String| {
        let Err(error) = Store::open(Options { url, ..test.options() }) else { panic!("opened") };
        assert!(matches!(error, Error::Open(_)), "{error:?}");
        let text = error.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        text
    };
    let url = test.database().url();
    let place = url.rsplit_once('@').map_or(url.as_str(), |(_, place)| place);
    let (_, port_and_name) = place.split_once(':').expect("host:port/name");
    let nobody = refused(format!("postgres://nobody_at_all:hunter2@{place}"));
    assert!(nobody.contains("user"), "{nobody}");
    let nowhere = refused(format!("{url}_no_such_database"));
    assert!(nowhere.contains("no_such_database"), "{nowhere}");
    let tls = refused(format!("{url}?sslmode=require"));
    assert!(tls.contains("TLS"), "{tls}");
    let name = port_and_name.split_once('/').map_or("", |(_, name)| name);
    let closed = refused(format!("postgres://ada:hunter2@127.0.0.1:1/{name}"));
    assert!(closed.contains("check that it runs"), "{closed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_change_different_rows_of_a_small_table_are_not_in_each_others_way() {
    // Not in an index: a change of one that is writes to the leaf of each index.
    static SET: Sql = update("notes", "id", &["used_at"]);
    let Some(database) = Database::postgres() else { return };
    let test = database.open_with(|options| {
        options.writer.deadline = Duration::from_secs(30);
        // So that transactions overlap.
        options.writer.commit_delay = Duration::from_millis(5);
    });
    for number in 0..100 {
        test.add(&format!("n{number}"), "ada", &format!("body {number}")).await.expect("writes");
    }
    // The planner knows how small it is.
    test.database().sql("VACUUM ANALYZE notes");
    let before = test.store.stats();
    for round in 0..60 {
        let jobs = (0..100).map(|number| {
            let store = test.store.clone();
            tokio::spawn(async move {
                let id = format!("n{number}");
                let set = store.write_batched("note.set", move |tx| {
                    tx.changed(Key::row("notes", "id", &id));
                    tx.exec_one(&SET, args![&id, round])
                });
                assert!(set.await.map_err(|error: Error| error).expect("writes"));
            })
        });
        for job in jobs.collect::<Vec<_>>() {
            job.await.expect("joins");
        }
    }
    let after = test.store.stats();
    let (commits, retried) = (after.batches - before.batches, after.retried - before.retried);
    assert!(retried * 10 <= commits, "{retried} of {commits} transactions met another one");
}
