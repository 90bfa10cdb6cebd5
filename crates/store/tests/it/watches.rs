//! Watches of keys: no change is missed between the read and the watch, and a watch ends with its guard.

use crate::instances::{NOW, rename, soon};
use crate::support::{BODY, Database, TestStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Answer, Cache, Error, Filled, Key, Read, Store, Time, Watch, args};
use tokio::sync::Notify;

on_each_database!(
    a_watch_is_called_for_each_change_of_its_keys_until_it_ends,
    a_change_between_read_and_watch_refuses_the_watch,
    a_watch_of_a_table_is_called_for_each_of_its_rows,
    watchers_that_read_again_end_with_the_newest_value,
    a_watch_that_panics_or_ends_itself_harms_nobody,
);

fn note(id: &str) -> Key {
    Key::row("notes", "id", id)
}

async fn body(store: &Store, id: &'static str) -> Answer<Option<String>> {
    let answer = store.query(Read::default(), move |snapshot| {
        snapshot.depends(|| [note(id)]);
        snapshot.one(&BODY, args![id], |row| row.get(0))
    });
    answer.await.map_err(|error: Error| error).expect("reads")
}

/// A watch that counts its calls.
fn counted(test: &TestStore, keys: &[Key]) -> (Watch, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let watch = test.store.watch(keys, test.store.position(), move || {
        called.fetch_add(1, Ordering::SeqCst);
    });
    (watch.expect("nothing is written meanwhile"), calls)
}

async fn a_watch_is_called_for_each_change_of_its_keys_until_it_ends(database: Database) {
    let test = database.open();
    for id in ["n", "m"] {
        test.add(id, "ada", id).await.expect("writes");
    }
    let (watch, calls) = counted(&test, &[note("n"), note("x")]);
    rename(&test.store, "n", "two").await;
    assert_eq!(calls.load(Ordering::SeqCst), 1, "before the caller of `write` has its result");
    rename(&test.store, "m", "three").await;
    assert_eq!(calls.load(Ordering::SeqCst), 1, "another row");
    test.add("x", "ada", "x").await.expect("writes");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "a row that did not exist");
    drop(watch);
    rename(&test.store, "n", "four").await;
    assert_eq!(calls.load(Ordering::SeqCst), 2, "it has ended");
}

async fn a_change_between_read_and_watch_refuses_the_watch(database: Database) {
    let test = database.open();
    test.add("n", "ada", "one").await.expect("writes");
    let read = body(&test.store, "n").await;
    rename(&test.store, "n", "two").await;
    assert!(test.store.watch(&read.keys, read.seen, || {}).is_none());
    let again = body(&test.store, "n").await;
    test.add("m", "ada", "m").await.expect("writes");
    assert!(test.store.watch(&again.keys, again.seen, || {}).is_some(), "another row");
    test.store.close();
}

async fn a_watch_of_a_table_is_called_for_each_of_its_rows(database: Database) {
    let test = database.open();
    let (_table, of_table) = counted(&test, &[Key::table("notes")]);
    let (_row, of_row) = counted(&test, &[note("n")]);
    let (_other, of_other) = counted(&test, &[Key::table("samples")]);
    test.add("n", "ada", "one").await.expect("writes");
    test.add("m", "ada", "two").await.expect("writes");
    let clear = test.store.write("note.touch", |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&store::sql("UPDATE notes SET used_at = 1"), args![])
    });
    clear.await.map_err(|error: Error| error).expect("writes");
    let calls = [&of_table, &of_row, &of_other].map(|calls| calls.load(Ordering::SeqCst));
    assert_eq!(calls, [3, 2, 0]);
}

/// Reads and watches, as a held request or a live query does, until the value is `last`.
async fn follow(store: Store, last: String) -> usize {
    let mut reads = 0;
    loop {
        let read = body(&store, "n").await;
        reads += 1;
        if read.value.as_ref() == Some(&last) {
            return reads;
        }
        let changed = Arc::new(Notify::new());
        let wake = changed.clone();
        if let Some(_watch) = store.watch(&read.keys, read.seen, move || wake.notify_one()) {
            changed.notified().await;
        }
    }
}

async fn watchers_that_read_again_end_with_the_newest_value(database: Database) {
    let test = database.open();
    test.add("n", "ada", "0").await.expect("writes");
    let followers: Vec<_> =
        (0..8).map(|_| tokio::spawn(follow(test.store.clone(), "200".to_owned()))).collect();
    for number in 1..=200 {
        rename(&test.store, "n", &number.to_string()).await;
    }
    for follower in followers {
        let reads = tokio::time::timeout(std::time::Duration::from_secs(30), follower).await;
        assert!(reads.expect("no change is missed").expect("joins") > 0);
    }
}

async fn a_watch_that_panics_or_ends_itself_harms_nobody(database: Database) {
    let test = database.open();
    test.add("n", "ada", "one").await.expect("writes");
    let seen = test.store.position();
    let _panics = test.store.watch(&[note("n")], seen, || std::panic::resume_unwind(Box::new("on purpose")));
    let own: Arc<std::sync::Mutex<Option<Watch>>> = Arc::default();
    let ends = own.clone();
    let watch = test.store.watch(&[note("n")], seen, move || drop(ends.lock().expect("no panic").take()));
    *own.lock().expect("no panic") = watch;
    let (_last, calls) = counted(&test, &[note("n")]);
    rename(&test.store, "n", "two").await;
    rename(&test.store, "n", "three").await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(own.lock().expect("no panic").is_none(), "it has ended itself");
}

#[tokio::test]
async fn a_change_of_another_instance_calls_a_watch() {
    let Some(database) = Database::postgres() else { return };
    let one = database.open();
    let other = Store::open(one.options()).expect("opens beside the first");
    one.add("n", "ada", "0").await.expect("writes");
    let following = tokio::spawn(follow(other.clone(), "20".to_owned()));
    for number in 1..=20 {
        rename(&one.store, "n", &number.to_string()).await;
    }
    let mut following = Some(following);
    soon("the other instance has followed", || following.as_ref().is_some_and(|task| task.is_finished()))
        .await;
    following.take().expect("a task").await.expect("joins");
    other.close();
}

#[tokio::test]
async fn a_slow_read_is_kept_however_much_was_written_meanwhile() {
    let test = Database::Sqlite.open();
    test.add("n", "ada", "one").await.expect("writes");
    let read = body(&test.store, "n").await;
    let cache: Cache<u8, u8> = test.store.cache("numbers");
    let before = cache.position();
    for number in 0..1_100 {
        let id = format!("m{number}");
        test.add(&id, "ada", &id).await.expect("writes");
    }
    assert!(test.store.watch(&read.keys, read.seen, || {}).is_some());
    cache.insert(1, Filled { value: 1, until: Time::NEVER }, read.keys, before);
    assert_eq!(cache.get(&1, NOW), Some(1));
}
