//! Whether an instance can do its work, and that others see that it serves.

use crate::support::until_both_keys_sign;
use server::Store;
use server::database_move::{Move, MoveError};
use server::testing::{Kind, TestServer, kind};
use std::time::{Duration, UNIX_EPOCH};
use store::{Sql, args, sql};

const READY: u16 = 200;
const NOT_READY: u16 = 503;

async fn ready(server: &TestServer) -> u16 {
    server.get("/readyz").send().await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_could_not_write_for_ten_seconds_is_not_ready() {
    let server = TestServer::start().await;
    server.renew_presence().await.expect("writes");
    // On a file every answer tries a write for the next one: there nothing holds up the writer.
    let Some(held) = server.hold("leases") else { return server.stop().await };
    let mut trying = Box::pin(server.renew_presence());
    // It begins, and waits for the table.
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut trying).await.is_err());
    assert_eq!(ready(&server).await, READY, "it may pass");
    server.clock.advance(Duration::from_secs(9));
    assert_eq!(ready(&server).await, READY);
    server.clock.advance(Duration::from_secs(1));
    let answer = server.get("/readyz").send().await;
    assert_eq!((answer.status, answer.text("code").as_str()), (NOT_READY, "unavailable"), "{answer:?}");
    assert!(answer.text("detail").contains("no write for 10 seconds"), "{answer:?}");
    drop(held);
    // It may have been refused meanwhile.
    let _ = trying.as_mut().await;
    drop(trying);
    server.renew_presence().await.expect("writes");
    assert_eq!(ready(&server).await, READY);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_ready_again_at_the_first_question_after_a_failed_write() {
    static HIDE: Sql = sql("ALTER TABLE leases RENAME TO leases_hidden");
    static SHOW: Sql = sql("ALTER TABLE leases_hidden RENAME TO leases");
    let server = TestServer::start().await;
    if kind() != Kind::Sqlite {
        return server.stop().await; // There a write is tried every few seconds.
    }
    let change = async |name: &'static str, statement: &'static Sql| {
        let changed = server.app.store.write(name, move |tx| tx.exec(statement, args![]));
        changed.await.map_err(|error: store::Error| error).expect("writes");
    };
    change("test.hide", &HIDE).await;
    server.renew_presence().await.expect_err("the table is gone");
    server.clock.advance(Duration::from_secs(30));
    assert_eq!(ready(&server).await, NOT_READY, "writes still fail");
    change("test.show", &SHOW).await;
    assert_eq!(ready(&server).await, READY);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_whose_database_has_a_newer_schema_is_not_ready() {
    static NEWER: Sql = sql("INSERT INTO sarsen_migrations (number, name) VALUES (?1, ?2)");
    let server = TestServer::start().await;
    assert_eq!(ready(&server).await, READY);
    let migrated = server.app.store.write("test.migrate", |tx| tx.exec(&NEWER, args![9999, "of tomorrow"]));
    migrated.await.map_err(|error: store::Error| error).expect("writes");
    let answer = server.get("/readyz").send().await;
    assert_eq!(answer.status, NOT_READY);
    assert!(answer.text("detail").contains("schema 9999"), "{answer:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_served_is_not_moved() {
    let server = TestServer::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("target.db").display());
    let target = Store::open(server::store_options(url)).expect("opens");
    server.renew_presence().await.expect("writes");
    // A key that is made in the background would change the source during the move.
    until_both_keys_sign(&server).await;
    let moved = || Move::new(&server.app.store, &target, &*server.clock, |_| {}).run(true);
    if kind() != Kind::Sqlite {
        let refused = moved().await.expect_err("it is served");
        assert!(matches!(refused, MoveError::Served), "{refused:?}");
        assert!(refused.to_string().contains("stop all of its instances"), "{refused}");
    }
    // One that was killed counts for a while.
    server.clock.advance(Duration::from_secs(15));
    moved().await.expect("nobody serves");
    target.close();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_database_server_is_compared() {
    let server = TestServer::start().await;
    let here = i64::try_from(UNIX_EPOCH.elapsed().expect("a time").as_millis()).expect("a number");
    let ahead_ms = server.app.now().millis() - here;
    let skew = server.clock_skew_ms().await.expect("reads");
    match kind() {
        Kind::Sqlite => assert_eq!(skew, None),
        _ => assert!((skew.expect("a server has a clock") + ahead_ms).abs() < 60_000, "{skew:?} {ahead_ms}"),
    }
    server.stop().await;
}
