//! Callers may live in several tokio runtimes, of which some have ended and some stand still. One without timers is
//! refused.

use crate::support::{Database, TestStore};
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use store::Error;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

#[test]
fn callers_of_every_runtime_get_their_replies_on_sqlite() {
    callers_of_every_runtime_get_their_replies(Database::Sqlite);
}

#[test]
fn callers_of_every_runtime_get_their_replies_on_postgres() {
    Database::postgres().into_iter().for_each(callers_of_every_runtime_get_their_replies);
}

#[test]
fn callers_of_every_runtime_get_their_replies_on_mysql() {
    Database::mysql().into_iter().for_each(callers_of_every_runtime_get_their_replies);
}

fn callers_of_every_runtime_get_their_replies(database: Database) {
    let test = database.open();
    let ended = Builder::new_multi_thread().enable_time().build().expect("a runtime");
    write(&ended, &test, "in one that ends");
    drop(ended);
    let idle = one_thread();
    write(&idle, &test, "in one that is driven only now");
    for id in ["a", "b", "c"] {
        write(&one_thread(), &test, id);
    }
    write(&idle, &test, "and now again");
    let both_write = Barrier::new(2);
    std::thread::scope(|scope| {
        for writer in ["one", "other"] {
            let (test, both_write) = (&test, &both_write);
            scope.spawn(move || {
                let runtime = one_thread();
                both_write.wait();
                (0..50).for_each(|number| write(&runtime, test, &format!("{writer} {number}")));
            });
        }
    });
    assert_eq!(one_thread().block_on(test.count()), 106);
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn write(runtime: &Runtime, test: &TestStore, id: &str) {
    let written = runtime.block_on(async { timeout(Duration::from_secs(20), test.add(id, "ada", id)).await });
    assert_eq!(written.expect("a reply").expect("writes"), 1, "{id}");
}

/// What one poll gives outside of every runtime.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_runtime_without_timers_is_refused_before_anything_is_done() {
    let test = Database::Sqlite.open();
    let bare = Builder::new_current_thread().build().expect("a runtime");
    let written = bare.block_on(test.add("n", "ada", "one"));
    assert!(matches!(written, Err(Error::Runtime)), "{written:?}");
    let read = bare.block_on(test.store.read(|_| Ok::<_, Error>(())));
    assert!(read.expect_err("no timers").to_string().contains("enable_time"));
    let outside = poll_once(test.add("n", "ada", "one"));
    assert!(matches!(outside, Poll::Ready(Err(Error::Runtime))), "{outside:?}");
    assert_eq!(one_thread().block_on(test.count()), 0, "nothing was queued");
    write(&one_thread(), &test, "n");
}
