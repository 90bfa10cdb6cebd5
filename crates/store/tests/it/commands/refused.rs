//! A command that is refused or too slow costs the others little.

use super::{patient, patient_with};
use crate::support::{COUNT, Database, INSERT, endless, keep_busy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Error, Key, Sql, args, sql, update, update_if};

on_each_database!(
    one_bad_command_in_a_thousand_hurts_nobody_else,
    a_command_that_is_refused_costs_few_others_a_transaction,
    a_command_that_is_refused_before_it_wrote_costs_others_nothing,
    a_row_that_is_not_there_is_not_blamed_on_the_commands_after_it,
    a_command_that_is_too_slow_costs_the_others_nothing,
);

async fn one_bad_command_in_a_thousand_hurts_nobody_else(database: Database) {
    let test = Arc::new(patient(database));
    let jobs = (0..1000).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            let added = test.store.write("note.add", move |tx| {
                tx.changed(Key::table("notes"));
                tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])?;
                match number {
                    333 => Err(Error::Database("on purpose".to_owned())),
                    666 => std::panic::resume_unwind(Box::new("on purpose")),
                    _ => Ok(()),
                }
            });
            added.await
        })
    });
    let mut failed = Vec::new();
    for (number, job) in jobs.collect::<Vec<_>>().into_iter().enumerate() {
        if let Err(error) = job.await.expect("joins") {
            failed.push((number, error.to_string()));
        }
    }
    let expected = [(333, "database: on purpose"), (666, "command note.add failed unexpectedly")];
    assert_eq!(failed, expected.map(|(number, text)| (number, text.to_owned())));
    assert_eq!(test.count().await, 998);
    assert_eq!(test.body("n333").await, None, "what the failed command wrote is undone");
    assert_eq!((test.store.stats().commands, test.store.stats().failed), (998, 2));
}

async fn a_command_that_is_refused_costs_few_others_a_transaction(database: Database) {
    static USE: Sql = update_if("notes", "id", &["used_at"], "used_at IS NULL");
    static OWNER: Sql = sql("SELECT owner FROM notes WHERE id = ?1");
    let refused = || Error::Database("refused".to_owned());
    let test = patient_with(database, |options| options.writers = 1);
    for first in (0..640).step_by(64) {
        let filled = test.store.write("note.fill", move |tx| {
            tx.changed(Key::table("notes"));
            (first..first + 64).try_for_each(|number| {
                tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")]).map(drop)
            })
        });
        filled.await.expect("writes");
    }
    let before = test.store.stats();
    let (hold, busy) = keep_busy(&test).await;
    // Of 64, one learns from its write that there is no such row; half of the others look first.
    let jobs = (0..640_i64).map(|number| {
        let store = test.store.clone();
        tokio::spawn(async move {
            let is_unknown = number % 64 == 20;
            let looks_first = number % 2 == 1;
            let row = if is_unknown || looks_first { "none".to_owned() } else { format!("n{number}") };
            let used = store.write_batched("note.use", move |tx| {
                tx.changed(Key::table("notes"));
                if looks_first {
                    let owner = tx.one(&OWNER, args![&row], |row| row.get::<String>(0))?;
                    owner.ok_or_else(refused)?;
                }
                if tx.exec_one(&USE, args![&row, number])? { Ok(()) } else { Err(refused()) }
            });
            let is_refused = matches!(used.await, Err(Error::Database(text)) if text == "refused");
            assert_eq!(is_refused, is_unknown || looks_first, "command {number}");
        })
    });
    let jobs: Vec<_> = jobs.collect();
    while test.store.stats().queue_depth < 640 {
        tokio::task::yield_now().await;
    }
    drop(hold);
    busy.await.expect("joins").expect("is done");
    for job in jobs {
        job.await.expect("joins");
    }
    let after = test.store.stats();
    assert_eq!((after.commands - before.commands, after.failed - before.failed), (311, 330));
    let commits = after.batches - before.batches;
    assert!(commits <= 140, "{commits} commits: of ten batches, at most eight parts and eight commands each");
}

async fn a_command_that_is_refused_before_it_wrote_costs_others_nothing(database: Database) {
    let test = patient_with(database, |options| options.writers = 1);
    let runs = Arc::new(AtomicUsize::new(0));
    let (hold, busy) = keep_busy(&test).await;
    let jobs = (0..10).map(|number| {
        let (store, runs) = (test.store.clone(), runs.clone());
        tokio::spawn(async move {
            let added = store.write_batched("note.add", move |tx| {
                runs.fetch_add(1, Ordering::SeqCst);
                tx.changed(Key::table("notes"));
                if number == 5 {
                    return Err(Error::Database("refused".to_owned()));
                }
                tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])
            });
            assert_eq!(added.await.is_err(), number == 5, "command {number}");
        })
    });
    let jobs: Vec<_> = jobs.collect();
    while test.store.stats().queue_depth < 10 {
        tokio::task::yield_now().await;
    }
    drop(hold);
    busy.await.expect("joins").expect("is done");
    for job in jobs {
        job.await.expect("joins");
    }
    assert_eq!((runs.load(Ordering::SeqCst), test.count().await), (10, 9));
}

async fn a_row_that_is_not_there_is_not_blamed_on_the_commands_after_it(database: Database) {
    static SET: Sql = update("notes", "id", &["used_at"]);
    let test = patient_with(database, |options| options.writers = 1);
    test.add("n", "ada", "hello").await.expect("writes");
    let (hold, busy) = keep_busy(&test).await;
    let jobs = (0..64).map(|number| {
        let store = test.store.clone();
        tokio::spawn(async move {
            let set = store.write_batched("note.set", move |tx| {
                tx.changed(Key::table("notes"));
                // Waited for, so it hears of the failure of the command before.
                let count = tx.one(&COUNT, args![], |row| row.get::<i64>(0))?;
                assert_eq!(count, Some(1));
                tx.exec_one(&SET, args![if number == 20 { "none" } else { "n" }, number])
            });
            assert_eq!(set.await.map_err(|error: Error| error).expect("runs"), number != 20);
        })
    });
    let jobs: Vec<_> = jobs.collect();
    while test.store.stats().queue_depth < 64 {
        tokio::task::yield_now().await;
    }
    let before = test.store.stats().batches;
    drop(hold);
    busy.await.expect("joins").expect("is done");
    for job in jobs {
        job.await.expect("joins");
    }
    let commits = test.store.stats().batches - before;
    assert!(commits <= 16, "{commits} commits: seven parts, and the commands of the eighth");
}

async fn a_command_that_is_too_slow_costs_the_others_nothing(database: Database) {
    // On SQLite it takes the transaction of its whole batch down.
    let test = Arc::new(patient(database));
    let jobs = (0..100).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            let added = test.store.write("note.add", move |tx| {
                tx.changed(Key::table("notes"));
                if number % 50 == 49 {
                    return tx.exec(endless(database), args![]);
                }
                tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])
            });
            added.await
        })
    });
    let mut failed = 0;
    for job in jobs.collect::<Vec<_>>() {
        if let Err(error) = job.await.expect("joins") {
            assert!(matches!(error, Error::TooSlow { .. }), "{error:?}");
            failed += 1;
        }
    }
    assert_eq!((failed, test.count().await), (2, 98));
    assert_eq!((test.store.stats().commands, test.store.stats().failed), (98, 2));
}
