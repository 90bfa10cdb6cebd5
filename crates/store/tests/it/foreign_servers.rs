//! Servers that should not be there, or do not answer: nobody is shown what they hold, they keep nobody from the good
//! ones, and the log says which they are.

use crate::log_capture;
use crate::proxy::Proxy;
use crate::replicas::{has, open_at, until_replica_reads};
use crate::support::{MIGRATIONS, add};
use std::path::Path;
use std::time::{Duration, Instant};
use store::testing::own_server::OwnServer;
use store::{Options, Store};

/// Longer than the next look at a replica takes.
const SEVERAL_LOOKS: Duration = Duration::from_millis(700);

/// Lists for a while; none shows what only a stranger has.
async fn lists_hold_nothing_strange(store: &Store) {
    let began = Instant::now();
    while began.elapsed() < SEVERAL_LOOKS {
        assert!(!has(store, "strange", "x").await, "that is nothing of the primary's");
    }
}

#[test]
fn a_server_that_loses_commits_in_a_crash_is_told() {
    let unsafe_settings = |_: &Path| "-c fsync=off".to_owned();
    let Some(server) = OwnServer::start_with(unsafe_settings) else { return };
    log_capture::keep();
    for _ in 0..2 {
        Store::open(Options::new(server.url(), MIGRATIONS)).expect("opens").close();
    }
    assert_eq!(log_capture::about(server.port, "set it to on"), 2, "at each start");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_answer_keeps_nobody_from_the_next_one() {
    let Some(primary) = OwnServer::start() else { return };
    let (first, second) = (primary.standby(), primary.standby());
    let proxy = Proxy::start("127.0.0.1".to_owned(), first.port);
    proxy.be_silent(true);
    let store = open_at(&primary, vec![first.url_at("127.0.0.1", proxy.port), second.url()]);
    until_replica_reads(&store).await;
    second.stop("immediate");
    proxy.be_silent(false);
    until_replica_reads(&store).await;
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_promoted_is_told_and_not_read_until_it_follows_again() {
    let Some(primary) = OwnServer::start() else { return };
    let promoted = primary.standby();
    let proxy = Proxy::start("127.0.0.1".to_owned(), promoted.port);
    let store = open_at(&primary, vec![promoted.url_at("127.0.0.1", proxy.port)]);
    add(&store, "n", "ada", "one").await.expect("writes");
    until_replica_reads(&store).await;
    promoted.sql("SELECT pg_promote()");
    // Its connections have stayed open, and it gives numbers of its own to what is written there.
    promoted.sql("INSERT INTO notes (id, owner, body) VALUES ('strange', 'eve', 'x')");
    let read = store.stats().replica_reads;
    lists_hold_nothing_strange(&store).await;
    assert_eq!(store.stats().replica_reads, read);
    assert_eq!(log_capture::about(proxy.port, "promoted"), 1, "told once");
    let standby = primary.standby();
    proxy.lead_to(standby.port);
    proxy.cut_all();
    until_replica_reads(&store).await;
    assert!(has(&store, "n", "one").await);
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_another_cluster_are_told_and_not_read() {
    let (Some(primary), Some(foreign)) = (OwnServer::start(), OwnServer::start()) else { return };
    let theirs = Store::open(Options::new(foreign.url(), MIGRATIONS)).expect("opens");
    // Further in its history than the primary is.
    for number in 0..100 {
        add(&theirs, &format!("n{number}"), "eve", &format!("n{number}")).await.expect("writes");
    }
    add(&theirs, "strange", "eve", "x").await.expect("writes");
    let (follower, good) = (foreign.standby(), primary.standby());
    let strangers = vec![foreign.url(), follower.url()];
    let store = open_at(&primary, strangers.clone());
    add(&store, "n", "ada", "one").await.expect("writes");
    lists_hold_nothing_strange(&store).await;
    assert_eq!(store.stats().replica_reads, 0);
    assert_eq!(log_capture::about(foreign.port, "follows no server"), 1, "told once");
    assert_eq!(log_capture::about(follower.port, "another cluster"), 1, "told once");
    let beside = open_at(&primary, [strangers, vec![good.url()]].concat());
    until_replica_reads(&beside).await;
    assert!(has(&beside, "n", "one").await);
    [store, beside, theirs].iter().for_each(Store::close);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_behind_a_silent_replica_is_answered_by_the_primary() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let proxy = Proxy::start("127.0.0.1".to_owned(), replica.port);
    let url = replica.url_at("127.0.0.1", proxy.port);
    let options = Options { replicas: vec![url], readers: 1, ..Options::new(primary.url(), MIGRATIONS) };
    let store = Store::open(options).expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    until_replica_reads(&store).await;
    proxy.be_silent(true);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        asked.spawn(async move { has(&store, "n", "one").await });
    }
    while asked.len() > 1 {
        let next = tokio::time::timeout(Duration::from_secs(20), asked.join_next());
        assert!(next.await.expect("not held up").expect("asked").expect("no list failed"));
    }
    proxy.be_silent(false);
    while let Some(held) = asked.join_next().await {
        assert!(held.expect("no list failed"));
    }
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_log_of_the_primary_cannot_be_read_no_replica_is_either() {
    let Some(primary) = OwnServer::start() else { return };
    let (replica, elsewhere) = (primary.standby(), Store::open(Options::new(primary.url(), MIGRATIONS)));
    let proxy = Proxy::start("127.0.0.1".to_owned(), primary.port);
    let url = primary.url_at("127.0.0.1", proxy.port);
    let store = Store::open(Options { replicas: vec![replica.url()], ..Options::new(url, MIGRATIONS) });
    let (store, elsewhere) = (store.expect("opens"), elsewhere.expect("opens"));
    until_replica_reads(&store).await;
    replica.sql("SELECT pg_wal_replay_pause()");
    proxy.hold_who_says(Some("FROM change_log_cut"));
    add(&elsewhere, "n", "ada", "one").await.expect("writes");
    let began = Instant::now();
    while !has(&store, "n", "one").await {
        assert!(began.elapsed() < Duration::from_secs(20), "it shows how far behind it stands still");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    replica.sql("SELECT pg_wal_replay_resume()");
    proxy.hold_who_says(None);
    until_replica_reads(&store).await;
    [store, elsewhere].iter().for_each(Store::close);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_of_two_falls_silent_the_other_is_read() {
    const READERS: usize = 4;
    let Some(primary) = OwnServer::start() else { return };
    let (first, second) = (primary.standby(), primary.standby());
    let proxy = Proxy::start("127.0.0.1".to_owned(), first.port);
    let replicas = vec![first.url_at("127.0.0.1", proxy.port), second.url()];
    let options = Options { replicas, readers: READERS, ..Options::new(primary.url(), MIGRATIONS) };
    let store = Store::open(options).expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    until_replica_reads(&store).await;
    let (before, began) = (store.stats().replica_reads, Instant::now());
    proxy.be_silent(true);
    let mut held = Vec::new();
    while store.stats().replica_reads < before + 20 {
        assert!(began.elapsed() < Duration::from_secs(20), "the other one is not read");
        let own = store.clone();
        let mut asked = tokio::spawn(async move { has(&own, "n", "one").await });
        if tokio::time::timeout(Duration::from_millis(300), &mut asked).await.is_err() {
            held.push(asked);
        }
    }
    assert!(held.len() < READERS, "only those who asked the silent one");
    proxy.be_silent(false);
    for asked in held {
        assert!(asked.await.expect("answered late"));
    }
    store.close();
}
