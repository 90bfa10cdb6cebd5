//! All caches share one memory: what leaves it, and what stays.

use crate::support::{Database, TestStore};
use proptest::prelude::*;
use std::collections::HashMap;
use store::{Cache, Error, Filled, Key, Time, args};

const NOW: Time = Time::from_millis(1_000);
const MEMORY: usize = 200_000;

fn open() -> TestStore {
    Database::Sqlite.open_with(|options| {
        options.cache_memory = MEMORY;
        options.check = false;
    })
}

/// Caches a number that depends on the note with its name.
fn insert(cache: &Cache<u32, u32>, number: u32) {
    let filled = Filled { value: number, until: Time::NEVER };
    let keys = vec![Key::row("notes", "id", &number.to_string())];
    cache.insert(number, filled, keys, cache.position());
}

fn found(cache: &Cache<u32, u32>, numbers: std::ops::Range<u32>) -> usize {
    numbers.filter(|number| cache.get(number, NOW) == Some(*number)).count()
}

fn used(test: &TestStore) -> usize {
    test.store.cache_stats().iter().map(|stats| stats.bytes as usize).sum()
}

#[tokio::test]
async fn a_scan_leaves_what_is_read_again() {
    let test = open();
    let cache = test.store.cache("numbers");
    for number in 0..200 {
        insert(&cache, number);
        assert_eq!(cache.get(&number, NOW), Some(number));
    }
    for number in 1_000..50_000 {
        insert(&cache, number);
        assert!(used(&test) <= MEMORY);
    }
    let kept = found(&cache, 0..200);
    assert!(kept >= 180, "{kept} of 200");
    assert!(used(&test) > MEMORY * 8 / 10, "the memory is used: {}", used(&test));
}

#[tokio::test]
async fn memory_goes_to_the_cache_whose_entries_are_read_again() {
    let test = open();
    let (scanned, used_again) = (test.store.cache("scanned"), test.store.cache("used again"));
    for number in 0..5_000 {
        insert(&scanned, number);
    }
    let before = scanned.len();
    for round in 0..4 {
        for number in 0..500 {
            if used_again.get(&number, NOW).is_none() {
                insert(&used_again, number);
            }
            insert(&scanned, 10_000 * (round + 1) + number);
        }
    }
    let kept = found(&used_again, 0..500);
    assert!(kept >= 450 && scanned.len() < before - 400, "{kept} of 500, {} of {before}", scanned.len());
    assert!(used(&test) <= MEMORY);
}

#[tokio::test]
async fn an_entry_that_comes_again_soon_after_it_left_stays() {
    let test = open();
    let cache = test.store.cache("numbers");
    for number in 0..3_000 {
        insert(&cache, number);
    }
    // The first ones have left. None is looked up: those that stayed would count as read.
    let gone = 3_000 - cache.len() as u32;
    let last: Vec<u32> = (0..gone).rev().take(100).collect();
    last.iter().for_each(|number| insert(&cache, *number));
    for number in 10_000..40_000 {
        insert(&cache, number);
    }
    let kept = last.iter().filter(|number| cache.get(number, NOW).is_some()).count();
    assert!(kept >= 60, "{kept} of 100");
}

#[tokio::test]
async fn what_has_expired_leaves_however_often_it_was_read() {
    let test = open();
    let cache: Cache<u32, u32> = test.store.cache("numbers");
    let fill = |number: u32, now: Time, until: Time| {
        test.store.fill(&cache, number, now, move |_| Ok::<_, Error>(Some(Filled { value: number, until })))
    };
    for number in 0..300 {
        fill(number, NOW, Time::from_millis(2_000)).await.expect("fills");
        (0..3).for_each(|_| assert!(cache.get(&number, NOW).is_some()));
    }
    let later = Time::from_millis(3_000);
    for number in 1_000..4_000 {
        fill(number, later, Time::NEVER).await.expect("fills");
        assert!(cache.get(&number, later).is_some());
    }
    let kept = found(&cache, 0..300);
    assert!(kept < 30, "{kept} of 300 take memory");
}

#[tokio::test]
async fn what_is_invalidated_gives_its_memory_back() {
    let test = open();
    let cache = test.store.cache("numbers");
    for round in 0..20 {
        (0..500).for_each(|number| insert(&cache, number));
        assert_eq!((cache.len(), found(&cache, 0..500)), (500, 500), "{round}");
        cache.remove(&7);
        assert_eq!((cache.len(), cache.get(&7, NOW)), (499, None));
        touch(&test, Key::row("notes", "id", "8")).await;
        assert_eq!((cache.len(), cache.get(&8, NOW)), (498, None));
        touch(&test, Key::table("notes")).await;
        assert_eq!((cache.len(), used(&test)), (0, 0));
    }
}

async fn touch(test: &TestStore, key: Key) {
    let touched = test.store.write("note.touch", move |tx| {
        tx.changed(key.clone());
        tx.exec(&store::sql("UPDATE notes SET used_at = 1"), args![])
    });
    touched.await.map_err(|error: Error| error).expect("writes");
}

#[tokio::test]
async fn what_is_reserved_is_not_for_caches() {
    let test = open();
    assert_eq!(test.store.reserve_cache_memory(4), MEMORY / 4);
    let cache = test.store.cache("numbers");
    (0..5_000).for_each(|number| insert(&cache, number));
    assert!(used(&test) <= MEMORY * 3 / 4 && used(&test) > MEMORY / 2, "{}", used(&test));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Get(u32),
    Remove(u32),
    Invalidate(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..400_u32;
    prop_oneof![
        6 => number().prop_map(Step::Insert),
        6 => number().prop_map(Step::Get),
        1 => number().prop_map(Step::Remove),
        1 => number().prop_map(Step::Invalidate),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Whatever is done, a cache has what was put there last or nothing, and counts its memory right.
    #[test]
    fn a_cache_returns_the_last_value_or_nothing(steps in prop::collection::vec(step(), 1..1_500)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let test = Database::Sqlite.open_with(|options| {
                options.cache_memory = 30_000;
                options.check = false;
            });
            let caches: [Cache<u32, u32>; 2] = [test.store.cache("even"), test.store.cache("odd")];
            let mut values: HashMap<u32, u32> = HashMap::new();
            for (time, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(number) => {
                        let cache = &caches[(number % 2) as usize];
                        let filled = Filled { value: time, until: Time::NEVER };
                        let key = Key::row("notes", "id", &number.to_string());
                        cache.insert(number, filled, vec![key], cache.position());
                        values.insert(number, time);
                    }
                    Step::Get(number) => {
                        let found = caches[(number % 2) as usize].get(&number, NOW);
                        assert!(found.is_none() || found == values.get(&number).copied());
                    }
                    Step::Remove(number) => {
                        caches[(number % 2) as usize].remove(&number);
                        values.remove(&number);
                    }
                    Step::Invalidate(number) => {
                        touch(&test, Key::row("notes", "id", &number.to_string())).await;
                        values.remove(&number);
                    }
                }
                assert!(used(&test) <= 30_000);
            }
            touch(&test, Key::table("notes")).await;
            assert_eq!((caches[0].len(), caches[1].len(), used(&test)), (0, 0, 0));
        });
    }
}
