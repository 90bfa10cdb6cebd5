//! Commands that waited too long, whose caller has gone, or that nobody waits for.

use crate::support::{Database, INSERT, keep_busy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use store::{Error, Key, args};

on_each_database!(
    a_command_that_waited_too_long_is_not_started,
    a_command_whose_caller_has_gone_is_not_started,
    a_command_that_nobody_waits_for_is_done,
    commands_that_nobody_waits_for_leave_room_for_others,
);

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
