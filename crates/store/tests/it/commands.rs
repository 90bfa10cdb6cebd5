//! Commands: durable, isolated from each other, as if one after another, refused when late.

use crate::support::{BODY, COUNT, Database, INSERT, TestStore, endless, keep_busy};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{
    Error, Key, Options, Sql, Time, Value, args, insert, insert_if_absent, lock, sql, update, update_if,
    upsert,
};

on_each_database!(
    what_write_acknowledged_is_there_after_a_restart,
    a_unique_constraint_is_reported_by_its_name,
    one_bad_command_in_a_thousand_hurts_nobody_else,
    hot_commands_share_commits_and_each_hears_what_became_of_its_own,
    what_is_not_waited_for_is_known_before_the_answer,
    rows_that_are_written_together_are_those_of_each_command,
    a_command_that_is_refused_costs_few_others_a_transaction,
    a_command_that_is_refused_before_it_wrote_costs_others_nothing,
    a_row_that_is_not_there_is_not_blamed_on_the_commands_after_it,
    commands_that_all_change_a_few_rows_still_share_transactions,
    a_command_that_is_too_slow_costs_the_others_nothing,
    a_slow_command_does_not_refuse_those_that_share_its_transaction,
    a_statement_that_failed_fails_the_command_that_ignores_it,
    a_statement_that_writes_is_not_run_as_a_query,
    a_command_that_waited_too_long_is_not_started,
    a_command_whose_caller_has_gone_is_not_started,
    a_command_that_nobody_waits_for_is_done,
    commands_that_nobody_waits_for_leave_room_for_others,
    a_code_is_used_once_however_many_try,
    of_two_that_read_before_they_decide_only_one_can_win,
    many_that_change_the_same_row_all_count,
    a_row_can_be_locked_before_deciding,
    the_helpers_say_the_same_on_every_database,
    a_query_that_panics_is_an_error,
    a_closed_store_says_so,
);

async fn what_write_acknowledged_is_there_after_a_restart(database: Database) {
    let test = database.open();
    test.add("n1", "ada", "hello").await.expect("writes");
    assert_eq!(test.body("n1").await.as_deref(), Some("hello"), "read your writes");
    let test = test.reopen();
    assert_eq!(test.body("n1").await.as_deref(), Some("hello"));
}

async fn a_unique_constraint_is_reported_by_its_name(database: Database) {
    let test = database.open();
    test.add("n1", "ada", "hello").await.expect("writes");
    let twice = test.add("n2", "ada", "hello").await.expect_err("same body");
    assert_eq!(twice.conflict(), Some("notes_body"), "{twice:?}");
    assert!(matches!(&twice, Error::Conflict { table, .. } if table == "notes"), "{twice:?}");
    let twice = test.add("n1", "ada", "other").await.expect_err("same id");
    assert_eq!(twice.conflict(), Some("notes_pkey"), "{twice:?}");
}

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

async fn a_statement_that_failed_fails_the_command_that_ignores_it(database: Database) {
    // PostgreSQL has lost the transaction by then; on SQLite it would go on.
    let test = database.open();
    test.add("n", "ada", "hello").await.expect("writes");
    let ignored = test.store.write("note.ignore", |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&INSERT, args!["before", "ada", "before"])?;
        let _ = tx.exec(&INSERT, args!["n", "ada", "again"]);
        Ok(())
    });
    let error: Error = ignored.await.expect_err("its insert failed");
    assert_eq!(error.conflict(), Some("notes_pkey"), "{error:?}");
    assert_eq!(test.body("before").await, None);
    let own = test.store.write("note.refuse", |tx| {
        tx.changed(Key::table("notes"));
        let _ = tx.exec(&INSERT, args!["n", "ada", "again"]);
        Err::<(), _>(Error::Database("its own words".to_owned()))
    });
    assert_eq!(own.await.expect_err("fails").to_string(), "database: its own words");
}

async fn a_statement_that_writes_is_not_run_as_a_query(database: Database) {
    static TAKE: Sql = sql("UPDATE notes SET used_at = 1 WHERE id = ?1 RETURNING owner");
    static TAKE_WITH: Sql = sql("WITH taken AS (UPDATE notes SET used_at = 1 WHERE id = ?1 RETURNING owner)
         SELECT owner FROM taken");
    static READ_WITH: Sql =
        sql("WITH last_update AS (SELECT owner FROM notes WHERE id = ?1) SELECT owner FROM last_update");
    let test = database.open();
    test.add("n", "ada", "hello").await.expect("writes");
    for take in [&TAKE, &TAKE_WITH] {
        let taken = test.store.write_batched("note.take", |tx| {
            tx.changed(Key::table("notes"));
            tx.one(take, args!["n"], |row| row.get::<String>(0))
        });
        let error: Error = taken.await.expect_err("it would not be known that it wrote");
        assert!(error.to_string().contains("exec_one"), "{error}");
    }
    let read = test.store.read(|snapshot| snapshot.one(&READ_WITH, args!["n"], |row| row.get::<String>(0)));
    assert_eq!(read.await.map_err(|error: Error| error).expect("reads").as_deref(), Some("ada"));
    let used = test.store.read(|snapshot| {
        snapshot.one(&sql("SELECT COUNT(*) FROM notes WHERE used_at = 1"), args![], |row| row.get::<i64>(0))
    });
    assert_eq!(used.await.map_err(|error: Error| error).expect("reads"), Some(0));
}

async fn a_command_that_waited_too_long_is_not_started(database: Database) {
    let test = database.open_with(|options| {
        options.writers = 1;
        options.writer.deadline = Duration::from_millis(200);
    });
    let ran = Arc::new(AtomicUsize::new(0));
    let (hold, busy) = keep_busy(&test).await;
    let counter = ran.clone();
    let abandoned = test.store.write("count", move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Error>(())
    });
    let late =
        tokio::time::timeout(Duration::from_secs(20), abandoned).await.expect("answers by its deadline");
    assert!(matches!(late, Err(Error::Overloaded { .. })), "{late:?}");
    drop(hold);
    busy.await.expect("joins").expect("the first one is done");
    test.add("after", "ada", "after").await.expect("the writer goes on");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

async fn a_command_whose_caller_has_gone_is_not_started(database: Database) {
    let test = database.open_with(|options| options.writers = 1);
    let ran = Arc::new(AtomicUsize::new(0));
    let (hold, busy) = keep_busy(&test).await;
    let (store, counter) = (test.store.clone(), ran.clone());
    let caller = tokio::spawn(async move {
        let counted = store.write("count", move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Error>(())
        });
        counted.await
    });
    while test.store.stats().queue_depth == 0 {
        tokio::task::yield_now().await;
    }
    caller.abort();
    assert!(caller.await.expect_err("aborted").is_cancelled());
    drop(hold);
    busy.await.expect("joins").expect("the first one is done");
    test.add("after", "ada", "after").await.expect("the writer goes on");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

async fn a_command_that_nobody_waits_for_is_done(database: Database) {
    let test = database.open();
    let accepted = test.store.write_later("note.later", |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&INSERT, args!["n", "ada", "later"]).map(|_| ())
    });
    assert!(accepted);
    let test = test.reopen(); // Closing finishes what waits.
    assert_eq!(test.body("n").await.as_deref(), Some("later"));
}

async fn commands_that_nobody_waits_for_leave_room_for_others(database: Database) {
    let test = database.open_with(|options| {
        options.writers = 1;
        options.writer.batch_max = 1;
        options.writer.deadline = Duration::from_secs(4);
        options.writer.commit_delay = Duration::from_millis(20);
    });
    for number in 0..10 {
        test.add(&format!("n{number}"), "ada", &format!("body {number}")).await.expect("writes");
    }
    let (hold, busy) = keep_busy(&test).await;
    let later = || test.store.write_later("note.later", |_| Ok::<_, Error>(()));
    let accepted = (0..5_000).filter(|_| later()).count();
    assert!(
        (1..1_000).contains(&accepted),
        "{accepted} of at least some milliseconds have room in half a second"
    );
    let added = test.add("after", "ada", "after");
    drop(hold);
    added.await.expect("a command that somebody waits for has more room");
    busy.await.expect("joins").expect("the first one is done");
}

async fn a_code_is_used_once_however_many_try(database: Database) {
    let test = Arc::new(patient(database));
    test.add("code", "ada", "code").await.expect("writes");
    static USE: Sql = sql("UPDATE notes SET used_at = ?2 WHERE id = ?1 AND used_at IS NULL");
    let tries = (0..100).map(|moment| {
        let test = test.clone();
        tokio::spawn(async move {
            let used = test.store.write("note.use", move |tx| {
                tx.changed(Key::row("notes", "id", "code"));
                tx.exec(&USE, args!["code", Time::from_millis(moment)])
            });
            used.await.map_err(|error: Error| error).expect("runs")
        })
    });
    let mut winners = 0;
    for attempt in tries.collect::<Vec<_>>() {
        winners += attempt.await.expect("joins");
    }
    assert_eq!(winners, 1);
}

/// Takes `who` off duty unless nobody else of `ward` would be left.
async fn leave(database: Database, test: &TestStore, ward: String, who: String) -> bool {
    static WARD: Sql = lock("notes", "owner");
    static ON_DUTY: Sql = sql("SELECT COUNT(*) FROM notes WHERE owner = ?1 AND used_at IS NULL");
    static LEAVE: Sql = sql("UPDATE notes SET used_at = 1 WHERE id = ?1");
    let left = test.store.write("duty.leave", move |tx| {
        // Where commands are not serializable by themselves, they must take what they decide about.
        if database == Database::Mysql {
            tx.lock(&WARD, (&ward).into())?;
        }
        let on_duty: Option<i64> = tx.one(&ON_DUTY, args![&ward], |row| row.get(0))?;
        // Long enough for the other one to look as well, where two can look at once.
        std::thread::park_timeout(Duration::from_millis(20));
        if on_duty < Some(2) {
            return Ok(false);
        }
        tx.changed(Key::row("notes", "id", &who));
        Ok(tx.exec(&LEAVE, args![&who])? == 1)
    });
    left.await.map_err(|error: Error| error).expect("runs")
}

async fn of_two_that_read_before_they_decide_only_one_can_win(database: Database) {
    let test = patient(database);
    for round in 0..5 {
        let ward = format!("ward {round}");
        let (ada, bob) = (format!("ada {round}"), format!("bob {round}"));
        test.add(&ada, &ward, &ada).await.expect("writes");
        test.add(&bob, &ward, &bob).await.expect("writes");
        let (one, two) =
            tokio::join!(leave(database, &test, ward.clone(), ada), leave(database, &test, ward, bob));
        assert!(one != two, "one leaves and one stays: {one} {two}");
    }
    let retried = test.store.stats().retried;
    assert_eq!(retried > 0, database == Database::Postgres, "{retried} met another one and ran again");
}

async fn many_that_change_the_same_row_all_count(database: Database) {
    static READ: Sql = sql("SELECT used_at FROM notes WHERE id = ?1");
    static SET: Sql = sql("UPDATE notes SET used_at = ?2 WHERE id = ?1");
    static LOCK: Sql = lock("notes", "id");
    let test = Arc::new(database.open_with(|options| {
        options.writers = 8;
    }));
    test.add("counter", "ada", "counter").await.expect("writes");
    let jobs = (0..500).map(|_| {
        let test = test.clone();
        tokio::spawn(async move {
            let counted = test.store.write("note.count", move |tx| {
                tx.changed(Key::row("notes", "id", "counter"));
                if database == Database::Mysql {
                    tx.lock(&LOCK, "counter".into())?;
                }
                let count = tx.one(&READ, args!["counter"], |row| row.get::<Option<i64>>(0))?;
                tx.exec(&SET, args!["counter", count.flatten().unwrap_or(0) + 1])
            });
            counted.await.map_err(|error: Error| error).expect("runs")
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.expect("joins");
    }
    let read = test.store.point(|snapshot| snapshot.one(&READ, args!["counter"], |row| row.get::<i64>(0)));
    assert_eq!(read.await.map_err(|error: Error| error).expect("reads"), Some(500));
}

async fn a_row_can_be_locked_before_deciding(database: Database) {
    static LOCK: Sql = lock("notes", "id");
    let test = database.open();
    test.add("n", "ada", "hello").await.expect("writes");
    let locked = test.store.write("note.lock", |tx| {
        tx.lock(&LOCK, "n".into())?;
        tx.one(&BODY, args!["n"], |row| row.get::<String>(0))
    });
    assert_eq!(locked.await.map_err(|error: Error| error).expect("runs").as_deref(), Some("hello"));
}

async fn the_helpers_say_the_same_on_every_database(database: Database) {
    let test = database.open();
    static PUT: Sql = upsert("notes", &["id"], &["owner", "body"]);
    static ADD: Sql = insert_if_absent("notes", &["id", "owner", "body"]);
    static TOUCH: Sql =
        sql("UPDATE notes SET used_at = ?2 WHERE used_at IS NULL OR used_at < ?1 OR used_at = ?2");
    let counts = test.store.write("note.put", |tx| {
        tx.changed(Key::table("notes"));
        let first = tx.exec(&PUT, args!["n", "ada", "one"])?;
        let second = tx.exec(&PUT, args!["n", "ada", "two"])?;
        let same = tx.exec(&PUT, args!["n", "ada", "two"])?;
        let third = tx.exec(&ADD, args!["n", "ada", "three"])?;
        let fourth = tx.exec(&ADD, args!["m", "ada", "two"])?;
        let fifth = tx.exec(&ADD, args!["m", "ada", "three"])?;
        let touched = tx.exec(&TOUCH, args![2, 1])? + tx.exec(&TOUCH, args![2, 1])?;
        Ok::<_, Error>(([first, second, same], [third, fourth, fifth], touched))
    });
    assert_eq!(counts.await.expect("runs"), ([1, 1, 1], [0, 0, 1], 4), "rows that match, changed or not");
    assert_eq!(test.body("n").await.as_deref(), Some("two"));
}

async fn a_query_that_panics_is_an_error(database: Database) {
    fn panics(_: &mut store::Snapshot<'_>) -> Result<(), Error> {
        std::panic::resume_unwind(Box::new("on purpose"))
    }
    let test = database.open();
    let (point, read) = (test.store.point(panics).await, test.store.read(panics).await);
    assert!(matches!(point, Err(Error::Panicked { .. })), "{point:?}");
    assert!(matches!(read, Err(Error::Panicked { .. })), "{read:?}");
    assert_eq!(test.count().await, 0);
}

async fn a_closed_store_says_so(database: Database) {
    let test = database.open();
    test.add("n", "ada", "in time").await.expect("writes");
    assert_eq!(test.body("n").await.as_deref(), Some("in time"));
    test.store.close();
    let late = test.add("m", "ada", "late").await;
    assert!(matches!(late, Err(Error::Stopped)), "{late:?}");
    let read: Result<Option<i64>, Error> =
        test.store.read(|snapshot| snapshot.one(&COUNT, args![], |row| row.get(0))).await;
    assert!(matches!(read, Err(Error::Stopped)), "{read:?}");
    let point: Result<Option<i64>, Error> =
        test.store.point(|snapshot| snapshot.one(&COUNT, args![], |row| row.get(0))).await;
    assert!(matches!(point, Err(Error::Stopped)), "{point:?}");
}

/// A store that refuses nobody for being slow: the machine may be busy with other tests.
fn patient(database: Database) -> TestStore {
    patient_with(database, |_| {})
}

fn patient_with(database: Database, change: impl FnOnce(&mut Options)) -> TestStore {
    database.open_with(|options| {
        options.writer.batch_time = Duration::from_secs(5);
        options.writer.deadline = Duration::from_secs(30);
        change(options);
    })
}
