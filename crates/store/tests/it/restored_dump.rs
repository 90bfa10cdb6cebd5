//! A dump restored into a fresh PostgreSQL cluster, whose transaction ids are lower than those in the change log.

use crate::instances::{NOW, keep, rename, soon};
use crate::logs;
use crate::proxy::Proxy;
use crate::support::{BODY, MIGRATIONS, add};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use store::testing::own_server::OwnServer;
use store::testing::postgres::with_client;
use store::{Error, Key, Options, Store, args};

fn options(url: String) -> Options {
    let mut options = Options { watched: &["notes"], ..Options::new(url, MIGRATIONS) };
    options.following.lag_max = Duration::from_secs(10);
    options
}

fn open(url: String) -> Store {
    Store::open(options(url)).expect("opens")
}

pub(crate) fn number(server: &OwnServer, sql: &'static str) -> i64 {
    let config = server.config();
    tokio::task::block_in_place(|| {
        with_client(config, |client| client.query_one(sql, &[]).expect("runs").get(0))
    })
}

/// How often everything was dropped.
fn count_drops(store: &Store) -> Arc<AtomicUsize> {
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = drops.clone();
    store.on_change(move |change| {
        counted.fetch_add(usize::from(change.keys.iter().any(Key::is_everything)), Ordering::SeqCst);
    });
    drops
}

/// A cluster with many transactions behind it, a note, and a change log that was cut off; and a fresh cluster with a
/// dump of it.
async fn old_and_restored() -> Option<(OwnServer, OwnServer)> {
    let (old, fresh) = (OwnServer::start()?, OwnServer::start()?);
    let mut cutting = options(old.url());
    // Old rows are cut off soon, and each cut is noted.
    cutting.following.kept = Duration::from_millis(20);
    let store = Store::open(cutting).expect("opens");
    old.sql("DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$");
    add(&store, "n", "ada", "one").await.expect("writes");
    let below = || number(&old, "SELECT below FROM change_log_cut");
    let mut added = 0;
    while below() < 3000 {
        added += 1;
        add(&store, &format!("m{added}"), "ada", &format!("{added}")).await.expect("writes");
    }
    logs::append(&store, "one", logs::AT).await.expect("writes");
    let page = logs::page(&store, "reader", 10).await;
    assert!(logs::keep(&store, "reader", &page).await);
    logs::append(&store, "two", logs::AT).await.expect("writes");
    store.close();
    tokio::task::block_in_place(|| old.restore_into(&fresh));
    let next = number(&fresh, "SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)");
    assert!(next < 3000, "the ids of the fresh cluster are lower: {next}");
    Some((old, fresh))
}

/// Two instances keep their caches, hear of each other, and the log holds only rows of this cluster.
async fn works_as_usual(one: &Store, other: &Store, fresh: &OwnServer) {
    let cache = other.cache("bodies");
    let drops = count_drops(other);
    for body in ["two", "three", "four"] {
        keep(other, &cache, "n").await;
        rename(one, "n", body).await;
        soon("the entry goes", || cache.get("n", NOW).is_none()).await;
    }
    assert_eq!(drops.load(Ordering::SeqCst), 0, "everything was dropped");
    let foreign =
        "SELECT COUNT(*) FROM change_log WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::TEXT::XID8";
    assert_eq!(number(fresh, foreign), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_dump_starts_its_change_log_anew() {
    let Some((_old, fresh)) = old_and_restored().await else { return };
    let (one, other) = (open(fresh.url()), open(fresh.url()));
    works_as_usual(&one, &other, &fresh).await;
    one.close();
    other.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_log_gets_every_entry_of_a_restored_dump() {
    let Some((_old, fresh)) = old_and_restored().await else { return };
    let store = open(fresh.url());
    logs::append(&store, "three", logs::AT).await.expect("writes");
    let page = logs::page(&store, "reader", 10).await;
    // The reader's place had ids of the other cluster, so it begins again.
    assert_eq!(logs::payloads(&page.entries), ["one", "two", "three"]);
    assert!(logs::keep(&store, "reader", &page).await);
    logs::append(&store, "four", logs::AT).await.expect("writes");
    assert_eq!(logs::payloads(&logs::page(&store, "reader", 10).await.entries), ["four"]);
    store.close();
}

/// A proxy that leads to `old`, and a URL that opens both through it.
fn before_both(old: &OwnServer, fresh: &OwnServer) -> (Proxy, String) {
    let proxy = Proxy::start("127.0.0.1".to_owned(), old.port);
    // The servers differ in their passwords.
    let password = fresh.password.clone();
    tokio::task::block_in_place(|| {
        with_client(old.config(), move |client| {
            client.batch_execute(&format!("ALTER USER sarsen PASSWORD '{password}'")).expect("runs");
        });
    });
    let url = fresh.url_at("127.0.0.1", proxy.port);
    (proxy, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_stays_at_the_database_of_before() {
    let Some((old, fresh)) = old_and_restored().await else { return };
    let (proxy, url) = before_both(&old, &fresh);
    let store = open(url);
    let drops = count_drops(&store);
    add(&store, "before", "ada", "written there").await.expect("writes");
    proxy.lead_to(fresh.port);
    // The thread that reads the log notices. All others are still connected to a server that answers.
    proxy.cut_who_says("FROM change_log_cut");
    soon("it begins anew", || drops.load(Ordering::SeqCst) > 0).await;
    for id in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        add(&store, id, "ada", id).await.expect("writes");
    }
    assert_eq!(number(&fresh, "SELECT COUNT(*) FROM notes WHERE id IN ('a','b','c','d','e','f','g','h')"), 8);
    let read = store.read(|snapshot| snapshot.one(&BODY, args!["before"], |row| row.get::<String>(0)));
    assert_eq!(read.await.map_err(|error: Error| error).expect("reads"), None, "it was written there");
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn running_instances_go_on_when_their_database_was_restored() {
    let Some((old, fresh)) = old_and_restored().await else { return };
    let (proxy, url) = before_both(&old, &fresh);
    let (one, other) = (open(url.clone()), open(url));
    let cache = other.cache("bodies");
    keep(&other, &cache, "n").await;
    let drops = [count_drops(&one), count_drops(&other)];
    proxy.lead_to(fresh.port);
    proxy.cut_all();
    soon("both begin anew", || drops.iter().all(|drops| drops.load(Ordering::SeqCst) > 0)).await;
    // The first read after the reset finds a log of this cluster.
    soon("the log was reset", || number(&fresh, "SELECT below FROM change_log_cut") < 3000).await;
    let cache = other.cache("again");
    keep(&other, &cache, "n").await;
    rename(&one, "n", "one again").await;
    soon("the entry goes", || cache.get("n", NOW).is_none()).await;
    works_as_usual(&one, &other, &fresh).await;
    one.close();
    other.close();
}
