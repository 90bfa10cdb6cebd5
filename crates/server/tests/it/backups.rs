//! Backups by the clock, the check of a database, and a new secret key.

use crate::support::Admin;
use identity::idempotent_writes;
use identity::ids::IdempotentWriteId;
use identity::secrets::SecretKey;
use serde_json::json;
use server::backups::{self, Origin, Schedule};
use server::testing::{TestPlace, TestServer};
use server::{SystemRandom, WriterLimits};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{Error, args, sql};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

async fn number(server: &TestServer, name: &str) -> u64 {
    let text = server.get("/metrics").send().await.body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in:\n{text}")).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_makes_backups_and_keeps_the_newest() {
    if TestPlace::create().is_shared() {
        // Only SQLite files are backed up by the server.
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backups");
    std::fs::create_dir(&path).expect("a folder");
    let schedule = Schedule { folder: path.clone(), every: DAY, keep: 2 };
    let server = TestServer::start_with(|settings| settings.backups = Some(schedule.clone()), |_| {}).await;
    std::fs::write(path.join("notes.txt"), "mine").expect("written");
    server.back_up().await;
    let first = names(&path);
    assert_eq!(first.len(), 2, "{first:?}");
    server.clock.advance(DAY - Duration::from_secs(1));
    server.back_up().await;
    assert_eq!(names(&path), first, "it is not due yet");

    std::fs::write(path.join("sarsen-20010101T000000Z.db.17-0.sarsen-new"), "left by a kill")
        .expect("written");
    for _ in 0..3 {
        server.clock.advance(DAY);
        server.back_up().await;
    }
    let kept = names(&path);
    assert!(kept.len() == 3 && kept[0] == "notes.txt" && !kept.contains(&first[1]), "{kept:?}");
    let found = schedule.found(server.app.now()).expect("reads");
    assert_eq!((found.times.len(), found.ahead.len()), (2, 0));
    assert_eq!(number(&server, "sarsen_backups_total").await, 4);
    assert_eq!(
        number(&server, "sarsen_backup_last_success_seconds").await,
        server.app.now().seconds().unsigned_abs()
    );
    for name in &kept[1..] {
        let found = backups::check_file(&path.join(name), std::slice::from_ref(&server.app.secret_key))
            .expect("whole");
        assert!(found.problems.is_empty() && found.sealed > 0, "{found:?}");
        assert_eq!((found.origin, found.key), (Some(Origin::Marked), Some(0)));
    }

    std::fs::remove_dir_all(&path).expect("removed");
    server.clock.advance(DAY);
    server.back_up().await;
    assert_eq!(number(&server, "sarsen_backups_failed_total").await, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_from_a_clock_that_was_ahead_costs_no_other_backup() {
    if TestPlace::create().is_shared() {
        // Only SQLite files are backed up by the server.
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let schedule = Schedule { folder: path.clone(), every: DAY, keep: 3 };
    let server = TestServer::start_with(|settings| settings.backups = Some(schedule.clone()), |_| {}).await;
    let old = ["sarsen-20260101T000000Z.db", "sarsen-20260102T000000Z.db"];
    let ahead = "sarsen-20991231T000000Z.db";
    for name in old.iter().chain([&ahead]) {
        std::fs::write(path.join(name), "a backup").expect("written");
    }
    server.back_up().await;
    server.clock.advance(Duration::from_secs(30));
    server.back_up().await;
    let found = names(&path);
    assert_eq!(number(&server, "sarsen_backups_total").await, 1, "{found:?}");
    assert!(found.len() == 4 && found[..2] == old && found[3] == ahead, "{found:?}");
    // The schedule removes the oldest of those that it counts.
    server.clock.advance(DAY);
    server.back_up().await;
    let found = names(&path);
    assert!(found.len() == 4 && found[0] == old[1] && found[3] == ahead, "{found:?}");
    let found = schedule.found(server.app.now()).expect("reads");
    assert_eq!((found.times.len(), found.ahead.len()), (3, 1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_opens_what_is_sealed_and_finds_another_key() {
    let server = TestServer::start().await;
    let (store, key) = (&server.app.store, server.app.secret_key.clone());
    let found = backups::check_store(store, &key).await.expect("checks");
    assert!(found.problems.is_empty() && found.sealed > 0, "{found:?}");
    let found = backups::check_store(store, &SecretKey::new(&[9; 32])).await.expect("checks");
    assert_eq!(
        found.problems,
        [
            "secret_key: the database was created with another key, or is from before a change of the key; use the key \
         that belongs to it"
        ]
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_opens_what_the_old_one_has_sealed() {
    let server = TestServer::start().await;
    // It makes the signing keys that are missing, which the running server would seal with the old key.
    server.tidy().await.expect("tidies");
    let (store, old) = (&server.app.store, server.app.secret_key.clone());
    let new = SecretKey::new(&[9; 32]);
    let random = || Arc::new(SystemRandom);
    let before = backups::check_store(store, &old).await.expect("checks").sealed;
    let wrong = SecretKey::new(&[8; 32]);
    let refused = backups::reseal(store, wrong, new.clone(), random()).await.expect_err("another key");
    assert!(refused.to_string().contains("created with another key"), "{refused}");
    assert!(backups::is_key_of(store, old.clone()).await.expect("reads"), "nothing has changed");

    assert_eq!(backups::reseal(store, old.clone(), new.clone(), random()).await.expect("seals"), before);
    assert!(!backups::is_key_of(store, old).await.expect("reads"));
    let found = backups::check_store(store, &new).await.expect("checks");
    assert!(found.problems.is_empty() && found.sealed == before, "{found:?}");
    server.stop().await;
}

const ANSWERS: u128 = 20_000;

/// Stores as many answers as busy programs leave in a day.
async fn store_answers(server: &TestServer) {
    let insert =
        sql("INSERT INTO idempotent_writes (id, caller, name, fingerprint, created_at, status, answer)
         VALUES (?1, 'user_1', ?1, ?2, ?3, 200, ?4)");
    let (now, insert) = (server.app.now(), Arc::new(insert));
    let ids: Vec<_> = (0..ANSWERS).map(IdempotentWriteId::from_uuid).collect();
    for some in ids.chunks(500) {
        let seal = |id: &IdempotentWriteId| {
            let key = &server.app.secret_key;
            (id.clone(), idempotent_writes::seal_answer(id, b"{}", key, &SystemRandom).expect("seals"))
        };
        let rows: Vec<_> = some.iter().map(seal).collect();
        let insert = insert.clone();
        let stored = server.app.store.write("test.answers", move |tx| {
            rows.iter().try_for_each(|(id, answer)| {
                tx.exec(&insert, args![id, &[7_u8; 32][..], now, answer.as_slice()]).map(drop)
            })
        });
        stored.await.map_err(|error: Error| error).expect("stores");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_set_however_many_answers_are_stored() {
    // The limits of a server, not those of other tests.
    let server = TestServer::start_on(WriterLimits::default()).await;
    let (store, old) = (&server.app.store, server.app.secret_key.clone());
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let keyed = || {
        let request = admin.request("POST", "/api/organizations/acme/services");
        request.header("idempotency-key", "once").json(&json!({ "slug": "atlas", "name": "Atlas" }))
    };
    assert_eq!(keyed().send().await.status, 201);
    let before = backups::check_store(store, &old).await.expect("checks").sealed;
    store_answers(&server).await;
    let new = SecretKey::new(&[9; 32]);
    let sealed = backups::reseal(store, old, new.clone(), Arc::new(SystemRandom)).await.expect("seals");
    assert_eq!(sealed, before - 1, "all but the answers");
    let found = backups::check_store(store, &new).await.expect("checks");
    assert!(found.problems.is_empty() && found.sealed == sealed, "{found:?}");
    let again = keyed().send().await;
    assert_eq!((again.status, again.text("code").as_str()), (409, "idempotency_answer_lost"), "{again:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_an_instance_shows_that_the_database_is_served() {
    let server = TestServer::start().await;
    let (store, now) = (&server.app.store, server.app.now());
    let forget = sql("DELETE FROM leases");
    let forgotten = store.write("leases.forget", move |tx| tx.exec(&forget, args![])).await;
    forgotten.map_err(|error: Error| error).expect("writes");
    assert!(!backups::is_served(store, now).await.expect("reads"));
    server.tidy().await.expect("tidies");
    assert!(backups::is_served(store, now).await.expect("reads"));
    assert!(!backups::is_served(store, now + Duration::from_secs(91)).await.expect("reads"));
    server.stop().await;
}
