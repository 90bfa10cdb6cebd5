//! Commands that share a transaction: each has the outcome that it would have alone.

use super::{patient, patient_with};
use crate::support::{Database, INSERT, endless, keep_busy};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Error, Key, Sql, Value, args, insert, sql, update, update_if, upsert};

on_each_database!(
    hot_commands_share_commits_and_each_hears_what_became_of_its_own,
    what_is_not_waited_for_is_known_before_the_answer,
    rows_that_are_written_together_are_those_of_each_command,
    commands_that_all_change_a_few_rows_still_share_transactions,
    a_slow_command_does_not_refuse_those_that_share_its_transaction,
);

async fn hot_commands_share_commits_and_each_hears_what_became_of_its_own(database: Database) {
    let test = Arc::new(patient(database));
    let heard = Arc::new(Mutex::new(BTreeSet::new()));
    let ear = heard.clone();
    test.store.on_change(move |change| {
        let names = change.keys.iter().map(|key| key.as_str().to_owned());
        ear.lock().expect("no panic").extend(names);
    });
    test.add("n500", "grace", "in the way").await.expect("writes");
    let jobs = (0..1000).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            let id = format!("n{number}");
            let added = test.store.write_batched("note.add", move |tx| {
                tx.changed(Key::row("notes", "id", &id));
                tx.exec(&INSERT, args![&id, "ada", format!("body {number}")])?;
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
        failed.extend(job.await.expect("joins").err().map(|error| (number, error.conflict().is_some())));
    }
    assert_eq!(failed, [(333, false), (500, true), (666, false)]);
    assert_eq!(test.count().await, 998);
    let stats = test.store.stats();
    assert_eq!((stats.commands, stats.failed), (998, 3));
    assert!(stats.batches < 700, "commits for 998 commands: {}", stats.batches);
    assert_eq!(heard.lock().expect("no panic").len(), 998, "a listener hears of each");
}

async fn what_is_not_waited_for_is_known_before_the_answer(database: Database) {
    static USE: Sql = update_if("notes", "id", &["used_at"], "used_at IS NULL");
    static USED_AT: Sql = sql("SELECT used_at FROM notes WHERE id = ?1");
    static USED: Sql = sql("SELECT COUNT(*) FROM notes WHERE used_at IS NOT NULL");
    let test = Arc::new(patient(database));
    for first in (0..600).step_by(50) {
        let filled = test.store.write("note.fill", move |tx| {
            tx.changed(Key::table("notes"));
            (first..first + 50).try_for_each(|number| {
                tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")]).map(drop)
            })
        });
        filled.await.expect("writes");
    }
    // Each command uses a row of its own. Of 200, one uses a row that is not there, one a row that another one uses, and one
    // adds a row that is there.
    let jobs = (0..600_i64).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            let row = match number % 200 {
                3 => "none".to_owned(),
                50 => format!("n{}", number - 1),
                _ => format!("n{number}"),
            };
            let used = test.store.write_batched("note.use", move |tx| {
                tx.changed(Key::table("notes"));
                if number % 200 == 6 {
                    tx.exec_one(&INSERT, args![&row, "grace", "in the way"])?;
                }
                let is_mine = tx.exec_one(&USE, args![&row, number])?;
                // Every other command waits for an answer.
                let used_at = match number % 2 {
                    0 => tx.one(&USED_AT, args![&row], |row| row.get::<Option<i64>>(0))?.flatten(),
                    _ => is_mine.then_some(number),
                };
                Ok::<_, Error>((is_mine, used_at == Some(number)))
            });
            used.await
        })
    });
    let (mut won, mut lost, mut refused) = (0, 0, 0);
    for (number, job) in jobs.collect::<Vec<_>>().into_iter().enumerate() {
        match job.await.expect("joins") {
            Ok((is_mine, is_written)) => {
                assert_eq!(is_mine, is_written, "command {number} was told what is so");
                assert!(!(is_mine && number % 200 == 3), "command {number} used nothing");
                won += i64::from(is_mine);
                lost += i64::from(!is_mine);
            }
            Err(error) => {
                assert_eq!((error.conflict(), number % 200), (Some("notes_pkey"), 6), "{error:?}");
                refused += 1;
            }
        }
    }
    assert_eq!((won, lost, refused), (591, 6, 3), "each row was used once");
    let used = test.store.read(|snapshot| snapshot.one(&USED, args![], |row| row.get::<i64>(0)));
    assert_eq!(used.await.expect("reads"), Some(591));
    let commits = test.store.stats().batches;
    assert!(commits < 594, "{commits} commits for 594 commands: some shared one");
}

async fn rows_that_are_written_together_are_those_of_each_command(database: Database) {
    static PUT: Sql = insert("samples", &[&["number", "fraction", "text", "bytes"]]);
    static SET: Sql = update("notes", "id", &["owner", "used_at"]);
    static NOTES: Sql = sql("SELECT id, owner, body, used_at FROM notes ORDER BY used_at");
    static PUT_NOTE: Sql = upsert("notes", &["id"], &["owner", "body"]);
    static ALL: Sql =
        sql("SELECT number, CASE WHEN fraction = 0.5 THEN 1 END, text, bytes FROM samples ORDER BY number");
    type Sample = (i64, Option<i64>, Option<String>, Option<Vec<u8>>);
    fn sample(number: i64) -> Sample {
        let fraction = (number % 3 > 0).then_some(1);
        let text = (number % 5 > 0).then(|| format!("{{\"{number},\\ä'NULL"));
        (number, fraction, text, (number % 7 > 0).then(|| vec![0, b'\\', 0xff]))
    }
    let test = Arc::new(patient(database));
    let all = test.store.clone();
    let all = async || {
        let read = all.read(|snapshot| {
            snapshot.all(&ALL, args![], |row| {
                Ok::<Sample, Error>((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
        });
        read.await.expect("reads")
    };
    let store = test.store.clone();
    let run = async |sql: &'static Sql, args_of: fn(i64) -> Vec<Value<'static>>| {
        let jobs = (0..600).map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let written = store.write_batched("sample.write", move |tx| {
                    tx.changed(Key::table("samples"));
                    tx.changed(Key::table("notes"));
                    tx.exec_one(sql, &args_of(number))
                });
                assert!(written.await.map_err(|error: Error| error).expect("writes"), "command {number}");
            })
        });
        for job in jobs.collect::<Vec<_>>() {
            job.await.expect("joins");
        }
    };
    run(&PUT, |number| {
        let (number, fraction, text, bytes) = sample(number);
        let fraction = fraction.map_or(Value::Null, |_| Value::Real(0.5));
        vec![
            number.into(),
            fraction,
            text.into(),
            bytes.map_or(Value::Null, |bytes| Value::Blob(bytes.into())),
        ]
    })
    .await;
    assert_eq!(all().await, (0..600).map(sample).collect::<Vec<_>>());
    // Twelve commands write each row.
    run(&PUT_NOTE, |number| {
        let row = number % 50;
        vec![format!("n{row}").into(), "ada".into(), format!("{row} by {number}").into()]
    })
    .await;
    run(&SET, |number| {
        vec![format!("n{}", number % 50).into(), format!("by {number}").into(), (number % 50).into()]
    })
    .await;
    let notes = test.store.read(|snapshot| {
        snapshot
            .all(&NOTES, args![], |row| Ok::<_, Error>((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
    });
    let notes: Vec<(String, String, String, i64)> = notes.await.expect("reads");
    assert_eq!(notes.len(), 50);
    let writer_of = |text: &str| text.rsplit(' ').next().and_then(|number| number.parse::<i64>().ok());
    for (row, (id, owner, body, used_at)) in (0..).zip(notes) {
        assert_eq!((id, used_at), (format!("n{row}"), row));
        assert!(body.starts_with(&format!("{row} by ")), "{body}");
        for by in [owner, body] {
            assert_eq!(writer_of(&by).map(|number| number % 50), Some(row), "{by}");
        }
    }
    let commits = test.store.stats().batches;
    assert!(commits < 1_800, "{commits} commits for 1,800 commands: some shared one");
}

async fn commands_that_all_change_a_few_rows_still_share_transactions(database: Database) {
    static USE: Sql = sql("UPDATE notes SET used_at = COALESCE(used_at, 0) + 1 WHERE id = ?1");
    static USES: Sql = sql("SELECT COALESCE(used_at, 0) FROM notes WHERE owner = ?1");
    // So that transactions overlap.
    let test = patient_with(database, |options| options.writer.commit_delay = Duration::from_millis(5));
    for (rows, owner) in [(1, "one"), (20, "many")] {
        for row in 0..rows {
            test.add(&format!("{owner}{row}"), owner, &format!("{owner} {row}")).await.expect("writes");
        }
        let before = test.store.stats().batches;
        let jobs = (0..960_u64).map(|number| {
            let store = test.store.clone();
            tokio::spawn(async move {
                // Each batch in another order.
                let row = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
                let used = store.write_batched("note.use", move |tx| {
                    tx.changed(Key::table("notes"));
                    tx.exec_one(&USE, args![format!("{owner}{}", row % rows)])
                });
                used.await.map_err(|error: Error| error)
            })
        });
        for job in jobs.collect::<Vec<_>>() {
            assert!(job.await.expect("joins").expect("writes"));
        }
        let uses =
            test.store.read(move |snapshot| snapshot.all(&USES, args![owner], |row| row.get::<i64>(0)));
        assert_eq!(uses.await.map_err(|error: Error| error).expect("reads").iter().sum::<i64>(), 960);
        let commits = test.store.stats().batches - before;
        assert!(commits <= 120, "{commits} commits for 960 commands on {rows} rows; 64 share one");
    }
}

async fn a_slow_command_does_not_refuse_those_that_share_its_transaction(database: Database) {
    // With the times that servers have: on a database server the slow one uses the deadline up twice.
    let test = database.open_with(|options| {
        options.writers = 1;
        options.writer.deadline = Duration::from_secs(1);
        options.writer.command_time = Duration::from_millis(100);
    });
    let (hold, busy) = keep_busy(&test).await;
    let jobs = (0..64).map(|number| {
        let store = test.store.clone();
        tokio::spawn(async move {
            let added = store.write_batched("note.add", move |tx| {
                tx.changed(Key::table("notes"));
                if number == 5 {
                    return tx.exec(endless(database), args![]).map(|_| true);
                }
                tx.exec_one(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])
            });
            added.await
        })
    });
    let jobs: Vec<_> = jobs.collect();
    while test.store.stats().queue_depth < 64 {
        tokio::task::yield_now().await;
    }
    drop(hold);
    busy.await.expect("joins").expect("is done");
    for (number, job) in jobs.into_iter().enumerate() {
        let added: Result<bool, Error> = job.await.expect("joins");
        match added {
            Err(Error::TooSlow { .. }) if number == 5 => {}
            added => assert!(number != 5 && added.as_ref().is_ok_and(|added| *added), "{number}: {added:?}"),
        }
    }
}
