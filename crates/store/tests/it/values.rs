//! Values go in and come out the same on every database.

use crate::support::Database;
use store::{Error, Sql, Value, args, sql};

on_each_database!(
    every_kind_of_value_comes_back_as_it_went_in,
    counts_sums_and_constants_are_numbers,
    text_is_ordered_by_its_bytes,
    wrong_arguments_and_types_are_errors_not_panics,
    statements_can_be_prepared_without_running,
);

static PUT: Sql = sql("INSERT INTO samples (number, fraction, text, bytes) VALUES (?1, ?2, ?3, ?4)");
static ALL: Sql = sql("SELECT number, fraction, text, bytes FROM samples ORDER BY number");

type Sample = (Option<i64>, bool, Option<String>, Option<Vec<u8>>);

async fn every_kind_of_value_comes_back_as_it_went_in(database: Database) {
    let test = database.open();
    let put = test.store.write("sample.put", |tx| {
        tx.exec(&PUT, args![i64::MIN, Value::Null, "", &[0_u8; 0]])?;
        tx.exec(&PUT, args![0, 0.1, "Zoë 'quoted'\n", &[0_u8, 255]])?;
        tx.exec(&PUT, &[Value::Int(i64::MAX), Value::Int(2), Value::Null, Value::Null])
    });
    assert_eq!(put.await.map_err(|error: Error| error).expect("writes"), 1);
    let rows = test.store.read(|snapshot| {
        snapshot.all(&ALL, args![], |row| {
            let real: Option<f64> = row.get(1)?;
            Ok::<Sample, _>((row.get(0)?, real == Some(0.1), row.get(2)?, row.get(3)?))
        })
    });
    let expected: Vec<Sample> = vec![
        (Some(i64::MIN), false, Some(String::new()), Some(vec![])),
        (Some(0), true, Some("Zoë 'quoted'\n".to_owned()), Some(vec![0, 255])),
        (Some(i64::MAX), false, None, None),
    ];
    assert_eq!(rows.await.map_err(|error: Error| error).expect("reads"), expected);
}

async fn counts_sums_and_constants_are_numbers(database: Database) {
    let test = database.open();
    for number in [5_i64, 7, 30] {
        let id = format!("n{number}");
        test.add(&id, "ada", &id).await.expect("writes");
        let put = test.store.write("sample.put", move |tx| {
            tx.exec(&PUT, args![number, Value::Null, Value::Null, Value::Null])
        });
        put.await.map_err(|error: Error| error).expect("writes");
    }
    static NUMBERS: Sql = sql("SELECT COUNT(*), SUM(number), MAX(number), 1, AVG(number) FROM samples");
    let read = test.store.read(|snapshot| {
        snapshot.one(&NUMBERS, args![], |row| {
            let average: f64 = row.get(4)?;
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, average == 14.0))
        })
    });
    let numbers: Option<(i64, i64, i64, bool, bool)> =
        read.await.map_err(|error: Error| error).expect("reads");
    assert_eq!(numbers, Some((3, 42, 30, true, true)));
}

async fn text_is_ordered_by_its_bytes(database: Database) {
    let test = database.open();
    for id in ["b", "a", "B", "é", "_", "a "] {
        test.add(id, "ada", id).await.expect("writes");
    }
    let ids = test.store.read(|snapshot| {
        snapshot.all(&sql("SELECT id FROM notes ORDER BY id"), args![], |row| row.get::<String>(0))
    });
    assert_eq!(ids.await.map_err(|error: Error| error).expect("reads"), ["B", "_", "a", "a ", "b", "é"]);
}

async fn wrong_arguments_and_types_are_errors_not_panics(database: Database) {
    static BODY: Sql = sql("SELECT body FROM notes WHERE id = ?1");
    let test = database.open();
    test.add("n", "ada", "hello").await.expect("writes");
    let few: Result<Option<String>, Error> =
        test.store.point(|snapshot| snapshot.one(&BODY, args![], |row| row.get(0))).await;
    assert!(matches!(few, Err(Error::Database(_))), "{few:?}");
    let number: Result<Option<i64>, Error> =
        test.store.point(|snapshot| snapshot.one(&BODY, args!["n"], |row| row.get(0))).await;
    assert!(matches!(number, Err(Error::WrongType { column: 0, .. })), "{number:?}");
    let far: Result<Option<String>, Error> =
        test.store.point(|snapshot| snapshot.one(&BODY, args!["n"], |row| row.get(7))).await;
    assert!(matches!(far, Err(Error::Database(_))), "{far:?}");
    static INSERT_BY_READER: Sql = sql("INSERT INTO notes (id, owner, body) VALUES ('x', 'x', 'x')");
    let write: Result<Option<i64>, Error> =
        test.store.point(|snapshot| snapshot.one(&INSERT_BY_READER, args![], |row| row.get(0))).await;
    assert!(write.is_err(), "readers cannot write: {write:?}");
    assert_eq!(test.body("n").await.as_deref(), Some("hello"), "readers go on");
}

async fn statements_can_be_prepared_without_running(database: Database) {
    let test = database.open();
    test.store.prepare(&crate::support::INSERT).expect("a good statement");
    let wrong = test.store.prepare(&sql("SELECT nothing FROM notes")).expect_err("no such column");
    assert!(wrong.to_string().contains("nothing FROM notes"), "it says which: {wrong}");
    test.store.prepare(&crate::support::BODY).expect("another good one, after a bad one");
    assert_eq!(test.count().await, 0);
}
