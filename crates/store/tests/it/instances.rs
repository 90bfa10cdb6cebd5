//! Several instances on one database: each hears of what the others change, in time and of all of it.

use crate::support::{BODY, Database, TestStore, add};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::testing::postgres::{Config, with_client};
use store::{Cache, Error, Filled, Key, Options, Sql, Store, Time, Uptime, args, sql};

pub const NOW: Time = Time::from_millis(1_000);

/// Two instances; none when the environment names no cluster.
fn two(change: impl Fn(&mut Options)) -> Option<(TestStore, Store)> {
    let one = Database::postgres()?.open_with(&change);
    let mut options = one.options();
    change(&mut options);
    let other = Store::open(options).expect("opens beside the first");
    Some((one, other))
}

pub async fn cached(store: &Store, cache: &Cache<String, String>, id: &str) -> Option<String> {
    let wanted = id.to_owned();
    let filled = store.fill(cache, id.to_owned(), NOW, move |snapshot| {
        let body: Option<String> = snapshot.one(&BODY, args![&wanted], |row| row.get(0))?;
        snapshot.depends(|| [Key::row("notes", "id", &wanted)]);
        Ok::<_, Error>(body.map(|value| Filled { value, until: Time::NEVER }))
    });
    filled.await.expect("fills")
}

/// Fills until the entry is kept: one that an earlier change concerns, heard of only now, goes again.
pub async fn keep(store: &Store, cache: &Cache<String, String>, id: &str) {
    let began = Instant::now();
    while cache.get(id, NOW).is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing is ever kept");
        assert!(cached(store, cache, id).await.is_some());
    }
}

pub async fn rename(store: &Store, id: &str, body: &str) {
    static RENAME: Sql = sql("UPDATE notes SET body = ?2 WHERE id = ?1");
    let (id, body) = (id.to_owned(), body.to_owned());
    let renamed = store.write("note.rename", move |tx| {
        tx.changed(Key::row("notes", "id", &id));
        tx.exec(&RENAME, args![&id, &body])
    });
    assert_eq!(renamed.await.map_err(|error: Error| error).expect("renames"), 1);
}

/// Waits for what comes by itself, and says how long that took.
pub async fn soon(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "still not so: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

/// How many changes a store has heard of from now on.
pub fn count_changes(store: &Store) -> Arc<AtomicUsize> {
    let heard = Arc::new(AtomicUsize::new(0));
    let ear = heard.clone();
    store.on_change(move |_| {
        ear.fetch_add(1, Ordering::SeqCst);
    });
    heard
}

/// A transaction past the store that stays open until it is told to end.
pub struct Foreign {
    end: Sender<String>,
    thread: JoinHandle<()>,
}

impl Foreign {
    pub fn begin(config: Config, statements: &str) -> Foreign {
        let statements = format!("BEGIN; {statements}");
        let (end, is_over): (Sender<String>, Receiver<String>) = channel();
        let (begun, has_begun) = channel();
        let thread = std::thread::spawn(move || {
            with_client(config, move |client| {
                client.batch_execute(&statements).expect("runs");
                begun.send(()).expect("the test waits");
                let last = is_over.recv().expect("the test says when");
                client.batch_execute(&last).expect("ends");
            });
        });
        has_begun.recv().expect("begins");
        Foreign { end, thread }
    }

    pub fn end(self, statements: &str) {
        self.end.send(statements.to_owned()).expect("it waits");
        self.thread.join().expect("ends");
    }
}

/// What a store hears of, key by key.
fn heard(store: &Store) -> impl Fn() -> HashMap<String, usize> {
    let all = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let ear = all.clone();
    store.on_change(move |change| {
        let mut all = ear.lock().expect("no panic");
        for key in change.keys.iter() {
            *all.entry(key.as_str().to_owned()).or_default() += 1;
        }
    });
    move || all.lock().expect("no panic").clone()
}

#[tokio::test]
async fn a_change_on_one_instance_drops_what_another_has_cached() {
    for wake_ups in [true, false] {
        let Some((one, other)) = two(|options| options.following.wake_ups = wake_ups) else { return };
        let cache = other.cache("bodies");
        one.add("n", "ada", "0").await.expect("writes");
        let mut took = Vec::new();
        for number in 1..=20 {
            keep(&other, &cache, "n").await;
            rename(&one.store, "n", &number.to_string()).await;
            took.push(soon("the entry goes", || cache.get("n", NOW).is_none()).await);
            assert_eq!(cached(&other, &cache, "n").await, Some(number.to_string()));
        }
        took.sort();
        eprintln!("wake-ups {wake_ups}: heard after {:?}, at most {:?}", took[10], took[19]);
        other.close();
    }
}

#[tokio::test]
async fn who_is_answered_by_what_another_instance_wrote_carries_a_version_that_has_it() {
    let deaf = |options: &mut Options| {
        options.following.poll = Duration::from_secs(60);
        options.following.wake_ups = false;
    };
    let Some((one, other)) = two(deaf) else { return };
    for id in ["n", "m"] {
        one.add(id, "ada", id).await.expect("writes");
        let taken = add(&other, id, "ada", "two").await;
        assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
        assert!(other.shown() >= one.store.shown(), "refused");
        rename(&one.store, id, &id.repeat(2)).await;
        let looked = other.write("note.look", move |tx| tx.one(&BODY, args![id], |row| row.get::<String>(0)));
        assert_eq!(
            looked.await.map_err(|error: Error| error).expect("reads").as_deref(),
            Some(&*id.repeat(2))
        );
        assert!(other.shown() >= one.store.shown(), "nothing was written");
    }
    other.close();
}

#[tokio::test]
async fn a_wake_up_spares_the_wait_for_the_next_look() {
    let Some((one, other)) = two(|options| options.following.poll = Duration::from_secs(60)) else { return };
    let cache = other.cache("bodies");
    one.add("n", "ada", "one").await.expect("writes");
    let hear = heard(&other);
    // A wake-up may be lost while the instances are still about to listen.
    let mut number = 0;
    let began = Instant::now();
    while hear().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "nobody is woken");
        number += 1;
        one.add(&format!("m{number}"), "ada", &number.to_string()).await.expect("writes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some("one"));
    rename(&one.store, "n", "two").await;
    let took = soon("the entry goes", || cache.is_empty()).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instance_hears_of_every_change_once() {
    let Some((one, other)) = two(|_| {}) else { return };
    let (ear, other_ear) = (heard(&one.store), heard(&other));
    let stores = [one.store.clone(), other.clone()];
    let jobs = (0..200).map(|number| {
        let store = stores[number % 2].clone();
        tokio::spawn(async move {
            let id = format!("n{number}");
            add(&store, &id, "ada", &id).await.expect("writes");
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.expect("joins");
    }
    for ear in [&ear as &dyn Fn() -> HashMap<String, usize>, &other_ear] {
        soon("all is heard", || ear().len() == 200).await;
        assert!(ear().values().all(|count| *count == 1), "{:?}", ear());
    }
    other.close();
}

#[tokio::test]
async fn an_early_number_that_commits_late_is_not_lost() {
    let Some((one, other)) = two(|_| {}) else { return };
    let cache = other.cache("bodies");
    one.add("late", "ada", "old").await.expect("writes");
    one.add("n", "ada", "0").await.expect("writes");
    let late = Foreign::begin(
        one.database().config(),
        "UPDATE notes SET body = 'new' WHERE id = 'late';
         INSERT INTO change_log (keys) VALUES ('notes.id=late')",
    );
    // Many with larger numbers commit before it and are heard of.
    for number in 1..=20 {
        keep(&other, &cache, "n").await;
        rename(&one.store, "n", &number.to_string()).await;
        soon("the later number is heard", || cache.get("n", NOW).is_none()).await;
    }
    keep(&other, &cache, "late").await;
    assert_eq!(cache.get("late", NOW).as_deref(), Some("old"));
    late.end("COMMIT");
    soon("the early number is heard", || cache.get("late", NOW).is_none()).await;
    assert_eq!(cached(&other, &cache, "late").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn a_long_transaction_holds_back_the_version_and_nothing_else() {
    let Some((one, other)) = two(|_| {}) else { return };
    let cache = other.cache("bodies");
    one.add("n", "ada", "0").await.expect("writes");
    let long = Foreign::begin(
        one.database().config(),
        "INSERT INTO samples (number) SELECT 1 FROM pg_current_xact_id()",
    );
    let next = one.database().number("SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)");
    for number in 1..=20 {
        keep(&other, &cache, "n").await;
        rename(&one.store, "n", &number.to_string()).await;
        let took = soon("the entry goes", || cache.get("n", NOW).is_none()).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert!(other.version().number() < next.unsigned_abs(), "it is not in yet");
    long.end("COMMIT");
    soon("the version moves on", || other.version().number() > next.unsigned_abs()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_read_before_a_foreign_commit_is_not_kept() {
    let Some((one, other)) = two(|_| {}) else { return };
    let cache: Cache<String, String> = other.cache("bodies");
    let hear = heard(&other);
    one.add("n", "ada", "old").await.expect("writes");
    soon("the first is heard", || hear().get("notes.id=n") == Some(&1)).await;
    let (has_read, read) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let filling = tokio::spawn({
        let (other, cache) = (other.clone(), cache.clone());
        async move {
            let filled = other.fill(&cache, "n".to_owned(), NOW, move |snapshot| {
                let body: Option<String> = snapshot.one(&BODY, args!["n"], |row| row.get(0))?;
                has_read.send(()).expect("the test waits");
                may_go_on.recv().expect("the test says when");
                snapshot.depends(|| [Key::row("notes", "id", "n")]);
                Ok::<_, Error>(body.map(|value| Filled { value, until: Time::NEVER }))
            });
            filled.await.expect("fills")
        }
    });
    tokio::task::block_in_place(|| read.recv()).expect("it has read");
    rename(&one.store, "n", "new").await;
    soon("the second is heard", || hear().get("notes.id=n") == Some(&2)).await;
    go_on.send(()).expect("it waits");
    assert_eq!(filling.await.expect("joins").as_deref(), Some("old"), "it began before the change");
    assert!(cache.is_empty(), "but nobody else is told so");
    assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn caches_are_bypassed_while_the_log_cannot_be_read() {
    let Some((one, other)) = two(|options| options.following.lag_max = Duration::from_millis(250)) else {
        return;
    };
    let cache = other.cache("bodies");
    let hear = heard(&other);
    one.add("n", "ada", "one").await.expect("writes");
    soon("it is heard", || hear().contains_key("notes.id=n")).await;
    keep(&other, &cache, "n").await;
    // Nobody reads the log now.
    let lock = Foreign::begin(one.database().config(), "LOCK TABLE change_log IN ACCESS EXCLUSIVE MODE");
    soon("the entry is not believed", || cache.get("n", NOW).is_none()).await;
    assert_eq!(cache.len(), 1, "it is there still");
    for body in ["two", "three"] {
        one.database().sql(format!("UPDATE notes SET body = '{body}' WHERE id = 'n'"));
        assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some(body));
        assert_eq!(cache.get("n", NOW), None);
    }
    lock.end("INSERT INTO change_log (keys) VALUES ('notes.id=n'); COMMIT");
    keep(&other, &cache, "n").await;
    assert_eq!(cache.get("n", NOW).as_deref(), Some("three"));
}

/// Like that of a machine: it goes on when the machine was suspended, while no thread ran.
struct TestClock(AtomicU64);

impl Uptime for TestClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn after_a_suspension_caches_are_bypassed_until_the_log_is_read() {
    let clock = Arc::new(TestClock(AtomicU64::new(1_000_000)));
    let Some(one) = Database::postgres().map(Database::open) else { return };
    let mut options = one.options();
    options.following.lag_max = Duration::from_millis(250);
    options.following.clock = clock.clone();
    let other = Store::open(options).expect("opens");
    let cache = other.cache("bodies");
    let hear = heard(&other);
    one.add("n", "ada", "one").await.expect("writes");
    soon("it is heard", || hear().contains_key("notes.id=n")).await;
    keep(&other, &cache, "n").await;
    // No read of the log ends while the machine is suspended.
    let lock = Foreign::begin(one.database().config(), "LOCK TABLE change_log IN ACCESS EXCLUSIVE MODE");
    assert!(cache.get("n", NOW).is_some(), "no time has passed");
    clock.0.fetch_add(10_000, Ordering::SeqCst);
    assert!(cache.get("n", NOW).is_none(), "ten seconds have passed");
    lock.end("COMMIT");
    keep(&other, &cache, "n").await;
    other.close();
}

#[tokio::test]
async fn who_may_have_missed_something_begins_anew() {
    let Some((one, other)) = two(|_| {}) else { return };
    let cache = other.cache("bodies");
    let hear = heard(&other);
    one.add("n", "ada", "one").await.expect("writes");
    soon("the first is heard", || hear().contains_key("notes.id=n")).await;
    assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some("one"));
    // A connection that was lost: there may be another server now.
    one.database().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    soon("everything is dropped", || cache.is_empty()).await;
    soon("and everybody is told", || hear().contains_key(Key::everything().as_str())).await;
    let seen = hear().len();
    one.add("m", "ada", "two").await.expect("writes");
    soon("it goes on", || hear().len() > seen).await;
    // Rows that were cut off before they were read.
    assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some("one"));
    one.database().sql(
        "UPDATE change_log_cut SET below = CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) + 1",
    );
    soon("everything is dropped", || cache.is_empty()).await;
    one.database().sql("UPDATE change_log_cut SET below = 0");
    keep(&other, &cache, "n").await;
    rename(&one.store, "n", "three").await;
    soon("the entry goes", || cache.get("n", NOW).is_none()).await;
}
