//! Versions of one epoch never go back, and no two states have the same one, although PostgreSQL assigns ids again that it
//! has lost. Cursors of logs survive an ordinary restart.

use crate::instances::soon;
use crate::logs::{AT, append, behind, end};
use crate::replicas::{open_at, until_replica_reads};
use crate::support::{BODY, MIGRATIONS, add};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use store::testing::own_server::OwnServer;
use store::testing::pooler::Pooler;
use store::testing::postgres::with_client;
use store::testing::say_skipped;
use store::{Answer, Error, Options, Read, Store, Version, args};

/// Faults of a kind; `SARSEN_SOAK` has twenty.
fn rounds(daily: usize) -> usize {
    if std::env::var_os("SARSEN_SOAK").is_some() { 20 } else { daily }
}

fn open(url: String) -> Store {
    Store::open(Options { watched: &["notes"], ..Options::new(url, MIGRATIONS) }).expect("opens")
}

async fn body(store: &Store, read: Read) -> Result<Answer<Option<String>>, Error> {
    store.query(read, |snapshot| snapshot.one(&BODY, args!["n"], |row| row.get(0))).await
}

async fn version(store: &Store) -> Version {
    body(store, Read::default()).await.expect("reads").version
}

/// The first answer after the server has gone away.
async fn first_answer(store: &Store) -> Answer<Option<String>> {
    let began = Instant::now();
    loop {
        match body(store, Read::default()).await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_temporary(), "{error:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(30), "the server does not come back");
    }
}

/// The first answer in another epoch. Until the server has noticed the death of its process, sessions may answer.
async fn answer_after_recovery(store: &Store, before: Version) -> Answer<Option<String>> {
    let began = Instant::now();
    loop {
        let answer = first_answer(store).await;
        if answer.version.epoch() != before.epoch() {
            return answer;
        }
        assert!(answer.version.number() >= before.number(), "ids go back within an epoch: {answer:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "the epoch stays: {answer:?}");
    }
}

/// When the server's main process was started, in milliseconds.
fn started_ms(server: &OwnServer) -> i64 {
    let start = "SELECT CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000 AS BIGINT)";
    with_client(server.config(), move |client| client.query_one(start, &[]).expect("runs").get(0))
}

/// Assigns ids to transactions that are rolled back.
fn waste_ids(server: &OwnServer) {
    server.sql(
        "DO $$ BEGIN FOR i IN 1..30 LOOP BEGIN PERFORM pg_current_xact_id(); CREATE TABLE t (); RAISE 'no';
         EXCEPTION WHEN OTHERS THEN END; END LOOP; END $$",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_disk_that_was_restored_while_no_instance_ran_begins_an_epoch_each_time() {
    let Some(server) = OwnServer::start() else { return };
    let store = open(server.url());
    add(&store, "n", "ada", "one").await.expect("writes");
    let base_backup = server.copy(false);
    store.close();
    server.stop("fast");
    let cold_copy = server.copy(true);
    server.resume();
    let mut epochs = HashSet::new();
    for round in 0..rounds(4) {
        let copy = if round % 4 < 2 { &base_backup } else { &cold_copy };
        let store = open(server.url());
        for number in 0..30 {
            let id = format!("lost {number}");
            add(&store, &id, "ada", &id).await.expect("writes");
        }
        let before = version(&store).await;
        store.close();
        server.stop("fast");
        server.put_back(copy);
        server.resume();
        let store = open(server.url());
        let after = version(&store).await;
        assert!(after.number() < before.number(), "ids have gone back: {before} {after}");
        assert!(after.epoch() != before.epoch() && epochs.insert(after.epoch()), "{before} {after}");
        assert_eq!(store.version().epoch(), after.epoch());
        store.close();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_power_failure_begins_an_epoch() {
    let Some(server) = OwnServer::start() else { return };
    let mut store = open(server.url());
    add(&store, "n", "ada", "one").await.expect("writes");
    let mut epochs = HashSet::new();
    for _ in 0..rounds(1) {
        waste_ids(&server);
        let before = version(&store).await;
        assert!(epochs.insert(before.epoch()), "{before}");
        store.close();
        server.restart("immediate");
        store = open(server.url());
        let after = version(&store).await;
        assert!(!epochs.contains(&after.epoch()), "{before} {after}");
    }
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_killed_process_of_the_server_begins_an_epoch_for_the_connection_that_reads_next() {
    let Some(server) = OwnServer::start() else { return };
    let mut options = Options { watched: &["notes"], ..Options::new(server.url(), MIGRATIONS) };
    // The log is read when a connection has another epoch, and otherwise not while the test runs.
    options.following.poll = Duration::from_secs(3_600);
    options.following.wake_ups = false;
    let store = Store::open(options).expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    let (mut before, started) = (version(&store).await, started_ms(&server));
    for _ in 0..rounds(3) {
        waste_ids(&server);
        let (history, seen) = (store.log_history(), version(&store).await.number());
        server.kill_session();
        let after = answer_after_recovery(&store, before).await;
        assert_eq!(after.value.as_deref(), Some("one"));
        soon("the log was read", || store.version().epoch() == after.version.epoch()).await;
        let other = open(server.url());
        assert_eq!(version(&other).await.epoch(), after.version.epoch(), "instances agree");
        other.close();
        assert!(store.log_history() == history || after.version.number() < seen, "cursors go on");
        before = after.version;
    }
    assert_eq!(started_ms(&server), started, "the server was not started anew");
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_an_ordinary_restart_begins_an_epoch_and_all_cursors_go_on() {
    let Some(server) = OwnServer::start() else { return };
    let store = open(server.url());
    let (mut cursor, history) = (end(&store).await, store.log_history());
    let mut before = version(&store).await;
    for number in 0..rounds(5) {
        append(&store, &number.to_string(), AT).await.expect("writes");
        tokio::task::block_in_place(|| server.restart("fast"));
        let after = first_answer(&store).await.version;
        assert_ne!(after.epoch(), before.epoch());
        soon("the log was read", || store.version().epoch() == after.epoch()).await;
        let (entries, cursors) = behind(&store, &cursor, 10).await.expect("it is not reset");
        assert_eq!((entries, store.log_history()), (vec![number.to_string()], history));
        cursor = cursors.last().expect("an end").clone();
        before = after;
    }
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_behind_a_pooler_the_epoch_is_that_of_the_server_which_answers() {
    let Some(server) = OwnServer::start() else { return };
    let Some(pooler) = Pooler::start(&server) else {
        return say_skipped("behind a pooler: there is no pgbouncer");
    };
    let store = open(pooler.url(&server));
    add(&store, "n", "ada", "one").await.expect("writes");
    for round in 0..rounds(3) {
        let before = version(&store).await;
        if round % 3 > 0 {
            server.kill_session();
        } else {
            tokio::task::block_in_place(|| server.restart("immediate"));
        }
        let after = answer_after_recovery(&store, before).await.version;
        soon("the log was read", || store.version().epoch() == after.epoch()).await;
        assert_eq!(version(&store).await.epoch(), after.epoch());
    }
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_replica_answers_in_the_epoch_of_its_primary() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let store = open_at(&primary, vec![replica.url()]);
    add(&store, "n", "ada", "one").await.expect("writes");
    let mut epochs = HashSet::new();
    for _ in 0..rounds(2) {
        until_replica_reads(&store).await;
        let reads = store.stats().replica_reads;
        let mut answer = body(&store, Read::default().from_replica()).await.expect("reads");
        while store.stats().replica_reads == reads {
            answer = body(&store, Read::default().from_replica()).await.expect("reads");
        }
        let of_primary = version(&store).await;
        assert_eq!(answer.version.epoch(), of_primary.epoch());
        assert!(epochs.insert(of_primary.epoch()), "the restart has begun one");
        tokio::task::block_in_place(|| primary.restart("immediate"));
        let after = first_answer(&store).await.version;
        soon("the log was read", || store.version().epoch() == after.epoch()).await;
    }
    store.close();
}
