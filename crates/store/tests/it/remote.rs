//! What only a database on a server can go through, whichever it is: connections that are lost, commits whose
//! answer is, programs that start together.

use crate::instances::count_changes;
use crate::proxy::{Cut, Proxy};
use crate::support::{BODY, Database, INSERT, MIGRATIONS, TestStore, add};
use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::{Duration, Instant};
use store::{Error, Key, Options, Sql, Store, args, sql};

on_each_server!(
    a_commit_whose_answer_is_lost_is_looked_up,
    a_commit_that_cannot_be_looked_up_is_told_so_and_caches_forget,
    lost_connections_are_opened_again_between_and_inside_transactions,
    a_server_that_is_away_is_said_and_waited_for,
    a_deadlock_is_resolved_by_running_one_again_and_nothing_is_half_done,
    programs_that_start_together_migrate_once,
    point_reads_that_wait_together_share_nothing_that_goes_wrong,
    a_server_that_does_not_answer_is_noticed_within_seconds,
);

/// A store that reaches its database through a proxy.
pub fn open_through_proxy(test: &TestStore) -> (Store, Proxy) {
    let (host, port) = test.server();
    let proxy = Proxy::start(host, port);
    let url = test.url_at("127.0.0.1", proxy.port);
    let mut options = Options { url, writers: 1, readers: 1, ..test.options() };
    // How long a server that is away is waited for is the test.
    options.writer.deadline = Duration::from_secs(1);
    (Store::open(options).expect("opens"), proxy)
}

async fn a_commit_whose_answer_is_lost_is_looked_up(database: Database) {
    let test = database.open();
    let (store, proxy) = open_through_proxy(&test);
    add(&store, "calm", "ada", "calm").await.expect("writes");
    for (id, cut) in [("arrived", Cut::After), ("lost", Cut::Before), ("again", Cut::After)] {
        proxy.cut_next(cut);
        assert_eq!(add(&store, id, "ada", id).await.expect("the truth is found out"), 1);
        assert_eq!(test.body(id).await.as_deref(), Some(id));
    }
    let stats = store.stats();
    assert_eq!(stats.retried, 1, "only the one that did not arrive ran again");
    assert_eq!(stats.commits_failed, 0);
    assert_eq!(test.number("SELECT COUNT(*) FROM change_log AS log WHERE log.keys <> ''"), 4);
}

async fn a_commit_that_cannot_be_looked_up_is_told_so_and_caches_forget(database: Database) {
    let test = database.open();
    let (store, proxy) = open_through_proxy(&test);
    add(&store, "n", "ada", "one").await.expect("writes");
    let heard = count_changes(&store);
    proxy.cut_next(Cut::After);
    proxy.close();
    let error = add(&store, "m", "ada", "two").await.expect_err("nobody knows");
    assert!(matches!(error, Error::OutcomeUnknown), "{error:?}");
    assert!(!error.is_temporary(), "it must not be tried again blindly");
    assert_eq!(store.stats().commits_failed, 1);
    let times = heard.load(Ordering::SeqCst);
    // The log may show it once more.
    assert!(times >= 1, "it may have happened: {times}");
    proxy.open();
    resumes(&store, "after").await;
}

/// Writes as soon as the server is asked again, which is within a fraction of a second.
pub async fn resumes(store: &Store, id: &str) {
    let began = Instant::now();
    while let Err(error) = add(store, id, "ada", id).await {
        assert!(matches!(&error, Error::Unavailable { .. }), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "it is asked again soon");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn lost_connections_are_opened_again_between_and_inside_transactions(database: Database) {
    let test = database.open();
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

async fn a_server_that_is_away_is_said_and_waited_for(database: Database) {
    let test = database.open();
    let (store, proxy) = open_through_proxy(&test);
    proxy.close();
    proxy.cut_all();
    let began = Instant::now();
    let refused = add(&store, "n", "ada", "n").await.expect_err("away");
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(refused.is_temporary() && began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // A server that has been away for a second holds nobody up, and neither does what nobody waits for.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..100 {
        assert!(store.write_later("note.later", |_| Ok::<_, Error>(())));
    }
    let refused = add(&store, "n", "ada", "n").await.expect_err("still away");
    assert!(matches!(&refused, Error::Unavailable { .. }), "not tired of waiting, but told: {refused:?}");
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

async fn a_deadlock_is_resolved_by_running_one_again_and_nothing_is_half_done(database: Database) {
    static TOUCH: Sql = sql("UPDATE notes SET used_at = COALESCE(used_at, 0) + 1 WHERE id = ?1");
    let mut test = database.open();
    if database == Database::Postgres {
        // Its server looks for one once a second, a whole command's time.
        test.sql(&format!("ALTER DATABASE {} SET deadlock_timeout = '20ms'", test.database().name));
        test = test.reopen();
    }
    test.add("a", "ada", "a").await.expect("writes");
    test.add("b", "ada", "b").await.expect("writes");
    let touch = |first: &'static str, second: &'static str| {
        test.store.write("note.touch", move |tx| {
            tx.changed(Key::table("notes"));
            tx.exec(&TOUCH, args![first])?;
            std::thread::park_timeout(Duration::from_millis(50));
            // One that goes on after a deadlock would write outside of any transaction.
            let second = tx.exec(&TOUCH, args![second]);
            let _ = tx.exec(&TOUCH, args![first]);
            second
        })
    };
    let (one, two) = tokio::join!(touch("a", "b"), touch("b", "a"));
    assert_eq!((one.map_err(|error: Error| error).expect("runs"), two.expect("runs")), (1, 1));
    assert!(test.store.stats().retried > 0);
    // Each that was kept touches one note twice and the other one once.
    assert_eq!(test.number("SELECT COUNT(*) FROM notes WHERE used_at = 3"), 2);
}

async fn programs_that_start_together_migrate_once(database: Database) {
    let test = database.open();
    test.sql(
        "DROP TABLE IF EXISTS notes, samples, sarsen_migrations, sarsen_migration_words, sarsen_migration_steps, change_log, \
         change_log_cut",
    );
    let starts = (0..4).map(|_| {
        let options = test.options();
        std::thread::spawn(move || Store::open(options).map(|store| store.close()))
    });
    for start in starts.collect::<Vec<_>>() {
        start.join().expect("joins").expect("opens");
    }
    assert_eq!(test.number("SELECT COUNT(*) FROM sarsen_migrations"), MIGRATIONS.len() as i64);
}

async fn point_reads_that_wait_together_share_nothing_that_goes_wrong(database: Database) {
    static WRONG: Sql = sql("SELECT no_such_column FROM notes");
    static RENAME: Sql = sql("UPDATE notes SET body = ?2 WHERE id = ?1");
    let test = database.open();
    let store = Store::open(Options { readers: 1, ..test.options() }).expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    let ((begins, has_begun), (goes_on, may_go_on)) = (channel(), channel());
    let own = store.clone();
    let first = tokio::spawn(async move {
        let held = own.read(move |_| {
            begins.send(()).expect("the test waits");
            may_go_on.recv().expect("the test says when");
            Ok::<_, Error>(())
        });
        held.await
    });
    tokio::task::block_in_place(|| has_begun.recv().expect("it begins"));
    let ask = |number: usize| {
        let own = store.clone();
        Box::pin(async move {
            let body = own.point(move |snapshot| {
                let body = |row: &store::Row<'_>| row.get::<String>(0);
                match number % 8 {
                    3 => snapshot.one(&WRONG, args![], body),
                    // It swallows the error, which takes the transaction down all the same.
                    5 => Ok(snapshot.one(&WRONG, args![], body).unwrap_or(None)),
                    6 => panic!("on purpose"),
                    _ => snapshot.one(&BODY, args!["n"], body),
                }
            });
            body.await
        })
    };
    let mut asked = Vec::new();
    for number in 0..48 {
        if number == 24 {
            let renamed = store.write("note.rename", |tx| {
                tx.changed(Key::table("notes"));
                tx.exec(&RENAME, args!["n", "two"])
            });
            renamed.await.map_err(|error: Error| error).expect("writes");
        }
        let mut question = ask(number);
        assert!(poll_fn(|context| Poll::Ready(question.as_mut().poll(context))).await.is_pending());
        asked.push(question);
    }
    goes_on.send(()).expect("it waits");
    first.await.expect("ends").expect("is answered");
    for (number, question) in asked.into_iter().enumerate() {
        let answer = question.await;
        match number % 8 {
            3 => assert!(matches!(answer, Err(Error::Database(_))), "{number}: {answer:?}"),
            5 => assert_eq!(answer.expect("it took it for an answer"), None, "{number}"),
            6 => assert!(matches!(answer, Err(Error::Panicked { .. })), "{number}: {answer:?}"),
            _ => assert_eq!(answer.expect("reads").as_deref(), Some("two"), "{number}"),
        }
    }
    store.close();
}

/// TCP alone would notice it after many minutes.
async fn a_server_that_does_not_answer_is_noticed_within_seconds(database: Database) {
    let test = database.open();
    let (store, proxy) = open_through_proxy(&test);
    add(&store, "before", "ada", "before").await.expect("writes");
    proxy.be_silent(true);
    let began = Instant::now();
    let refused = add(&store, "during", "ada", "during").await.expect_err("no answer");
    assert!(matches!(&refused, Error::Unavailable { what, .. } if what.contains("lost")), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    proxy.be_silent(false);
    resumes(&store, "after").await;
    assert_eq!(test.count().await, 2);
    store.close();
}
