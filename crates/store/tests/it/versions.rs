//! Reads that return their version and take one.

use crate::instances::{count_changes, rename, soon};
use crate::proxy::Proxy;
use crate::replicas::{open_at, until_replica_reads};
use crate::support::{BODY, Database, MIGRATIONS, add};
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::testing::own_server::OwnServer;
use store::{Answer, Error, Options, Read, Store, Version, args};

on_each_database!(
    a_read_returns_the_version_that_it_shows,
    instances_have_versions_in_common_or_none_that_compare,
    a_restart_continues_the_history_or_begins_another,
    demands_of_several_clients_are_met_by_one_read,
);

async fn body(store: &Store, read: Read, id: &'static str) -> Answer<Option<String>> {
    let answer = store.query(read, move |snapshot| snapshot.one(&BODY, args![id], |row| row.get(0)));
    answer.await.map_err(|error: Error| error).expect("reads")
}

async fn a_read_returns_the_version_that_it_shows(database: Database) {
    let test = database.open();
    let mut held = body(&test.store, Read::default(), "n").await;
    assert_eq!(held.value, None);
    test.add("n", "ada", "0").await.expect("writes");
    for number in 1..=20 {
        rename(&test.store, "n", &number.to_string()).await;
        let next = body(&test.store, Read::default().not_older_than(held.version), "n").await;
        assert_eq!(next.value, Some(number.to_string()));
        assert!(next.version > held.version && next.seen > held.seen, "{held:?} {next:?}");
        let text = next.version.to_string();
        assert!(text > held.version.to_string() && text.parse() == Ok(next.version), "{text}");
        held = next;
    }
    let again = body(&test.store, Read::default(), "n").await;
    assert_eq!(again.seen, held.seen, "nothing was published meanwhile");
    assert!(again.version.replaces(held.version));
    if database == Database::Sqlite {
        assert_eq!(again.version, held.version, "the version counts commits");
    }
    test.store.close();
}

async fn instances_have_versions_in_common_or_none_that_compare(database: Database) {
    if database == Database::Sqlite {
        return;
    }
    let test = database.open();
    let other = Store::open(test.options()).expect("opens beside the first");
    test.add("n", "ada", "0").await.expect("writes");
    for number in 1..=20 {
        rename(&test.store, "n", &number.to_string()).await;
        let here = body(&test.store, Read::default(), "n").await;
        let there = body(&other, Read::default().not_older_than(here.version), "n").await;
        assert_eq!(there.value, Some(number.to_string()));
        assert!(there.version.replaces(here.version), "{here:?} {there:?}");
        assert_eq!(there.version >= here.version, database == Database::Postgres, "{here:?} {there:?}");
    }
    other.close();
}

async fn a_restart_continues_the_history_or_begins_another(database: Database) {
    let test = database.open();
    test.add("n", "ada", "one").await.expect("writes");
    let before = body(&test.store, Read::default(), "n").await.version;
    let test = test.reopen();
    let after = body(&test.store, Read::default(), "n").await.version;
    assert!(after.replaces(before), "{before} {after}");
    assert_eq!(after.epoch() == before.epoch(), database == Database::Postgres, "{before} {after}");
    test.store.close();
}

async fn demands_of_several_clients_are_met_by_one_read(database: Database) {
    let test = database.open();
    let early = body(&test.store, Read::default(), "n").await.version;
    test.add("n", "ada", "0").await.expect("writes");
    let late = body(&test.store, Read::default(), "n").await.version;
    let foreign: Version = "00000000000000ff.0000000000000001".parse().expect("a version");
    let strongest = |versions: [Version; 3]| {
        versions.into_iter().reduce(|one, other| test.store.stronger(one, other)).expect("three versions")
    };
    for order in [[late, early, early], [early, late, early], [early, early, late]] {
        assert_eq!(strongest(order), late);
    }
    // Only the primary surely has what another history had.
    for order in [[late, foreign, early], [foreign, late, early], [early, late, foreign]] {
        assert_eq!(strongest(order), foreign);
    }
    test.store.close();
}

fn epoch_changes(store: &Store, before: Version) -> impl Fn() -> bool {
    let store = store.clone();
    move || store.version().epoch() != before.epoch()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_instances_begin_the_same_history_and_drop_what_they_have_cached() {
    let Some(database) = Database::postgres() else { return };
    let one = database.open();
    let other = Store::open(one.options()).expect("opens beside the first");
    let before = one.store.version();
    assert_eq!(other.version().epoch(), before.epoch());
    let drops = [count_changes(&one.store), count_changes(&other)];
    // What an instance does that sees ids go back.
    one.sql("UPDATE change_log_history SET number = number + 1");
    for store in [&one.store, &other] {
        soon("another history", epoch_changes(store, before)).await;
    }
    assert_eq!(one.store.version().epoch(), other.version().epoch());
    assert!(drops.iter().all(|drops| drops.load(Ordering::SeqCst) > 0));
    one.add("n", "ada", "one").await.expect("writes");
    let read = body(&other, Read::default().not_older_than(before), "n").await;
    assert_eq!(read.value.as_deref(), Some("one"), "a version of another history asks for the newest state");
    other.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_begins_another_history() {
    let Some(primary) = OwnServer::start() else { return };
    let standby = primary.standby();
    let proxy = Proxy::start("127.0.0.1".to_owned(), primary.port);
    let url = primary.url_at("127.0.0.1", proxy.port);
    let store = Store::open(Options { watched: &["notes"], ..Options::new(url, MIGRATIONS) }).expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    let before = body(&store, Read::default(), "n").await.version;
    tokio::task::block_in_place(|| {
        standby.sql("SELECT pg_promote()");
        proxy.lead_to(standby.port);
        proxy.cut_all();
    });
    soon("another history", epoch_changes(&store, before)).await;
    let mut written = add(&store, "m", "ada", "two").await;
    for _ in 0..100 {
        if written.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        written = add(&store, "m", "ada", "two").await;
    }
    written.expect("the promoted server accepts writes");
    let after = body(&store, Read::default().not_older_than(before), "m").await;
    assert_eq!((after.value.as_deref(), after.version.epoch() == before.epoch()), (Some("two"), false));
    let number = crate::restored_dump::number(&standby, "SELECT number FROM change_log_history");
    assert_eq!(number, 0, "the timeline tells it: several instances would each begin one more");
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_answers_when_it_has_what_was_published_and_what_was_asked_for() {
    let Some(primary) = OwnServer::start() else { return };
    let replica = primary.standby();
    let store = open_at(&primary, vec![replica.url()]);
    until_replica_reads(&store).await;
    let before = store.stats().replica_reads;
    let mut version = None;
    for number in 0..100 {
        let text = number.to_string();
        if number == 0 {
            add(&store, "n", "ada", &text).await.expect("writes");
        } else {
            rename(&store, "n", &text).await;
        }
        let read = version.map_or(Read::default(), |held| Read::default().not_older_than(held));
        let answer = body(&store, read.from_replica(), "n").await;
        assert_eq!(answer.value, Some(text));
        assert!(version.is_none_or(|held| answer.version >= held));
        version = Some(answer.version);
    }
    assert!(store.stats().replica_reads > before, "some came from the replica");
    // What it does not have yet comes from the primary.
    replica.sql("SELECT pg_wal_replay_pause()");
    rename(&store, "n", "new").await;
    let answer = body(&store, Read::default().from_replica(), "n").await;
    assert_eq!(answer.value.as_deref(), Some("new"));
    store.close();
}
