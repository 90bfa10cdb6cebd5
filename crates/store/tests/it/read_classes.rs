//! Queries that run in the background and queries of users share the reader threads.

use crate::support::{COUNT, Database, TestStore};
use std::sync::mpsc::channel;
use std::time::Duration;
use store::{Error, Read, Store, args};
use tokio::task::JoinHandle;
use tokio::time::timeout;

on_each_database!(
    users_do_not_wait_for_background_queries,
    background_queries_get_their_turn_while_users_keep_the_threads_busy,
);

/// Far more than any query here takes.
const LONG: Duration = Duration::from_secs(20);

fn in_background(store: &Store, run: impl Fn() + Send + 'static) -> JoinHandle<Result<(), Error>> {
    let store = store.clone();
    tokio::spawn(async move {
        let read = Read::default().in_background();
        let answer = store.query(read, move |_| {
            run();
            Ok::<_, Error>(())
        });
        answer.await.map(|answer| answer.value)
    })
}

async fn users_do_not_wait_for_background_queries(database: Database) {
    let test = database.open_with(|options| options.readers = 2);
    // As many as there are threads, and more: each stands still until the test lets it go.
    let (started, has_started) = channel();
    let (go, may_go): (Vec<_>, Vec<_>) = (0..4).map(|_| channel::<()>()).unzip();
    let background: Vec<_> = may_go
        .into_iter()
        .map(|may_go| {
            let started = started.clone();
            in_background(&test.store, move || {
                started.send(()).expect("the test waits");
                may_go.recv().expect("the test says when");
            })
        })
        .collect();
    tokio::task::block_in_place(|| has_started.recv_timeout(LONG)).expect("one has started");
    for _ in 0..20 {
        assert_eq!(timeout(LONG, test.count()).await.expect("a thread is left to users"), 0);
    }
    assert!(has_started.try_recv().is_err(), "the others wait for their turn");
    go.iter().for_each(|go| go.send(()).expect("it stands still or will"));
    for query in background {
        timeout(LONG, query).await.expect("gets its turn").expect("joins").expect("runs");
    }
}

async fn background_queries_get_their_turn_while_users_keep_the_threads_busy(database: Database) {
    let test = database.open_with(|options| options.readers = 1);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let users: Vec<_> = (0..8).map(|_| keep_reading(&test, stopped.clone())).collect();
    for _ in 0..10 {
        let query = in_background(&test.store, || {});
        timeout(LONG, query).await.expect("is not starved").expect("joins").expect("runs");
    }
    stop.send(true).expect("they read");
    for user in users {
        assert!(user.await.expect("joins") > 0);
    }
}

/// A user who reads all the time. Returns how often.
fn keep_reading(test: &TestStore, stopped: tokio::sync::watch::Receiver<bool>) -> JoinHandle<usize> {
    let store = test.store.clone();
    tokio::spawn(async move {
        let mut reads = 0;
        while !*stopped.borrow() {
            let read = store.read(|snapshot| snapshot.one(&COUNT, args![], |row| row.get::<i64>(0)));
            read.await.map_err(|error: Error| error).expect("reads");
            reads += 1;
        }
        reads
    })
}
