//! Caches obey the feed of changes, and declarations are checked.

use crate::support::{BODY, INSERT, TestStore};
use store::{Cache, Error, Filled, Key, Time, args};

const NOW: Time = Time::from_millis(1_000);

async fn cached(test: &TestStore, cache: &Cache<String, String>, id: &str) -> Option<String> {
    let wanted = id.to_owned();
    let filled = test.store.fill(cache, id.to_owned(), NOW, move |snapshot| {
        let body: Option<String> = snapshot.one(&BODY, args![&wanted], |row| row.get(0))?;
        let keys = vec![Key::row("notes", "id", &wanted)];
        Ok::<_, Error>(body.map(|value| Filled { value, keys, until: Time::NEVER }))
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

#[tokio::test]
async fn a_cached_answer_is_right_when_write_returns() {
    let test = TestStore::open();
    let cache = test.store.cache("bodies", 100);
    test.add("n", "ada", "one").await.expect("writes");
    assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some("one"));
    assert_eq!(cache.len(), 1);
    for body in ["two", "three", "four"] {
        rename(&test, "n", body).await;
        assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some(body));
    }
}

#[tokio::test]
async fn a_miss_is_not_remembered() {
    let test = TestStore::open();
    let cache = test.store.cache("bodies", 100);
    assert_eq!(cached(&test, &cache, "n").await, None);
    test.add("n", "ada", "one").await.expect("writes");
    assert_eq!(cached(&test, &cache, "n").await.as_deref(), Some("one"));
}

#[tokio::test]
async fn an_entry_ends_at_its_time() {
    let test = TestStore::open();
    let cache: Cache<u8, u8> = test.store.cache("numbers", 100);
    let until = Time::from_millis(2_000);
    let fill = |value| {
        move |_: &mut store::Snapshot<'_>| Ok::<_, Error>(Some(Filled { value, keys: vec![], until }))
    };
    assert_eq!(test.store.fill(&cache, 1, NOW, fill(1)).await.expect("fills"), Some(1));
    assert_eq!(cache.get(&1, Time::from_millis(1_999)), Some(1));
    assert_eq!(cache.get(&1, until), None);
}

#[tokio::test]
async fn a_cache_stays_within_its_bound_and_a_table_key_empties_it() {
    let test = TestStore::open();
    let cache = test.store.cache("bodies", 50);
    for number in 0..200 {
        let id = format!("n{number}");
        test.add(&id, "ada", &id).await.expect("writes");
        assert_eq!(cached(&test, &cache, &id).await, Some(id));
        assert!(cache.len() <= 50);
    }
    let all = test.store.write("note.touch", |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&store::sql("UPDATE notes SET used_at = 1"), args![])
    });
    all.await.map_err(|error: Error| error).expect("writes");
    assert_eq!(cache.len(), 0);
}

#[tokio::test]
async fn a_command_must_declare_what_it_changes() {
    let test = TestStore::open();
    let silent = test.store.write("note.silent", |tx| tx.exec(&INSERT, args!["n", "ada", "x"]));
    let refused = silent.await.map_err(|error: Error| error).expect_err("undeclared");
    assert!(matches!(refused, Error::Undeclared { name: "note.silent", .. }), "{refused:?}");
    assert_eq!(test.body("n").await, None);
}

#[tokio::test]
async fn a_cached_query_must_declare_what_it_reads() {
    let test = TestStore::open();
    test.add("n", "ada", "one").await.expect("writes");
    let cache: Cache<u8, String> = test.store.cache("bodies", 10);
    let filled = test.store.fill(&cache, 1, NOW, |snapshot| {
        let body: Option<String> = snapshot.one(&BODY, args!["n"], |row| row.get(0))?;
        Ok::<_, Error>(body.map(|value| Filled { value, keys: vec![], until: Time::NEVER }))
    });
    let refused = filled.await.expect_err("undeclared");
    assert!(matches!(refused, Error::Undeclared { name: "bodies", .. }), "{refused:?}");
}

#[tokio::test]
async fn versions_count_commits_and_survive_a_restart() {
    let test = TestStore::open();
    test.add("a", "ada", "a").await.expect("writes");
    test.add("b", "ada", "b").await.expect("writes");
    let before = test.store.version();
    assert!(before >= 2);
    assert_eq!(test.reopen().store.version(), before);
}
