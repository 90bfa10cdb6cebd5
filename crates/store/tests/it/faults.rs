//! What happens when the world is not kind, on every database: overload, a schema from the future.

use crate::support::Database;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Error, Migration, Options, Store};

on_each_database!(
    overload_is_refused_at_once_and_what_was_accepted_is_done_in_time,
    a_schema_from_a_newer_program_is_refused,
    migrations_that_would_be_left_out_are_refused,
);

async fn overload_is_refused_at_once_and_what_was_accepted_is_done_in_time(database: Database) {
    let test = Arc::new(database.open_with(|options| {
        options.check = false;
        // Eight at a time, as in a batch, and two for the time that the rest takes.
        options.writers = 10;
        options.writer.deadline = Duration::from_secs(1);
        options.writer.commit_delay = Duration::from_millis(20);
        options.writer.batch_max = 8;
    }));
    // About 400 commands a second go through; 1,200 come, for three seconds.
    let mut jobs = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for number in 0..3600 {
        if number % 12 == 0 {
            ticks.tick().await;
        }
        let test = test.clone();
        jobs.push(tokio::spawn(async move {
            let began = Instant::now();
            let id = format!("n{number}");
            let result = test.add(&id, "ada", &id).await;
            (began.elapsed(), result)
        }));
    }
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for job in jobs {
        match job.await.expect("joins") {
            (took, Ok(_)) => accepted.push(took),
            (took, Err(Error::Overloaded { retry_after })) => {
                assert!(!retry_after.is_zero());
                refused.push(took);
            }
            (_, Err(other)) => panic!("neither done nor refused: {other:?}"),
        }
    }
    accepted.sort();
    refused.sort();
    let within = |list: &[Duration], share: usize| list[list.len() * share / 100];
    let (done, at_once) = (within(&accepted, 99), within(&refused, 90));
    eprintln!("{} accepted p99 {done:?}; {} refused p90 {at_once:?}", accepted.len(), refused.len());
    assert!(accepted.len() > 600 && refused.len() > 600);
    // The deadline of a second is for the start. Where the machine slows down meanwhile, as one that
    // runs other tests does, a few find out only then that they came too late.
    assert!(done < Duration::from_millis(1250), "{done:?}");
    assert!(at_once < Duration::from_millis(50), "{at_once:?}");
}

async fn a_schema_from_a_newer_program_is_refused(database: Database) {
    let test = database.open();
    test.store.close();
    let Err(refused) = Store::open(Options { migrations: &[], ..test.options() }) else { panic!("opened") };
    assert!(matches!(refused, Error::NewerSchema { found: 1, known: 0 }), "{refused:?}");
    assert!(refused.to_string().contains("start the newer program"), "{refused}");
}

async fn migrations_that_would_be_left_out_are_refused(database: Database) {
    const fn migration(number: i64, name: &'static str) -> Migration {
        Migration { number, name, text: "" }
    }
    static CHANGED: &[Migration] = &[migration(1, "notes")];
    static GAP: &[Migration] = &[migration(1, "notes"), migration(3, "topics")];
    static DOUBLE: &[Migration] = &[migration(1, "notes"), migration(1, "topics")];
    static OTHER: &[Migration] = &[migration(1, "boards"), migration(2, "topics")];
    let test = database.open();
    test.store.close();
    for (migrations, said) in [
        (GAP, r#""topics" has the number 3, and is number 2 in the list"#),
        (DOUBLE, r#""topics" has the number 1, and is number 2 in the list"#),
        (OTHER, r#"migration 1 of this database is "notes", and of this program "boards""#),
        (
            CHANGED,
            "migration 1 (notes) was changed after it ran on this database, where \"CREATE TABLE notes",
        ),
    ] {
        let Err(refused) = Store::open(Options { migrations, ..test.options() }) else { panic!("opened") };
        assert!(refused.to_string().contains(said), "{refused}");
    }
}
