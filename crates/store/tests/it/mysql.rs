//! What only MySQL and MariaDB can go through: locks, schemas that commit by themselves, other instances.

use crate::instances::{cached, count_changes, rename, soon};
use crate::support::{BODY, Database, NOTES, TestStore, add};
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::testing::mysql::MysqlClient;
use store::{Cache, Error, Filled, Key, Migration, Options, Sql, Store, Time, args, sql};

/// A store on MySQL; none when the environment names no server.
fn open() -> Option<TestStore> {
    Database::mysql().map(Database::open)
}

#[tokio::test]
async fn every_transaction_has_every_setting() {
    static SETTINGS: Sql = sql("SELECT variable_value FROM information_schema.session_variables
        WHERE variable_name IN ('innodb_lock_wait_timeout', 'max_statement_time', 'sql_mode', 'tx_isolation')
        ORDER BY variable_name");
    let Some(test) = open() else { return };
    if !test.mysql().text("SELECT VERSION()").contains("MariaDB") {
        return; // MySQL has other names for these.
    }
    let command = test.store.write("settings", |tx| tx.all(&SETTINGS, args![], |row| row.get::<String>(0)));
    let command = command.await.map_err(|error: Error| error).expect("runs");
    let mode = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_BACKSLASH_ESCAPES";
    let sorted = |mode: &str| {
        let mut words: Vec<String> = mode.split(',').map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(sorted(&command[2]), sorted(mode));
    assert_eq!([&command[0], &command[1], &command[3]], ["1", "1.500000", "READ-COMMITTED"]);
    let query = test.store.read(|snapshot| snapshot.all(&SETTINGS, args![], |row| row.get::<String>(0)));
    let query = query.await.map_err(|error: Error| error).expect("runs");
    assert_eq!([&query[1], &query[3]], ["5.000000", "REPEATABLE-READ"]);
}

#[tokio::test]
async fn a_row_that_a_foreign_program_locks_gives_a_clear_error() {
    static RENAME: Sql = sql("UPDATE notes SET body = ?2 WHERE id = ?1");
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let mut foreign = test.mysql().connect();
    foreign.run("BEGIN");
    foreign.run("SELECT id FROM notes WHERE id = 'n' FOR UPDATE");
    let rename = || {
        test.store.write("note.rename", |tx| {
            tx.changed(Key::row("notes", "id", "n"));
            tx.exec(&RENAME, args!["n", "two"])
        })
    };
    let refused: Error = rename().await.expect_err("locked");
    assert!(matches!(&refused, Error::Unavailable { what, .. } if what.contains("lock")), "{refused:?}");
    foreign.run("ROLLBACK");
    assert_eq!(rename().await.map_err(|error: Error| error).expect("writes resume"), 1);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_not_cut_off() {
    let Some(test) = open() else { return };
    let long = test.add("n", "ada", &"x".repeat(256)).await.expect_err("too long");
    assert!(matches!(&long, Error::Database(text) if text.contains("'body'")), "{long:?}");
    assert_eq!(test.count().await, 0);
    test.add("n\\", "a'da\\", "\\n").await.expect("a backslash is a letter");
    static SAME: Sql = sql("SELECT '\\n', body FROM notes WHERE owner = ?1");
    let read = test.store.read(|snapshot| {
        snapshot.one(&SAME, args!["a'da\\"], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))
    });
    let (literal, stored) = read.await.map_err(|error: Error| error).expect("reads").expect("a row");
    assert_eq!((literal.as_str(), stored.as_str()), ("\\n", "\\n"));
}

#[tokio::test]
async fn another_instance_hears_of_a_change_and_of_its_own_only_once() {
    let Some(test) = open() else { return };
    test.add("n\n1", "ada", "one").await.expect("writes");
    let other = Store::open(test.options()).expect("opens");
    let cache = other.cache("bodies");
    let heard = count_changes(&other);
    for body in ["two", "three", "four"] {
        cached(&other, &cache, "n\n1").await;
        rename(&test.store, "n\n1", body).await;
        let took = soon("the cache forgets", || cache.is_empty()).await;
        eprintln!("heard after {took:?}");
        assert_eq!(cached(&other, &cache, "n\n1").await.as_deref(), Some(body));
    }
    assert_eq!(heard.load(Ordering::SeqCst), 3);
    add(&other, "m", "ada", "five").await.expect("writes");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(heard.load(Ordering::SeqCst), 4, "what it committed itself it does not hear again");
    other.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_used_once_on_whichever_of_three_instances() {
    static USE: Sql = sql("UPDATE notes SET used_at = ?2 WHERE id = ?1 AND used_at IS NULL");
    let Some(test) = open() else { return };
    let stores: Vec<Store> = (0..3).map(|_| Store::open(test.options()).expect("opens")).collect();
    test.add("code", "ada", "code").await.expect("writes");
    let tries = (0..99).map(|number: usize| {
        let store = stores[number % 3].clone();
        tokio::spawn(async move {
            let used = store.write("note.use", move |tx| {
                tx.changed(Key::row("notes", "id", "code"));
                tx.exec(&USE, args!["code", Time::from_millis(number as i64)])
            });
            used.await.map_err(|error: Error| error).expect("runs")
        })
    });
    let mut winners = 0;
    for attempt in tries.collect::<Vec<_>>() {
        winners += attempt.await.expect("joins");
    }
    assert_eq!(winners, 1);
    stores.iter().for_each(Store::close);
}

#[tokio::test]
async fn writers_that_commit_out_of_order_lose_no_change() {
    let Some(test) = open() else { return };
    test.add("late", "ada", "late").await.expect("writes");
    // One transaction from before the start of the other instance, and one from after it.
    let take = |client: &mut MysqlClient| {
        client.run("BEGIN");
        client.run("INSERT INTO change_log (`keys`) VALUES ('notes.id=late')");
    };
    let (mut first, mut second) = (test.mysql().connect(), test.mysql().connect());
    take(&mut first);
    let other = Store::open(test.options()).expect("opens");
    let cache = other.cache("bodies");
    take(&mut second);
    test.add("n", "ada", "one").await.expect("a larger number, committed before");
    tokio::time::sleep(Duration::from_millis(200)).await;
    for client in [&mut second, &mut first] {
        cached(&other, &cache, "late").await;
        assert_eq!(cache.len(), 1);
        client.run("COMMIT");
        soon("the cache forgets", || cache.is_empty()).await;
    }
    other.close();
}

#[tokio::test]
async fn what_commits_late_is_heard_of_also_after_a_large_gap_of_numbers() {
    let Some(test) = open() else { return };
    test.add("late", "ada", "late").await.expect("writes");
    let mut late = test.mysql().connect();
    late.run("BEGIN");
    late.run("INSERT INTO change_log (`keys`) VALUES ('notes.id=late')");
    test.add("n", "ada", "one").await.expect("a larger number, committed before");
    let heard = count_changes(&test.store);
    for far in [50_000, 100_000] {
        let before = heard.load(Ordering::SeqCst);
        test.mysql().sql(&format!("INSERT INTO change_log (seq, `keys`) VALUES ({far}, 'notes.id=far')"));
        soon("the far number is read", || heard.load(Ordering::SeqCst) > before).await;
    }
    let cache = test.store.cache("bodies");
    cached(&test.store, &cache, "late").await;
    assert_eq!(cache.len(), 1);
    late.run("COMMIT");
    soon("the cache forgets", || cache.is_empty()).await;
}

/// At full length it is held for longer than a number that is missing is believed to be on its way.
#[tokio::test]
async fn soak_a_transaction_that_commits_very_late_is_heard_of() {
    let Some(test) = open() else { return };
    let held = if std::env::var_os("SARSEN_SOAK").is_some() { 25_000 } else { 300 };
    test.add("late", "ada", "late").await.expect("writes");
    let (mut late, mut never) = (test.mysql().connect(), test.mysql().connect());
    for client in [&mut late, &mut never] {
        client.run("BEGIN");
        client.run("INSERT INTO change_log (`keys`) VALUES ('notes.id=late')");
    }
    test.add("n", "ada", "one").await.expect("a larger number, committed before");
    never.run("ROLLBACK");
    tokio::time::sleep(Duration::from_millis(held)).await;
    let cache = test.store.cache("bodies");
    cached(&test.store, &cache, "late").await;
    late.run("COMMIT");
    soon("the cache forgets", || cache.is_empty()).await;
}

#[tokio::test]
async fn keys_are_logged_with_the_change_and_old_ones_removed() {
    let Some(test) = open() else { return };
    test.add("n\n1", "ada", "one").await.expect("writes");
    test.add("n\n1", "ada", "two").await.expect_err("fails");
    let logged = r"SELECT COUNT(*) FROM change_log WHERE `keys` = 'notes.id=n\\n1'";
    assert_eq!(test.mysql().number(logged), 1);
    test.mysql().sql("INSERT INTO change_log (seq, `keys`) VALUES (150000, 'new')");
    let test = test.reopen();
    assert_eq!(test.mysql().number(logged), 0);
    assert!(test.store.version().number() >= 150_001);
}

#[tokio::test]
async fn a_migration_that_was_interrupted_continues() {
    const FIRST: Migration = Migration { number: 1, name: "notes", text: NOTES };
    static BROKEN: &[Migration] = &[
        FIRST,
        Migration {
            number: 2,
            name: "more",
            text: "CREATE TABLE more (id BIGINT);\nCREATE TABLE more_yet (id NOTHING);\n",
        },
    ];
    static MENDED: &[Migration] = &[
        FIRST,
        Migration {
            number: 2,
            name: "more",
            text: "CREATE TABLE more (id BIGINT);\nCREATE TABLE more_yet (id BIGINT);\n",
        },
    ];
    let Some(test) = open() else { return };
    test.store.close();
    let broken = Store::open(Options { migrations: BROKEN, ..test.options() });
    let Err(Error::Open(text)) = broken else { panic!("opened") };
    assert!(text.contains("migration 2 (more)"), "{text}");
    // The first statement would fail if it ran again.
    Store::open(Options { migrations: MENDED, ..test.options() }).expect("continues").close();
    assert_eq!(test.mysql().number("SELECT COUNT(*) FROM more_yet"), 0);
}

#[tokio::test]
async fn a_statement_that_ran_before_the_start_was_killed_is_not_an_error() {
    static CHANGES: &str = "ALTER TABLE notes ADD COLUMN colour {key} NOT NULL DEFAULT 'red';
ALTER TABLE notes ADD INDEX notes_colour (colour);
ALTER TABLE samples DROP COLUMN bytes;
CREATE TABLE more (id {key} NOT NULL PRIMARY KEY) {table};
DROP TABLE more;
";
    static ALL: &[Migration] = &[
        Migration { number: 1, name: "notes", text: NOTES },
        Migration { number: 2, name: "colours", text: CHANGES },
    ];
    for done in 0..5 {
        let Some(test) = open() else { return };
        test.store.close();
        let mysql = test.mysql();
        let statements: Vec<String> = CHANGES
            .split(";\n")
            .map(|statement| statement.replace("{key}", "VARCHAR(64)").replace("{table}", ""))
            .collect();
        for (step, statement) in statements.iter().enumerate().take(done + 1) {
            mysql.sql(statement);
            // The last one ran, and the program was killed before it noted that.
            if step < done {
                mysql.sql(&format!("INSERT INTO sarsen_migration_steps VALUES (2, {step})"));
            }
        }
        Store::open(Options { migrations: ALL, ..test.options() }).expect("continues").close();
        assert_eq!(mysql.number("SELECT COUNT(*) FROM notes WHERE colour = 'red'"), 0, "after {done}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_says_why_but_no_password() {
    let Some(test) = open() else { return };
    let refused = |url: String| {
        let Err(error) = Store::open(Options { url, ..test.options() }) else { panic!("opened") };
        assert!(matches!(error, Error::Open(_)), "{error:?}");
        let text = error.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        text
    };
    let (host, port) = test.mysql().place();
    let name = &test.mysql().name;
    let nobody = refused(format!("mysql://nobody_at_all:hunter2@{host}:{port}/{name}"));
    assert!(nobody.contains("user"), "{nobody}");
    let nowhere = refused(format!("{}_no_such_database", test.mysql().url()));
    assert!(nowhere.contains("no_such_database"), "{nowhere}");
    let nameless = refused(format!("mysql://ada:hunter2@{host}:{port}/"));
    assert!(nameless.contains("names no database"), "{nameless}");
    let closed = refused(format!("mysql://ada:hunter2@127.0.0.1:1/{name}"));
    assert!(closed.contains("check that it runs"), "{closed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cached_is_believed_only_while_the_log_is_read() {
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    for (lag_max, believed) in [(Duration::from_secs(60), true), (Duration::ZERO, false)] {
        let mut options = test.options();
        options.following.lag_max = lag_max;
        let store = Store::open(options).expect("opens");
        let cache: Cache<u8, String> = store.cache("bodies");
        let now = Time::from_millis(1_000);
        let filled = store.fill(&cache, 1, now, |snapshot| {
            let body: Option<String> = snapshot.one(&BODY, args!["n"], |row| row.get(0))?;
            snapshot.depends(|| [Key::row("notes", "id", "n")]);
            Ok::<_, Error>(body.map(|value| Filled { value, until: Time::NEVER }))
        });
        assert_eq!(filled.await.expect("reads").as_deref(), Some("one"));
        assert_eq!(cache.get(&1, now).is_some(), believed, "{lag_max:?}");
        store.close();
    }
}
