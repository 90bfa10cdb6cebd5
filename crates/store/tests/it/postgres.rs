//! What only PostgreSQL can go through: a network, other programs, transactions that meet.

use crate::proxy::{Cut, Proxy};
use crate::support::{BODY, Database, INSERT, MIGRATIONS, TestStore, add};
use postgres::config::Host;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::testing::postgres::{self as cluster, with_client};
use store::{Error, Key, Options, Sql, Store, args, sql};

/// A store on PostgreSQL; none when the environment names no cluster.
fn open() -> Option<TestStore> {
    Database::postgres().map(Database::open)
}

/// A store that reaches its database through a proxy.
fn open_through_proxy(test: &TestStore) -> (Store, Proxy) {
    let config = cluster::config();
    let Some(Host::Tcp(host)) = config.get_hosts().first().cloned() else { panic!("a cluster on TCP") };
    let proxy = Proxy::start(host, config.get_ports().first().copied().unwrap_or(5432));
    let url = test.database().url_at("127.0.0.1", proxy.port);
    let options = Options { url, writers: 1, readers: 1, ..test.options() };
    (Store::open(options).expect("opens"), proxy)
}

#[tokio::test]
async fn every_transaction_has_every_setting() {
    static SETTINGS: Sql = sql("SELECT current_setting('transaction_isolation'),
        current_setting('transaction_read_only'), current_setting('synchronous_commit'),
        current_setting('statement_timeout'), current_setting('lock_timeout')");
    fn read(row: &store::Row<'_>) -> Result<[String; 5], Error> {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
    }
    let Some(test) = open() else { return };
    test.database().sql(format!("ALTER DATABASE {} SET synchronous_commit = off", test.database().name));
    let test = test.reopen();
    let command = test.store.write("settings", |tx| tx.one(&SETTINGS, args![], read));
    let command = command.await.map_err(|error: Error| error).expect("runs").expect("a row");
    assert_eq!(command, ["serializable", "off", "on", "1s", "900ms"]);
    let query = test.store.read(|snapshot| snapshot.one(&SETTINGS, args![], read));
    let query = query.await.map_err(|error: Error| error).expect("runs").expect("a row");
    assert_eq!(query[..2], ["repeatable read", "on"]);
    assert_eq!(query[3], "5s");
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let Some(test) = open() else { return };
    let (store, proxy) = open_through_proxy(&test);
    add(&store, "calm", "ada", "calm").await.expect("writes");
    for (id, cut) in [("arrived", Cut::After), ("lost", Cut::Before), ("again", Cut::After)] {
        proxy.cut_next(cut);
        assert_eq!(add(&store, id, "ada", id).await.expect("the truth is found out"), 1);
        assert_eq!(test.body(id).await.as_deref(), Some(id));
    }
    assert_eq!(store.stats().retried, 1, "only the one that did not arrive ran again");
    assert_eq!(test.database().number("SELECT COUNT(*) FROM change_log"), 4);
}

#[tokio::test]
async fn a_commit_that_cannot_be_looked_up_is_told_so_and_caches_forget() {
    let Some(test) = open() else { return };
    let (store, proxy) = open_through_proxy(&test);
    add(&store, "n", "ada", "one").await.expect("writes");
    let heard = Arc::new(AtomicUsize::new(0));
    let ear = heard.clone();
    store.on_change(move |_| {
        ear.fetch_add(1, Ordering::SeqCst);
    });
    proxy.cut_next(Cut::After);
    proxy.close();
    let error = add(&store, "m", "ada", "two").await.expect_err("nobody knows");
    assert!(matches!(error, Error::OutcomeUnknown), "{error:?}");
    assert!(!error.is_temporary(), "it must not be tried again blindly");
    assert!(heard.load(Ordering::SeqCst) >= 1, "it may have happened");
    proxy.open();
    resumes(&store, "after").await;
}

/// Writes as soon as the server is asked again, which is within a fraction of a second.
async fn resumes(store: &Store, id: &str) {
    let began = Instant::now();
    while let Err(error) = add(store, id, "ada", id).await {
        assert!(matches!(&error, Error::Unavailable { .. }), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "it is asked again soon");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn lost_connections_are_opened_again_between_and_inside_transactions() {
    let Some(test) = open() else { return };
    let (store, proxy) = open_through_proxy(&test);
    add(&store, "before", "ada", "before").await.expect("writes");
    proxy.cut_all();
    add(&store, "between", "ada", "between").await.expect("a new connection");
    let runs = Arc::new(AtomicUsize::new(0));
    let (counter, proxy) = (runs.clone(), Arc::new(proxy));
    let cutter = proxy.clone();
    let inside = store.write("note.add", move |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&INSERT, args!["inside", "ada", "inside"])?;
        if counter.fetch_add(1, Ordering::SeqCst) == 0 {
            cutter.cut_all();
        }
        // What the command makes of the lost connection does not matter.
        Ok::<_, Error>(tx.one(&BODY, args!["before"], |row| row.get::<String>(0)).is_ok())
    });
    assert!(inside.await.expect("runs again"));
    assert_eq!((runs.load(Ordering::SeqCst), test.count().await), (2, 3));
    proxy.cut_all();
    let read = store.read(|snapshot| snapshot.one(&BODY, args!["inside"], |row| row.get::<String>(0)));
    assert_eq!(read.await.map_err(|error: Error| error).expect("reads").as_deref(), Some("inside"));
}

#[tokio::test]
async fn a_server_that_is_away_is_said_and_waited_for() {
    let Some(test) = open() else { return };
    let (store, proxy) = open_through_proxy(&test);
    proxy.close();
    proxy.cut_all();
    let began = Instant::now();
    let refused = add(&store, "n", "ada", "n").await.expect_err("away");
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(refused.is_temporary() && began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // A server that has been away for a while holds nobody up, and not what nobody waits for either.
    for _ in 0..100 {
        assert!(store.write_later("note.later", |_| Ok(())));
    }
    let began = Instant::now();
    let refused = add(&store, "n", "ada", "n").await.expect_err("still away");
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    proxy.open();
    resumes(&store, "n").await;
    // One that has just gone is waited for.
    proxy.close();
    proxy.cut_all();
    let waits = tokio::spawn({
        let store = store.clone();
        async move { add(&store, "m", "ada", "m").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.open();
    waits.await.expect("joins").expect("it came back in time");
}

#[tokio::test]
async fn what_another_one_spoilt_runs_again_even_when_the_command_hides_it() {
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let database = test.database().config();
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let renamed = test.store.write("note.rename", move |tx| {
        static RENAME: Sql = sql("UPDATE notes SET body = ?2 WHERE id = ?1");
        tx.changed(Key::row("notes", "id", "n"));
        let seen: Option<String> = tx.one(&BODY, args!["n"], |row| row.get(0))?;
        if counter.fetch_add(1, Ordering::SeqCst) == 0 {
            with_client(database.clone(), |client| {
                client.batch_execute("UPDATE notes SET body = 'foreign' WHERE id = 'n'").expect("updates");
            });
        }
        let body = format!("{} and two", seen.unwrap_or_default());
        Ok::<_, Error>(tx.exec(&RENAME, args!["n", &body]).unwrap_or(0))
    });
    assert_eq!(renamed.await.expect("runs"), 1);
    assert_eq!(test.body("n").await.as_deref(), Some("foreign and two"));
    assert_eq!((runs.load(Ordering::SeqCst), test.store.stats().retried), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_resolved_by_running_one_again() {
    static TOUCH: Sql = sql("UPDATE notes SET used_at = 1 WHERE id = ?1");
    let Some(test) = open() else { return };
    test.database().sql(format!("ALTER DATABASE {} SET deadlock_timeout = '20ms'", test.database().name));
    let test = test.reopen();
    test.add("a", "ada", "a").await.expect("writes");
    test.add("b", "ada", "b").await.expect("writes");
    let touch = |first: &'static str, second: &'static str| {
        test.store.write("note.touch", move |tx| {
            tx.changed(Key::table("notes"));
            tx.exec(&TOUCH, args![first])?;
            std::thread::park_timeout(Duration::from_millis(50));
            tx.exec(&TOUCH, args![second])
        })
    };
    let (one, two) = tokio::join!(touch("a", "b"), touch("b", "a"));
    assert_eq!((one.map_err(|error: Error| error).expect("runs"), two.expect("runs")), (1, 1));
    assert!(test.store.stats().retried > 0);
}

#[tokio::test]
async fn a_row_that_a_foreign_program_locks_gives_a_clear_error() {
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let (config, store) = (test.database().config(), test.store.clone());
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let foreign = std::thread::spawn(move || {
        with_client(config, move |client| {
            client.batch_execute("BEGIN; LOCK TABLE notes IN EXCLUSIVE MODE").expect("locks");
            locked.send(()).expect("the test waits");
            let _ = is_done.recv();
        });
    });
    is_locked.recv().expect("locks");
    let refused = add(&store, "m", "ada", "two").await.expect_err("locked");
    assert!(matches!(&refused, Error::Unavailable { what, .. } if what.contains("lock")), "{refused:?}");
    drop(done);
    foreign.join().expect("ends");
    add(&store, "m", "ada", "two").await.expect("writes resume");
}

#[tokio::test]
async fn a_read_only_database_is_said_and_reads_go_on() {
    let Some(test) = open() else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let name = test.database().name.clone();
    test.database().sql(format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    test.database().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let refused = test.add("m", "ada", "two").await.expect_err("read-only");
    assert!(
        matches!(&refused, Error::Unavailable { what, .. } if what.contains("cannot be written")),
        "{refused:?}"
    );
    assert_eq!(test.body("n").await.as_deref(), Some("one"));
}

#[tokio::test]
async fn keys_are_logged_with_the_change_and_old_ones_removed() {
    let Some(database) = Database::postgres() else { return };
    let test = database.open_with(|options| options.following.kept = Duration::from_millis(200));
    test.add("n\n1", "ada", "one").await.expect("writes");
    test.add("n\n1", "ada", "two").await.expect_err("fails");
    assert_eq!(test.database().number("SELECT COUNT(*) FROM change_log"), 1);
    let logged = r"SELECT COUNT(*) FROM change_log WHERE keys = 'notes.id=n\n1' AND xid IS NOT NULL";
    assert_eq!(test.database().number(logged), 1);
    // More than one slice. Who commits cuts.
    test.database().sql("INSERT INTO change_log (keys) SELECT 'old' FROM generate_series(1, 12000)");
    let began = Instant::now();
    let mut number = 0;
    while test.database().number("SELECT COUNT(*) FROM change_log WHERE keys = 'old'") > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "old rows are still there");
        test.add(&format!("m{number}"), "ada", &format!("m{number}")).await.expect("writes");
        number += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(test.database().number("SELECT below FROM change_log_cut") > 0, "who was away finds out");
}

#[tokio::test]
async fn programs_that_start_together_migrate_once() {
    let Some(test) = open() else { return };
    test.database().sql("DROP TABLE notes, samples, sarsen_migrations, change_log, change_log_cut");
    let starts = (0..4).map(|_| {
        let options = test.options();
        std::thread::spawn(move || Store::open(options).map(|store| store.close()))
    });
    for start in starts.collect::<Vec<_>>() {
        start.join().expect("joins").expect("opens");
    }
    assert_eq!(test.database().number("SELECT COUNT(*) FROM sarsen_migrations"), MIGRATIONS.len() as i64);
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
    let url = test.database().url();
    let place = url.rsplit_once('@').map_or(url.as_str(), |(_, place)| place);
    let (_, port_and_name) = place.split_once(':').expect("host:port/name");
    let nobody = refused(format!("postgres://nobody_at_all:hunter2@{place}"));
    assert!(nobody.contains("user"), "{nobody}");
    let nowhere = refused(format!("{url}_no_such_database"));
    assert!(nowhere.contains("no_such_database"), "{nowhere}");
    let tls = refused(format!("{url}?sslmode=require"));
    assert!(tls.contains("TLS"), "{tls}");
    let name = port_and_name.split_once('/').map_or("", |(_, name)| name);
    let closed = refused(format!("postgres://ada:hunter2@127.0.0.1:1/{name}"));
    assert!(closed.contains("check that it runs"), "{closed}");
}
