//! Caches obey the feed of changes, and declarations are checked.

use crate::support::{BODY, Database, INSERT, TestStore};
use std::sync::Arc;
use std::sync::Mutex;
use store::{Cache, Error, Filled, Key, Position, Time, args};

on_each_database!(
    a_cached_answer_is_right_when_write_returns,
    a_miss_is_not_remembered,
    an_entry_ends_at_its_time,
    what_was_just_written_is_remembered_unless_it_has_changed_since,
    a_cache_stays_within_its_bound_and_a_table_key_empties_it,
    a_very_small_cache_stays_within_its_bound_too,
    listeners_hear_of_each_commit_in_order_and_of_no_other,
    a_listener_that_panics_costs_nobody_anything,
    an_error_of_a_command_is_not_replaced_by_what_it_failed_to_declare,
    versions_count_commits_and_survive_a_restart,
);

const NOW: Time = Time::from_millis(1_000);

async fn cached(test: &TestStore, cache: &Cache<String, String>, id: &str) -> Option<String> {
    let wanted = id.to_owned();
    let filled = test.store.fill(cache, id.to_owned(), NOW, move |snapshot| {
        let body: Option<String> = snapshot.one(&BODY, args![&wanted], |row| row.get(0))?;
        snapshot.depends(|| [Key::row("notes", "id", &wanted)]);
        Ok::<_, Error>(body.map(|value| Filled { value, until: Time::NEVER }))
    });
    filled.await.expect("fills")
}

async fn rename(test: &TestStore, id: &'static str, body: &'static str) {
    static RENAME: store::Sql = store::sql("UPDATE notes SET body = ?2 WHERE id = ?1");
    let renamed = test.store.write("note.rename", move |tx| {
        tx.changed(Key::row("notes", "id", id));
        tx.exec(&RENAME, args![id, body])
    });
    assert_eq!(renamed.await.map_err(|error: Error| error).expect("renames"), 1);
}

async fn a_cached_answer_is_right_when_write_returns(database: Database) {
    let test = database.open();
    let cache = test.store.cache("bodies");
    test.add("n", "ada", "one").await.expect("writes");
    assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some("one"));
    assert_eq!(cache.len(), 1);
    for body in ["two", "three", "four"] {
        rename(&test, "n", body).await;
        assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some(body));
    }
}

async fn a_miss_is_not_remembered(database: Database) {
    let test = database.open();
    let cache = test.store.cache("bodies");
    assert_eq!(cached(&test, &cache, "n").await, None);
    test.add("n", "ada", "one").await.expect("writes");
    assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some("one"));
}

async fn an_entry_ends_at_its_time(database: Database) {
    let test = database.open();
    let cache: Cache<u8, u8> = test.store.cache("numbers");
    let until = Time::from_millis(2_000);
    let fill = |value| move |_: &mut store::Snapshot<'_>| Ok::<_, Error>(Some(Filled { value, until }));
    assert_eq!(test.store.fill(&cache, 1, NOW, fill(1)).await.expect("fills"), Some(1));
    assert_eq!(cache.get(&1, Time::from_millis(1_999)), Some(1));
    assert_eq!(cache.get(&1, until), None);
}

async fn what_was_just_written_is_remembered_unless_it_has_changed_since(database: Database) {
    let test = database.open();
    let cache = test.store.cache("bodies");
    let insert = |body: &str, before| {
        let filled = Filled { value: body.to_owned(), until: Time::NEVER };
        cache.insert("n".to_owned(), filled, vec![Key::row("notes", "id", "n")], before);
    };
    let before = cache.position();
    test.add("n", "ada", "one").await.expect("writes");
    let after = cache.position();
    insert("one", after);
    // Where others write, one of them may have acknowledged a change of it by now.
    let remembered = (database == Database::Sqlite).then_some("one");
    assert_eq!(cache.get("n", NOW).as_deref(), remembered);
    rename(&test, "n", "two").await;
    assert_eq!(cache.get("n", NOW), None);
    for moment in [before, after] {
        insert("one", moment);
        assert_eq!(cache.get("n", NOW), None);
    }
}

async fn a_cache_stays_within_its_bound_and_a_table_key_empties_it(database: Database) {
    let test = database.open_with(|options| options.cache_memory = 20_000);
    let cache = test.store.cache("bodies");
    for number in 0..200 {
        let id = format!("n{number}");
        test.add(&id, "ada", &id).await.expect("writes");
        assert_eq!(cached(&test, &cache, &id).await, Some(id));
        assert!(test.store.cache_stats()[0].bytes <= 20_000);
    }
    assert!(cache.len() > 30, "{}", cache.len());
    let all = test.store.write("note.touch", |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&store::sql("UPDATE notes SET used_at = 1"), args![])
    });
    all.await.map_err(|error: Error| error).expect("writes");
    assert_eq!(cache.len(), 0);
}

async fn listeners_hear_of_each_commit_in_order_and_of_no_other(database: Database) {
    let test = Arc::new(database.open());
    let heard = Arc::new(Mutex::new(Vec::<(Position, Vec<Key>)>::new()));
    let ear = heard.clone();
    test.store.on_change(move |change| {
        ear.lock().expect("no panic").push((change.position, change.keys.to_vec()));
    });
    let jobs = (0..40).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            let id = format!("n{number}");
            let added = test.add(&id, "ada", &format!("body {}", number / 2)).await.is_ok();
            (id, added)
        })
    });
    let mut expected = Vec::new();
    for job in jobs.collect::<Vec<_>>() {
        let (id, added) = job.await.expect("joins");
        expected.extend(added.then(|| Key::row("notes", "id", &id)));
    }
    let heard = heard.lock().expect("no panic");
    assert!(heard.iter().map(|(position, _)| position).is_sorted_by(|one, next| one < next), "{heard:?}");
    let mut keys: Vec<Key> = heard.iter().flat_map(|(_, keys)| keys.clone()).collect();
    keys.sort();
    expected.sort();
    if database == Database::Mysql {
        // The reader of the log may come upon a commit before its own process has published it. Both publish it then, so that
        // no answer goes out before.
        keys.dedup();
    }
    assert_eq!((keys, expected.len()), (expected, 20));
}

async fn a_listener_that_panics_costs_nobody_anything(database: Database) {
    let test = database.open();
    test.store.on_change(|_| std::panic::resume_unwind(Box::new("on purpose")));
    let cache = test.store.cache("bodies");
    test.add("n", "ada", "one").await.expect("it is on disk, whatever a listener does");
    assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some("one"));
    rename(&test, "n", "two").await;
    assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some("two"), "the next listener hears of it");
}

async fn an_error_of_a_command_is_not_replaced_by_what_it_failed_to_declare(database: Database) {
    let test = database.open();
    test.add("n", "ada", "one").await.expect("writes");
    let again = test.store.write("note.add", |tx| {
        tx.exec(&INSERT, args!["n", "ada", "one"])?;
        tx.changed(Key::table("notes"));
        Ok::<_, Error>(())
    });
    let error = again.await.expect_err("the id is taken");
    assert!(error.conflict().is_some(), "{error:?}");
}

async fn a_very_small_cache_stays_within_its_bound_too(database: Database) {
    for memory in [0, 500, 5_000] {
        let test = database.open_with(|options| options.cache_memory = memory);
        let cache = test.store.cache("bodies");
        for number in 0..20 {
            let id = format!("n{number}");
            test.add(&id, "ada", &id).await.expect("writes");
            assert_eq!(cached(&test, &cache, &id).await, Some(id));
            assert!(test.store.cache_stats()[0].bytes <= memory as u64);
        }
        assert_eq!(cache.is_empty(), memory < 5_000, "{memory}");
    }
}

async fn versions_count_commits_and_survive_a_restart(database: Database) {
    let test = database.open();
    let first = test.store.version().number();
    test.add("a", "ada", "a").await.expect("writes");
    let before = moves_beyond(first, &test).await;
    static CLEAR: store::Sql = store::sql("DELETE FROM samples");
    let silent = test.store.write("sample.clear", |tx| tx.exec(&CLEAR, args![]));
    silent.await.map_err(|error: Error| error).expect("nothing depends on it");
    let last = moves_beyond(before, &test).await; // A commit without keys counts too.
    let test = test.reopen();
    assert!(test.store.version().number() >= last);
    test.add("c", "ada", "c").await.expect("writes");
    moves_beyond(last, &test).await;
}

/// The version of all instances follows a commit by some milliseconds.
async fn moves_beyond(version: u64, test: &TestStore) -> u64 {
    let began = std::time::Instant::now();
    while test.store.version().number() <= version {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "still {version}");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    test.store.version().number()
}
