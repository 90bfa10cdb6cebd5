//! Publication, cache fill and watches in many orders of their threads, with `shuttle`:
//! `cargo xtask soak --only schedules`.
//!
//! The database is a number. A command writes it and publishes the row's key; a query notes the position of the feed and
//! reads it. At rest, what is cached or watched must be the newest number.

use crate::cache::{Cache, Filled};
use crate::engine::Shared;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::version::Epoch;
use crate::{Key, Options, Time, Uptime};
use std::sync::Arc;
use std::time::Duration;

/// Schedules of one test.
const SCHEDULES: usize = 20_000;
/// Changes of order in a schedule that shows the bug, at most.
const DEPTH: usize = 4;

/// A clock that stands at one second.
struct Still;

impl Uptime for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// When a command publishes.
#[derive(Clone, Copy, PartialEq)]
enum Publishes {
    AfterCommit,
    /// A bug, which must be found.
    BeforeCommit,
}

struct World {
    shared: Shared,
    row: AtomicU64,
    /// One command commits at a time.
    writer: Mutex<()>,
    publishes: Publishes,
}

impl World {
    fn new(publishes: Publishes, is_shared: bool) -> World {
        let mut options = Options::new("sqlite:none", &[]);
        options.following.clock = Arc::new(Still);
        options.cache_memory = 1 << 20;
        let shared = Shared::new(options, Epoch(1), 1, 1, 1);
        if is_shared {
            // Reads then do not use the position of a commit under way.
            shared.feed.advance(1, Duration::ZERO, Duration::from_secs(60));
        }
        World { shared, row: AtomicU64::new(0), writer: Mutex::new(()), publishes }
    }

    fn write(&self, value: u64) {
        let _turn = self.writer.lock();
        if self.publishes == Publishes::BeforeCommit {
            self.shared.feed.publish(keys());
        }
        self.row.store(value, Ordering::SeqCst);
        if self.publishes == Publishes::AfterCommit {
            self.shared.feed.publish(keys());
        }
    }

    fn newest(&self) -> u64 {
        self.row.load(Ordering::SeqCst)
    }
}

fn keys() -> Vec<Key> {
    vec![Key::row("rows", "id", "1")]
}

fn explore(test: impl Fn() + Clone + Send + Sync + 'static) {
    shuttle::check_random(test.clone(), SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, DEPTH);
}

/// Two commands, and two queries that fill a cache.
fn fill(publishes: Publishes, is_shared: bool) {
    let world = Arc::new(World::new(publishes, is_shared));
    let cache: Cache<u8, u64> = Cache::new("rows", &world.shared);
    let mut threads = Vec::new();
    for value in [1, 2] {
        let world = world.clone();
        threads.push(shuttle::thread::spawn(move || world.write(value)));
    }
    for _ in 0..2 {
        let (world, cache) = (world.clone(), cache.clone());
        threads.push(shuttle::thread::spawn(move || {
            let seen = world.shared.feed.readable();
            let value = world.newest();
            cache.keep(0, Filled { value, until: Time::NEVER }, &keys(), seen);
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let cached = cache.get(&0, Time::from_millis(0));
    assert!(cached.is_none_or(|cached| cached == world.newest()), "{cached:?} is cached");
}

/// Two commands, and a query that runs again whenever its watch is refused or called, as a live query does.
fn watch(publishes: Publishes, is_shared: bool) {
    let world = Arc::new(World::new(publishes, is_shared));
    let watches = world.shared.watches.clone();
    let touched = Arc::new(AtomicU64::new(0));
    let writes: Vec<_> = [1, 2]
        .map(|value| {
            let world = world.clone();
            shuttle::thread::spawn(move || world.write(value))
        })
        .into();
    let run = {
        let (world, watches, touched) = (world.clone(), watches.clone(), touched.clone());
        move || loop {
            let before = touched.load(Ordering::SeqCst);
            let seen = world.shared.feed.readable();
            let value = world.newest();
            let wake = {
                let touched = touched.clone();
                move || {
                    touched.fetch_add(1, Ordering::SeqCst);
                }
            };
            let feed = &world.shared.feed;
            let slot = watches.begin(feed, world.shared.watches_owner, &keys(), seen, Arc::new(wake));
            if slot.is_some() {
                return (value, before);
            }
            // A command is about to advance the position.
            shuttle::thread::yield_now();
        }
    };
    let reader = shuttle::thread::spawn(run.clone());
    let (mut shown, before) = reader.join().expect("it ends");
    writes.into_iter().for_each(|thread| thread.join().expect("it ends"));
    if touched.load(Ordering::SeqCst) != before {
        shown = run().0;
    }
    assert_eq!(shown, world.newest(), "the newest state is not shown, and nothing was called");
}

#[test]
fn a_cache_holds_the_newest_state_at_rest() {
    explore(|| fill(Publishes::AfterCommit, false));
}

#[test]
fn a_cache_holds_the_newest_state_at_rest_beside_other_instances() {
    explore(|| fill(Publishes::AfterCommit, true));
}

#[test]
fn a_watch_misses_no_change() {
    explore(|| watch(Publishes::AfterCommit, false));
}

#[test]
fn a_watch_misses_no_change_beside_other_instances() {
    explore(|| watch(Publishes::AfterCommit, true));
}

#[test]
#[should_panic(expected = "is cached")]
fn a_publication_before_the_commit_is_found_by_a_cache() {
    explore(|| fill(Publishes::BeforeCommit, false));
}

#[test]
#[should_panic(expected = "nothing was called")]
fn a_publication_before_the_commit_is_found_by_a_watch() {
    explore(|| watch(Publishes::BeforeCommit, false));
}
