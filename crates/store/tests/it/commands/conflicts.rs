//! Commands that decide about the same rows: as if one ran after the other.

use super::patient;
use crate::support::{BODY, Database, TestStore};
use std::sync::Arc;
use std::time::Duration;
use store::{Error, Key, Sql, Time, args, lock, sql};

on_each_database!(
    a_code_is_used_once_however_many_try,
    of_two_that_read_before_they_decide_only_one_can_win,
    many_that_change_the_same_row_all_count,
    a_row_can_be_locked_before_deciding,
);

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
