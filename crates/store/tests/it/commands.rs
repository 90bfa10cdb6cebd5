//! Commands: durable, isolated from each other, in order, refused when late.

use crate::support::{BODY, COUNT, INSERT, TestStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use store::{Error, Key, Time, args, insert_if_absent, sql, upsert};

#[tokio::test]
async fn what_write_acknowledged_is_there_after_a_restart() {
    let test = TestStore::open();
    test.add("n1", "ada", "hello").await.expect("writes");
    assert_eq!(test.body("n1").await.as_deref(), Some("hello"), "read your writes");
    let test = test.reopen();
    assert_eq!(test.body("n1").await.as_deref(), Some("hello"));
}

#[tokio::test]
async fn a_unique_constraint_is_reported_by_its_name() {
    let test = TestStore::open();
    test.add("n1", "ada", "hello").await.expect("writes");
    let twice = test.add("n2", "ada", "hello").await.expect_err("same body");
    assert_eq!(twice.conflict(), Some("notes_body"), "{twice:?}");
    let twice = test.add("n1", "ada", "other").await.expect_err("same id");
    assert_eq!(twice.conflict(), Some("notes_pkey"), "{twice:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_command_in_a_thousand_hurts_nobody_else() {
    let test = Arc::new(TestStore::open_with(|options| options.writer.batch_time = Duration::from_secs(5)));
    let jobs = (0..1000).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            test.store
                .write("note.add", move |tx| {
                    tx.changed(Key::table("notes"));
                    tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])?;
                    match number {
                        333 => Err(Error::Database("on purpose".to_owned())),
                        666 => panic!("on purpose"),
                        _ => Ok(()),
                    }
                })
                .await
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_the_transaction_down_costs_its_mates_nothing() {
    let test = Arc::new(TestStore::open_with(|options| options.writer.batch_time = Duration::from_secs(5)));
    static ENDLESS: store::Sql = sql("INSERT INTO notes (id, owner, body)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)
         SELECT 'x', 'x', 'x' FROM n WHERE i < 0");
    let jobs = (0..100).map(|number| {
        let test = test.clone();
        tokio::spawn(async move {
            test.store
                .write("note.add", move |tx| {
                    tx.changed(Key::table("notes"));
                    if number % 50 == 49 {
                        return tx.exec(&ENDLESS, args![]);
                    }
                    tx.exec(&INSERT, args![format!("n{number}"), "ada", format!("body {number}")])
                })
                .await
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
}

#[tokio::test]
async fn a_command_whose_caller_has_gone_is_not_started() {
    let test = TestStore::open();
    let ran = Arc::new(AtomicUsize::new(0));
    let (hold, release) = std::sync::mpsc::channel::<()>();
    let release = std::sync::Mutex::new(release);
    let store = test.store.clone();
    let busy = tokio::spawn(async move {
        let blocked = store.write("block", move |_| {
            let _ = release.lock().map(|release| release.recv());
            Ok::<_, Error>(())
        });
        blocked.await
    });
    tokio::task::yield_now().await;
    let counter = ran.clone();
    let abandoned = test.store.write("count", move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Error>(())
    });
    let late =
        tokio::time::timeout(Duration::from_secs(5), abandoned).await.expect("answers by its deadline");
    assert!(matches!(late, Err(Error::Overloaded { .. })), "{late:?}");
    drop(hold);
    busy.await.expect("joins").expect("the first one is done");
    test.add("after", "ada", "after").await.expect("the writer goes on");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_code_is_used_once_however_many_try() {
    let test = Arc::new(TestStore::open());
    test.add("code", "ada", "code").await.expect("writes");
    static USE: store::Sql = sql("UPDATE notes SET used_at = ?2 WHERE id = ?1 AND used_at IS NULL");
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

#[tokio::test]
async fn the_helpers_say_the_same_on_every_database() {
    let test = TestStore::open();
    static PUT: store::Sql = upsert("notes", &["id"], &["owner", "body"]);
    static ADD: store::Sql = insert_if_absent("notes", &["id", "owner", "body"]);
    let counts = test.store.write("note.put", |tx| {
        tx.changed(Key::table("notes"));
        let first = tx.exec(&PUT, args!["n", "ada", "one"])?;
        let second = tx.exec(&PUT, args!["n", "ada", "two"])?;
        let third = tx.exec(&ADD, args!["n", "ada", "three"])?;
        Ok::<_, Error>((first, second, third))
    });
    assert_eq!(counts.await.expect("runs"), (1, 1, 0));
    assert_eq!(test.body("n").await.as_deref(), Some("two"));
}

#[tokio::test]
async fn wrong_arguments_and_types_are_errors_not_panics() {
    let test = TestStore::open();
    test.add("n", "ada", "hello").await.expect("writes");
    let few: Result<Option<String>, Error> =
        test.store.point(|snapshot| snapshot.one(&BODY, args![], |row| row.get(0))).await;
    assert!(matches!(few, Err(Error::Database(_))), "{few:?}");
    let number: Result<Option<i64>, Error> =
        test.store.point(|snapshot| snapshot.one(&BODY, args!["n"], |row| row.get(0))).await;
    assert!(matches!(number, Err(Error::WrongType { column: 0, .. })), "{number:?}");
    static INSERT_BY_READER: store::Sql = sql("INSERT INTO notes (id, owner, body) VALUES ('x', 'x', 'x')");
    let write: Result<Option<i64>, Error> =
        test.store.point(|snapshot| snapshot.one(&INSERT_BY_READER, args![], |row| row.get(0))).await;
    assert!(write.is_err(), "readers cannot write: {write:?}");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let test = TestStore::open();
    test.store.close();
    let late = test.add("n", "ada", "late").await;
    assert!(matches!(late, Err(Error::Stopped)), "{late:?}");
    let read: Result<Option<i64>, Error> =
        test.store.read(|snapshot| snapshot.one(&COUNT, args![], |row| row.get(0))).await;
    assert!(matches!(read, Err(Error::Stopped)), "{read:?}");
}
