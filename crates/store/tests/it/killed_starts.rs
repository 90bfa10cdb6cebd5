//! Connections that the server ends while a store is opened.

use crate::support::{MIGRATIONS, add};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::testing::mysql::{self, MysqlDatabase};
use store::testing::postgres::{self, PostgresDatabase, with_client};
use store::testing::say_skipped;
use store::{Options, Store};

/// Enough for every step of a start.
const KILLS: i64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_when_postgresql_has_ended_its_connections() {
    let Some(database) = on_postgres() else { return };
    let url = database.url();
    let opened = std::thread::scope(|scope| {
        scope.spawn(|| kill_on_postgres(&database, &AtomicBool::new(false), KILLS));
        Store::open(Options::new(url, MIGRATIONS))
    });
    let store = opened.expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    store.close();
}

#[test]
fn a_start_ends_with_what_it_met_when_that_goes_on_for_ten_seconds() {
    let Some(database) = on_postgres() else { return };
    let (url, is_over, began) = (database.url(), AtomicBool::new(false), Instant::now());
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| kill_on_postgres(&database, &is_over, i64::MAX));
        let opened = Store::open(Options::new(url, MIGRATIONS)).map(|store| store.close());
        is_over.store(true, Ordering::SeqCst);
        opened.expect_err("refused").to_string()
    });
    assert!(refused.contains("the database cannot be opened: "), "{refused}");
    assert!(refused.contains("ended the connection") || refused.contains("lost"), "{refused}");
    assert!(began.elapsed() > Duration::from_secs(9), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_when_mariadb_has_ended_its_connections() {
    if mysql::url().is_none() {
        return say_skipped("killed connections on MySQL: the environment names no server");
    }
    let database = MysqlDatabase::create();
    let url = database.url();
    let opened = std::thread::scope(|scope| {
        scope.spawn(|| kill_on_mysql(&database));
        Store::open(Options::new(url, MIGRATIONS))
    });
    let store = opened.expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    store.close();
}

fn on_postgres() -> Option<PostgresDatabase> {
    if postgres::url().is_none() {
        say_skipped("killed connections on PostgreSQL: the environment names no cluster");
        return None;
    }
    Some(PostgresDatabase::create())
}

/// Ends each connection to the database, until so many were ended or it is over.
fn kill_on_postgres(database: &PostgresDatabase, is_over: &AtomicBool, most: i64) {
    let kill = format!(
        "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{}'",
        database.name
    );
    let mut killed = 0;
    while killed < most && !is_over.load(Ordering::SeqCst) {
        let kill = kill.clone();
        killed += with_client(postgres::config(), move |client| {
            let many = (0..20).map(|_| client.query_one(&kill, &[]).expect("a row").get::<_, i64>(0));
            many.sum::<i64>()
        });
    }
}

fn kill_on_mysql(database: &MysqlDatabase) {
    let mut client = database.connect_elsewhere();
    let others = format!("FROM information_schema.processlist WHERE db = '{}'", database.name);
    let mut killed = 0;
    while killed < KILLS {
        let id: u64 = client.first(&format!("SELECT COALESCE(MAX(id), 0) {others}"));
        if id > 0 {
            // It may have ended by itself meanwhile.
            let _ = client.try_run(&format!("KILL CONNECTION {id}"));
            killed += 1;
        }
    }
}
