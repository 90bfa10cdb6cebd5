//! What the caller of a command or of a query gets, and what is there afterwards.

use crate::support::{COUNT, Database, INSERT};
use store::{Error, Key, Sql, args, insert_if_absent, sql, upsert};

on_each_database!(
    what_write_acknowledged_is_there_after_a_restart,
    a_unique_constraint_is_reported_by_its_name,
    a_statement_that_failed_fails_the_command_that_ignores_it,
    a_statement_that_writes_is_not_run_as_a_query,
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
