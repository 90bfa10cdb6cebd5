//! Durable logs: each entry is read once and in order, whatever happens meanwhile.

use crate::instances::Foreign;
use crate::support::{Database, TestStore};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Error, Log, LogCursor, LogEntry, LogPage, Sql, Store, Time, args, lock, log, sql};

on_each_database!(
    a_reader_gets_every_entry_once_and_those_of_one_row_in_order,
    an_entry_is_part_of_its_command,
    of_two_readers_with_one_name_one_moves_the_place,
    readers_keep_their_places_and_do_not_move_each_other,
    trimmed_entries_are_missed_by_readers_that_were_behind,
    a_log_whose_entries_are_all_old_keeps_its_end,
    a_watch_is_called_for_a_new_entry,
    a_cursor_gives_each_entry_behind_it_once_and_none_that_was_trimmed,
    an_entry_with_an_old_time_hides_none_before_it,
);

static EVENTS: Log = log("events");
static BODY: Sql = sql("SELECT body FROM notes WHERE id = 'counter'");
static SET_BODY: Sql = sql("UPDATE notes SET body = ?1 WHERE id = 'counter'");
static LOCK: Sql = lock("notes", "id");

pub const AT: Time = Time::from_millis(1_000);

pub async fn append(store: &Store, payload: &str, at: Time) -> Result<(), Error> {
    let payload = payload.to_owned();
    store.write("event.append", move |tx| tx.append(&EVENTS, at, &*payload)).await
}

pub async fn page(store: &Store, reader: &'static str, most: usize) -> LogPage {
    let page = store.read(move |snapshot| snapshot.log_page(&EVENTS, reader, most));
    page.await.map_err(|error: Error| error).expect("reads")
}

pub async fn keep(store: &Store, reader: &'static str, page: &LogPage) -> bool {
    let page = page.clone();
    let kept = store.write("event.keep", move |tx| tx.keep_place(&EVENTS, reader, &page));
    kept.await.map_err(|error: Error| error).expect("writes")
}

pub fn payloads(entries: &[LogEntry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.payload).collect()
}

/// Increments a number in a row and appends the new value with the writer's own count. Some commands fail at the end.
async fn increment(store: &Store, writer: usize, count: usize) {
    let fails = count % 5 == 4;
    let written = store.write("event.increment", move |tx| {
        tx.lock(&LOCK, "counter".into())?;
        let body: String = tx.one(&BODY, args![], |row| row.get(0))?.unwrap_or_default();
        let next = body.parse::<u64>().unwrap_or_default() + 1;
        tx.append(&EVENTS, AT, format!("{next} {writer} {count}"))?;
        tx.changed(store::Key::row("notes", "id", "counter"));
        tx.exec(&SET_BODY, args![next.to_string()])?;
        if fails { Err(Error::Stopped) } else { Ok(()) }
    });
    assert_eq!(written.await.is_err(), fails);
}

async fn a_reader_gets_every_entry_once_and_those_of_one_row_in_order(database: Database) {
    const WRITERS: usize = 4;
    const COUNT: usize = 50;
    let test = database.open();
    test.add("counter", "ada", "0").await.expect("writes");
    let writers = (0..WRITERS).map(|writer| {
        let store = test.store.clone();
        tokio::spawn(async move {
            for count in 0..COUNT {
                increment(&store, writer, count).await;
                // Another one that has nothing to do with the row.
                append(&store, &format!("- {writer} {count}"), AT).await.expect("writes");
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let (mut all, mut is_done) = (Vec::new(), false);
    loop {
        let next = page(&test.store, "reader", 7).await;
        assert!(keep(&test.store, "reader", &next).await && !next.missed);
        let is_empty = next.entries.is_empty();
        all.extend(next.entries);
        if is_empty && is_done {
            break;
        }
        is_done = writers.iter().all(tokio::task::JoinHandle::is_finished);
    }
    for writer in writers {
        writer.await.expect("joins");
    }
    assert_in_order(&all, WRITERS, COUNT);
}

fn assert_in_order(all: &[LogEntry], writers: usize, count: usize) {
    let mut of_writers: BTreeMap<(&str, bool), Vec<usize>> = BTreeMap::new();
    let mut of_row = Vec::new();
    for payload in payloads(all) {
        let parts: Vec<&str> = payload.split(' ').collect();
        let [value, writer, number] = parts.as_slice() else { panic!("{payload}") };
        of_row.extend(value.parse::<usize>());
        of_writers.entry((*writer, *value == "-")).or_default().push(number.parse().expect("a number"));
    }
    let committed = writers * count * 4 / 5;
    assert_eq!(of_row, (1..=committed).collect::<Vec<_>>(), "each value of the row, in its order");
    for ((writer, is_free), numbers) in of_writers {
        let expected: Vec<usize> = (0..count).filter(|number| is_free || number % 5 != 4).collect();
        assert_eq!(numbers, expected, "of writer {writer}, once and in its order");
    }
}

async fn an_entry_is_part_of_its_command(database: Database) {
    let test = database.open();
    let refused = test.store.write("event.refuse", |tx| {
        tx.append(&EVENTS, AT, "never")?;
        Err::<(), _>(Error::Stopped)
    });
    assert!(refused.await.is_err());
    append(&test.store, "a ∆ 'b'\n\\", AT).await.expect("writes");
    let page = page(&test.store, "reader", 10).await;
    assert_eq!(payloads(&page.entries), ["a ∆ 'b'\n\\"]);
    assert_eq!(page.entries[0].at, AT);
    let long = append(&test.store, &"x".repeat(store::LOG_PAYLOAD_MAX + 1), AT).await;
    assert!(long.expect_err("too long").to_string().contains("limit"));
    append(&test.store, &"x".repeat(store::LOG_PAYLOAD_MAX), AT).await.expect("fits");
}

async fn of_two_readers_with_one_name_one_moves_the_place(database: Database) {
    let test = database.open();
    for round in 0..3 {
        append(&test.store, &format!("{round}"), AT).await.expect("writes");
        let (one, other) = (page(&test.store, "reader", 10).await, page(&test.store, "reader", 10).await);
        assert_eq!(payloads(&one.entries), payloads(&other.entries));
        let kept = [keep(&test.store, "reader", &one).await, keep(&test.store, "reader", &other).await];
        assert_eq!(kept, [true, false], "round {round}");
        assert!(page(&test.store, "reader", 10).await.entries.is_empty());
    }
}

async fn readers_keep_their_places_and_do_not_move_each_other(database: Database) {
    let test = database.open();
    for number in 0..5 {
        append(&test.store, &number.to_string(), AT).await.expect("writes");
    }
    let first = page(&test.store, "slow", 2).await;
    assert_eq!(payloads(&first.entries), ["0", "1"]);
    assert!(keep(&test.store, "slow", &first).await);
    let all = page(&test.store, "quick", 10).await;
    assert!(all.entries.len() == 5 && keep(&test.store, "quick", &all).await);
    let test: TestStore = test.reopen();
    append(&test.store, "5", AT).await.expect("writes");
    assert_eq!(payloads(&page(&test.store, "slow", 10).await.entries), ["2", "3", "4", "5"]);
    assert_eq!(payloads(&page(&test.store, "quick", 10).await.entries), ["5"]);
}

async fn trimmed_entries_are_missed_by_readers_that_were_behind(database: Database) {
    let test = database.open();
    for number in 0..6 {
        append(&test.store, &number.to_string(), Time::from_millis(1_000 + number)).await.expect("writes");
    }
    for (reader, most) in [("behind", 2), ("level", 4)] {
        let next = page(&test.store, reader, most).await;
        assert!(keep(&test.store, reader, &next).await);
    }
    let before = Time::from_millis(1_004);
    let trim = test.store.write("event.trim", move |tx| tx.trim_log(&EVENTS, before));
    assert!(!trim.await.map_err(|error: Error| error).expect("trims"), "that was all");
    for (reader, missed) in [("behind", true), ("level", false), ("new", false)] {
        let next = page(&test.store, reader, 10).await;
        assert_eq!((payloads(&next.entries), next.missed), (vec!["4", "5"], missed), "{reader}");
        assert!(keep(&test.store, reader, &next).await);
        assert!(!page(&test.store, reader, 10).await.missed, "it goes on from there");
    }
}

async fn a_log_whose_entries_are_all_old_keeps_its_end(database: Database) {
    let test = database.open();
    for number in 0..3 {
        append(&test.store, &number.to_string(), AT).await.expect("writes");
    }
    let trim = test.store.write("event.trim", move |tx| tx.trim_log(&EVENTS, Time::from_millis(i64::MAX)));
    assert!(!trim.await.map_err(|error: Error| error).expect("trims"), "that was all");
    let new = page(&test.store, "new", 10).await;
    assert_eq!((payloads(&new.entries), new.missed), (vec!["2"], false));
    assert!(keep(&test.store, "new", &new).await);
    assert!(!page(&test.store, "new", 10).await.missed);
    // A cursor of its end goes on from there.
    let history = test.store.log_history();
    let end = test.store.read(move |snapshot| snapshot.log_end(&EVENTS, history));
    let end = end.await.map_err(|error: Error| error).expect("a cursor").to_string();
    assert_eq!(behind(&test.store, &end, 10).await.expect("it can be resumed").0, [""; 0]);
    append(&test.store, "3", AT).await.expect("writes");
    assert_eq!(behind(&test.store, &end, 10).await.expect("it can be resumed").0, ["3"]);
}

async fn a_watch_is_called_for_a_new_entry(database: Database) {
    let test = database.open();
    let (wake, woken) = std::sync::mpsc::channel();
    let _watch = test.store.watch(&[EVENTS.key()], test.store.position(), move || {
        // The test may have ended.
        let _ = wake.send(());
    });
    append(&test.store, "one", AT).await.expect("writes");
    woken.recv_timeout(Duration::from_secs(20)).expect("called");
}

/// Reads behind a cursor's text, as a client sends it back.
pub async fn behind(store: &Store, cursor: &str, most: usize) -> Option<(Vec<String>, Vec<String>)> {
    let (cursor, history) = (LogCursor::parse(cursor)?, store.log_history());
    let read = store.read(move |snapshot| snapshot.log_behind(&EVENTS, &cursor, history, most));
    let slice = read.await.map_err(|error: Error| error).expect("reads")?;
    let mut cursors: Vec<String> = slice.entries.iter().map(|(_, cursor)| cursor.to_string()).collect();
    cursors.push(slice.end.to_string());
    Some((slice.entries.into_iter().map(|(entry, _)| entry.payload).collect(), cursors))
}

pub async fn end(store: &Store) -> String {
    let history = store.log_history();
    let read = store.read(move |snapshot| snapshot.log_end(&EVENTS, history));
    read.await.map_err(|error: Error| error).expect("reads").to_string()
}

async fn a_cursor_gives_each_entry_behind_it_once_and_none_that_was_trimmed(database: Database) {
    let test = database.open();
    let start = end(&test.store).await;
    for number in 0..6 {
        append(&test.store, &number.to_string(), Time::from_millis(1_000 + number)).await.expect("writes");
    }
    let (all, cursors) = behind(&test.store, &start, 10).await.expect("known");
    assert_eq!(all, ["0", "1", "2", "3", "4", "5"]);
    for (number, cursor) in cursors.iter().take(6).enumerate() {
        for most in [1, 2, 10] {
            let (rest, _) = behind(&test.store, cursor, most).await.expect("known");
            assert_eq!(rest, all[number + 1..].iter().take(most).cloned().collect::<Vec<_>>(), "{cursor}");
        }
    }
    let (two, after_two) = behind(&test.store, &start, 2).await.expect("known");
    assert_eq!(two, ["0", "1"]);
    assert_eq!(behind(&test.store, after_two.last().expect("an end"), 10).await.expect("known").0, all[2..]);
    let test: TestStore = test.reopen();
    let last = end(&test.store).await;
    assert!(behind(&test.store, &last, 10).await.expect("known").0.is_empty());
    append(&test.store, "6", Time::from_millis(2_000)).await.expect("writes");
    assert_eq!(behind(&test.store, &last, 10).await.expect("known").0, ["6"]);
    assert_eq!(behind(&test.store, &cursors[4], 10).await.expect("known").0, ["5", "6"]);
    let mut recent = Vec::new();
    let read = test.store.read(|snapshot| {
        let mut found = Vec::new();
        snapshot.log_since(&EVENTS, Time::from_millis(1_004), |entry| found.push(entry.payload))?;
        Ok::<_, Error>(found)
    });
    recent.extend(read.await.expect("reads"));
    assert_eq!(recent, ["6", "5", "4"]);

    // Entries that were trimmed, another history, and an entry that is not the one that was read.
    let before = Time::from_millis(1_004);
    let trim = test.store.write("event.trim", move |tx| tx.trim_log(&EVENTS, before));
    trim.await.map_err(|error: Error| error).expect("trims");
    assert!(behind(&test.store, &start, 10).await.is_none(), "trimmed");
    assert!(behind(&test.store, &cursors[1], 10).await.is_none(), "trimmed");
    assert_eq!(behind(&test.store, &cursors[4], 10).await.expect("kept").0, ["5", "6"]);
    assert!(behind(&test.store, &format!("f{}", cursors[4]), 10).await.is_none(), "another history");
    let other = cursors[4].replacen("-1004", "-1003", 1);
    assert!(behind(&test.store, &other, 10).await.is_none(), "another entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_appears_late_is_read_once() {
    let Some(database) = Database::postgres() else { return };
    let test = database.open();
    let late = tokio::task::block_in_place(|| {
        let insert = "INSERT INTO sarsen_log (log_name, at_ms, payload) VALUES ('events', 1000, 'late')";
        Foreign::begin(test.database().config(), insert)
    });
    for number in 0..5 {
        append(&test.store, &number.to_string(), AT).await.expect("writes");
    }
    let first = page(&test.store, "reader", 3).await;
    assert_eq!(payloads(&first.entries), ["0", "1", "2"]);
    assert!(keep(&test.store, "reader", &first).await);
    tokio::task::block_in_place(|| late.end("COMMIT"));
    append(&test.store, "5", AT).await.expect("writes");
    let rest = page(&test.store, "reader", 10).await;
    assert_eq!(payloads(&rest.entries), ["3", "4", "late", "5"], "first the rest of the page before");
    assert!(keep(&test.store, "reader", &rest).await && !rest.missed);
    assert!(page(&test.store, "reader", 10).await.entries.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_transaction_id_that_is_given_again_is_read() {
    let Some(database) = Database::postgres() else { return };
    let test = database.open();
    append(&test.store, "before", AT).await.expect("writes");
    // Ids that leave nothing behind, as those of commands that fail. A crash may give them again.
    let id = "SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)";
    let lost: Vec<i64> = (0..20).map(|_| test.number(id)).collect();
    let cursor = end(&test.store).await;
    let first = page(&test.store, "reader", 10).await;
    assert!(keep(&test.store, "reader", &first).await);
    let insert = format!(
        "INSERT INTO sarsen_log (log_name, xid, at_ms, payload) VALUES ('events', '{}'::XID8, 1000, 'again')",
        lost[10]
    );
    test.sql(&insert);
    assert_eq!(behind(&test.store, &cursor, 10).await.expect("known").0, ["again"]);
    assert_eq!(payloads(&page(&test.store, "reader", 10).await.entries), ["again"]);
    test.store.close();
}

/// A job that has taken long may write the time of its begin.
async fn an_entry_with_an_old_time_hides_none_before_it(database: Database) {
    let test = database.open();
    let now = Time::from_millis(2_000);
    append(&test.store, "first", now).await.expect("writes");
    append(&test.store, "old", AT).await.expect("writes");
    // As many as are read at once, with the old one.
    let more = test
        .store
        .write("event.append", move |tx| (0..499).try_for_each(|_| tx.append(&EVENTS, now, "more")));
    more.await.map_err(|error: Error| error).expect("writes");
    let read = test.store.read(move |snapshot| {
        let mut found = Vec::new();
        snapshot.log_since(&EVENTS, now, |entry| found.push(entry.payload))?;
        Ok::<_, Error>(found)
    });
    let found = read.await.expect("reads");
    assert_eq!((found.len(), found.last().map(String::as_str)), (500, Some("first")));
}
