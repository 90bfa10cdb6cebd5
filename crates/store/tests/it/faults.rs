//! What happens when the world is not kind: full disks, old readers, second processes, overload.

use crate::support::{INSERT, TestStore};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Error, Key, Options, Store, args};

#[tokio::test]
async fn a_second_owner_is_told_who_the_first_is() {
    let test = TestStore::open();
    let options = Options::new(format!("sqlite:{}", test.path().display()), crate::support::MIGRATIONS);
    let Err(refused) = Store::open(options) else { panic!("two owners of one file") };
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
}

#[tokio::test]
async fn a_full_disk_is_said_reads_go_on_and_writes_resume() {
    let test = TestStore::open();
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
    let test = TestStore::open();
    let foreign = rusqlite::Connection::open(test.path()).expect("opens");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let refused = test.add("n", "ada", "n").await.expect_err("locked");
    assert!(refused.is_temporary(), "{refused:?}");
    foreign.execute_batch("COMMIT").expect("unlocks");
    test.add("n", "ada", "n").await.expect("writes resume");
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
    let test = Arc::new(TestStore::open_with(|options| options.check = false));
    let long = std::env::vars().any(|(name, _)| name == "SARSEN_SOAK");
    let ends = Instant::now() + Duration::from_secs(if long { 600 } else { 8 });
    let rows = write_until(&test, || Instant::now() > ends).await;
    let stats = test.store.stats();
    println!("{rows} rows, {stats:?}");
    assert!(stats.checkpoints > 0);
    assert!(stats.wal_bytes_max < 128 << 20, "{stats:?}");
    // The bound of 100 ms is for a machine that does nothing else; tests share theirs.
    assert!(stats.pause_us_max < 1_000_000, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_reader_delays_the_restart_of_the_log_but_not_for_ever() {
    let test = Arc::new(TestStore::open_with(|options| options.check = false));
    test.add("first", "ada", "first").await.expect("writes");
    let foreign = rusqlite::Connection::open(test.path()).expect("opens");
    foreign.execute_batch("BEGIN; SELECT COUNT(*) FROM notes;").expect("holds a snapshot");
    let grown = test.clone();
    write_until(&test, || grown.store.stats().wal_bytes > 90 << 20).await;
    foreign.execute_batch("COMMIT").expect("lets go");
    let shrunk = test.clone();
    let gives_up = Instant::now() + Duration::from_secs(60);
    write_until(&test, || shrunk.store.stats().wal_bytes < 30 << 20 || Instant::now() > gives_up).await;
    assert!(test.store.stats().wal_bytes < 30 << 20, "{:?}", test.store.stats());
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_is_refused_at_once_and_what_was_accepted_is_done_in_time() {
    let test = Arc::new(TestStore::open_with(|options| {
        options.check = false;
        options.writer.commit_delay = Duration::from_millis(20);
        options.writer.batch_max = 8;
    }));
    // About 400 commands a second go through; 1,200 come, for three seconds.
    let mut jobs = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for number in 0..3600 {
        if number % 12 == 0 {
            ticks.tick().await;
        }
        let test = test.clone();
        jobs.push(tokio::spawn(async move {
            let began = Instant::now();
            let id = format!("n{number}");
            let result = test.add(&id, "ada", &id).await;
            (began.elapsed(), result)
        }));
    }
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for job in jobs {
        match job.await.expect("joins") {
            (took, Ok(_)) => accepted.push(took),
            (took, Err(Error::Overloaded { retry_after })) => {
                assert!(!retry_after.is_zero());
                refused.push(took);
            }
            (_, Err(other)) => panic!("neither done nor refused: {other:?}"),
        }
    }
    accepted.sort();
    refused.sort();
    let p99 = |list: &[Duration]| list[list.len() * 99 / 100];
    println!(
        "{} accepted p99 {:?}; {} refused p99 {:?}",
        accepted.len(),
        p99(&accepted),
        refused.len(),
        p99(&refused)
    );
    assert!(accepted.len() > 600 && refused.len() > 600);
    assert!(p99(&accepted) < Duration::from_secs(1), "{:?}", p99(&accepted));
    assert!(p99(&refused) < Duration::from_millis(50), "{:?}", p99(&refused));
}
