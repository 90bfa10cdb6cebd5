//! Reading from a replica: nothing that its reader knows is missing from what it answers, and when it lags or dies
//! nobody notices but the primary.

use crate::instances::{Foreign, rename, soon};
use crate::log_capture;
use crate::proxy::Proxy;
use crate::support::{MIGRATIONS, add, metric};
use std::collections::BTreeSet;
use std::future::Future as _;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::{Duration, Instant};
use store::testing::own_server::OwnServer;
use store::testing::postgres::with_client;
use store::{Error, Options, Sql, Store, args, not_before, sql};

static NOTES: Sql = sql("SELECT id, body FROM notes ORDER BY id");

fn open(primary: &OwnServer, replicas: &[&OwnServer]) -> Store {
    open_at(primary, replicas.iter().map(|replica| replica.url()).collect())
}

/// A store that reads from the servers at these URLs.
pub fn open_at(primary: &OwnServer, replicas: Vec<String>) -> Store {
    log_capture::keep();
    Store::open(options(primary, replicas)).expect("opens")
}

fn options(primary: &OwnServer, replicas: Vec<String>) -> Options {
    Options { watched: &["notes"], replicas, ..Options::new(primary.url(), MIGRATIONS) }
}

async fn notes(store: &Store) -> BTreeSet<(String, String)> {
    let listed = store.list(|snapshot| snapshot.all(&NOTES, args![], |row| Ok((row.get(0)?, row.get(1)?))));
    let listed: Vec<_> = listed.await.map_err(|error: Error| error).expect("lists");
    listed.into_iter().collect()
}

pub async fn has(store: &Store, id: &str, body: &str) -> bool {
    notes(store).await.contains(&(id.to_owned(), body.to_owned()))
}

/// Lists until a replica has answered.
pub async fn until_replica_reads(store: &Store) {
    let (before, began) = (store.stats().replica_reads, Instant::now());
    while store.stats().replica_reads == before {
        assert!(began.elapsed() < Duration::from_secs(20), "no list is read from a replica");
        notes(store).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_from_the_replica_and_show_what_was_just_written() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let store = open(&primary, &[&replica]);
    until_replica_reads(&store).await;
    let before = store.stats().replica_reads;
    for number in 0..200 {
        let id = format!("n{number}");
        add(&store, &id, "ada", &id).await.expect("writes");
        assert!(has(&store, &id, &id).await, "{id} was written before");
    }
    let read = store.stats().replica_reads - before;
    assert!(read > 100, "mostly there: {read}");
    assert!(metric(&store, "store_replica_lag_seconds{replica=\"0\"}") < 5.0);
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stands_still_for_ten_seconds_answers_nobody_who_knows_better() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let (writer, reader) = (open(&primary, &[]), open(&primary, &[&replica]));
    add(&writer, "n", "ada", "0").await.expect("writes");
    until_replica_reads(&reader).await;
    replica.sql("SELECT pg_wal_replay_pause()");
    let paused = Instant::now();
    let mut number = 0;
    while paused.elapsed() < Duration::from_secs(10) {
        number += 1;
        rename(&writer, "n", &number.to_string()).await;
        let seen = not_before(writer.shown(), has(&reader, "n", &number.to_string())).await;
        assert!(seen, "change {number} was known to who asked");
    }
    // It is left for good when it is a second behind: then also for those who know nothing.
    let left = reader.stats().replica_reads;
    assert!(has(&reader, "n", &number.to_string()).await);
    assert_eq!(reader.stats().replica_reads, left);
    let lag = metric(&reader, "store_replica_lag_seconds{replica=\"0\"}");
    assert!(lag > 5.0 && lag < paused.elapsed().as_secs_f64() + 1.0, "{lag}");
    replica.sql("SELECT pg_wal_replay_resume()");
    until_replica_reads(&reader).await;
    let began = Instant::now();
    while !has(&reader, "n", &number.to_string()).await {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing is lost when it returns");
    }
    writer.close();
    reader.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_dies_costs_no_list_and_is_read_again_when_it_is_back() {
    let Some(primary) = OwnServer::start() else { return };
    let (first, second) = (primary.standby(), primary.standby());
    let store = open(&primary, &[&first, &second]);
    add(&store, "n", "ada", "one").await.expect("writes");
    until_replica_reads(&store).await;
    for dies in [&[&first][..], &[&second], &[&first, &second]] {
        let going = store.clone();
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        let reading = tokio::spawn(async move {
            let mut count = 0;
            while stopped.try_recv().is_err() {
                assert!(has(&going, "n", "one").await);
                count += 1;
            }
            count
        });
        tokio::task::block_in_place(|| dies.iter().for_each(|replica| replica.stop("immediate")));
        let reads = store.stats().reads;
        soon("lists go on without it", || store.stats().reads > reads + 50).await;
        tokio::task::block_in_place(|| dies.iter().for_each(|replica| replica.resume()));
        until_replica_reads(&store).await;
        stop.send(()).expect("it reads");
        assert!(reading.await.expect("no list failed") > 50);
    }
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_transaction_stays_open_lists_show_what_was_written() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let store = open(&primary, &[&replica]);
    add(&store, "n", "ada", "one").await.expect("writes");
    until_replica_reads(&store).await;
    let late = "INSERT INTO notes (id, owner, body) VALUES ('late', 'ada', 'x')";
    let late = Foreign::begin(primary.config(), late);
    for number in 0..50 {
        rename(&store, "n", &number.to_string()).await;
        assert!(has(&store, "n", &number.to_string()).await, "{number}");
    }
    late.end("COMMIT");
    rename(&store, "n", "end").await;
    assert!(has(&store, "n", "end").await && has(&store, "late", "x").await);
    until_replica_reads(&store).await;
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stood_still_before_the_start_is_not_read_at_all() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let writer = open(&primary, &[&replica]);
    until_replica_reads(&writer).await;
    replica.sql("SELECT pg_wal_replay_pause()");
    add(&writer, "n", "ada", "one").await.expect("writes");
    let starts = open(&primary, &[&replica]);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        assert!(has(&starts, "n", "one").await, "it was there before the start");
    }
    writer.close();
    starts.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stands_still_is_left_also_while_a_transaction_stays_open() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let (writer, reader) = (open(&primary, &[]), open(&primary, &[&replica]));
    add(&writer, "n", "ada", "0").await.expect("writes");
    let late = "INSERT INTO notes (id, owner, body) VALUES ('late', 'ada', 'x')";
    let late = Foreign::begin(primary.config(), late);
    until_replica_reads(&reader).await;
    replica.sql("SELECT pg_wal_replay_pause()");
    rename(&writer, "n", "1").await;
    let began = Instant::now();
    while !has(&reader, "n", "1").await {
        assert!(began.elapsed() < Duration::from_secs(20), "who knows nothing never hears of it");
    }
    late.end("ROLLBACK");
    writer.close();
    reader.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_nobody_has_seen_is_asked_of_the_primary_and_concerns_nobody_else() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let store = open(&primary, &[&replica]);
    add(&store, "n", "ada", "one").await.expect("writes");
    for made_up in [store.shown().number() + 1_000_000, u64::MAX] {
        until_replica_reads(&store).await;
        let shown = store.shown().to_string();
        let (epoch, _) = shown.split_once('.').expect("an epoch");
        let made_up = format!("{epoch}.{made_up:016x}").parse().expect("a version");
        assert!(not_before(made_up, has(&store, "n", "one")).await);
    }
    until_replica_reads(&store).await;
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_ahead_of_the_primary_shows_nothing_that_the_primary_does_not() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let (writer, reader) = (open(&primary, &[]), open(&primary, &[&replica]));
    until_replica_reads(&reader).await;
    // Each commit waits, after it was sent to the replica, for one that is not there.
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    primary.sql("SELECT pg_reload_conf()");
    let writing = tokio::spawn(async move {
        for number in 0..200 {
            let id = format!("n{number}");
            add(&writer, &id, "ada", &id).await.expect("writes");
        }
        writer.close();
    });
    let (mut ahead, began) = (0, Instant::now());
    while !writing.is_finished() {
        ahead += u32::from(tokio::task::block_in_place(|| count_at(&replica) > count_at(&primary)));
        if ahead == 20 {
            primary.sql("ALTER SYSTEM RESET synchronous_standby_names");
            primary.sql("SELECT pg_reload_conf()");
        }
        let listed = notes(&reader).await;
        let decided = reader.read(|snapshot| {
            snapshot.all(&NOTES, args![], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))
        });
        let decided = decided.await.map_err(|error: Error| error).expect("reads");
        for note in listed {
            assert!(decided.contains(&note), "{note:?} was listed before");
        }
        assert!(began.elapsed() < Duration::from_secs(60), "ahead {ahead} times");
    }
    writing.await.expect("writes");
    assert!(ahead >= 20, "ahead {ahead} times");
    until_replica_reads(&reader).await;
    reader.close();
}

fn count_at(server: &OwnServer) -> i64 {
    let config = server.config();
    with_client(config, |client| client.query_one("SELECT COUNT(*) FROM notes", &[]).expect("counts").get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_replica_cannot_answer_is_answered_by_the_primary() {
    /// An error in a server that recovers, which is what a replica does for all of its life.
    static WRITTEN: Sql = sql("SELECT CAST(pg_current_wal_lsn() AS TEXT)");
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let store = open(&primary, &[&replica]);
    until_replica_reads(&store).await;
    for _ in 0..20 {
        let asked = store.list(|snapshot| snapshot.one(&WRITTEN, args![], |row| row.get::<String>(0)));
        assert!(asked.await.map_err(|error: Error| error).expect("the primary can").is_some());
    }
    until_replica_reads(&store).await;
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_falls_silent_holds_up_only_those_who_have_asked_it() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let proxy = Proxy::start("127.0.0.1".to_owned(), replica.port);
    let readers = 2;
    let options = options(&primary, vec![replica.url_at("127.0.0.1", proxy.port)]);
    let store = Store::open(Options { readers, ..options }).expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    until_replica_reads(&store).await;
    proxy.be_silent(true);
    let mut held = Vec::new();
    let began = Instant::now();
    while held.len() < readers {
        assert!(began.elapsed() < Duration::from_secs(20), "nobody asks it");
        let own = store.clone();
        let mut asked = tokio::spawn(async move { has(&own, "n", "one").await });
        if tokio::time::timeout(Duration::from_millis(300), &mut asked).await.is_err() {
            held.push(asked);
        }
    }
    for _ in 0..50 {
        assert!(has(&store, "n", "one").await, "from the primary");
    }
    proxy.be_silent(false);
    for asked in held {
        assert!(asked.await.expect("answered late"));
    }
    until_replica_reads(&store).await;
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_wait_for_a_replica_are_answered_when_the_store_closes() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let options = options(&primary, vec![replica.url()]);
    let store = Store::open(Options { readers: 1, ..options }).expect("opens");
    until_replica_reads(&store).await;
    let ((begins, has_begun), (goes_on, may_go_on)) = (channel(), channel());
    let own = store.clone();
    let first = tokio::spawn(async move {
        let held = own.list(move |snapshot| {
            begins.send(()).expect("the test waits");
            may_go_on.recv().expect("the test says when");
            snapshot.all(&NOTES, args![], |row| row.get::<String>(0))
        });
        held.await.map_err(|error: Error| error)
    });
    tokio::task::block_in_place(|| has_begun.recv().expect("it begins"));
    let mut second = std::pin::pin!(notes(&store));
    assert!(std::future::poll_fn(|context| Poll::Ready(second.as_mut().poll(context))).await.is_pending());
    let closing = store.clone();
    let closing = std::thread::spawn(move || closing.close());
    let began = Instant::now();
    while store.read(|_| Ok::<_, Error>(())).await.is_ok() {
        assert!(began.elapsed() < Duration::from_secs(20), "it is never closed");
    }
    goes_on.send(()).expect("it waits");
    first.await.expect("ends").expect("is answered");
    second.await;
    tokio::task::block_in_place(|| closing.join().expect("closes"));
}

#[test]
fn only_postgresql_has_replicas() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("test.db").display());
    let replicas = vec!["postgres://db.test/sarsen".to_owned()];
    let refused = Store::open(Options { replicas, ..Options::new(url, MIGRATIONS) }).err().expect("refuses");
    assert!(refused.to_string().contains("PostgreSQL only"), "{refused}");
}
