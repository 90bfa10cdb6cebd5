//! What happens when the world is not kind, on every database: overload, a schema from the future.

use crate::support::Database;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Error, Options, Store};

on_each_database!(
    overload_is_refused_at_once_and_what_was_accepted_is_done_in_time,
    a_schema_from_a_newer_program_is_refused,
);

async fn overload_is_refused_at_once_and_what_was_accepted_is_done_in_time(database: Database) {
    let test = Arc::new(database.open_with(|options| {
        options.check = false;
        // Eight at a time, as in a batch, and two for the time that the rest takes.
        options.writers = 10;
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
    let p99 = |list: &[Duration]| list[list.len() * 99 / 100];
    eprintln!(
        "{} accepted p99 {:?}; {} refused p99 {:?}",
        accepted.len(),
        p99(&accepted),
        refused.len(),
        p99(&refused)
    );
    assert!(accepted.len() > 600 && refused.len() > 600);
    // The deadline of a second is for the start; tests share their machine.
    assert!(p99(&accepted) < Duration::from_millis(1250), "{:?}", p99(&accepted));
    assert!(p99(&refused) < Duration::from_millis(50), "{:?}", p99(&refused));
}

async fn a_schema_from_a_newer_program_is_refused(database: Database) {
    let test = database.open();
    test.store.close();
    let Err(refused) = Store::open(Options { migrations: &[], ..test.options() }) else { panic!("opened") };
    assert!(matches!(refused, Error::Open(_)), "{refused:?}");
    assert!(refused.to_string().contains("start the newer program"), "{refused}");
}
