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
    starts_while(&database.url(), |is_over| kill_on_postgres(&database, is_over, KILLS)).await;
}

/// The server ends each connection that changes the schema, as every start does.
const ENDS_STARTS: &str = "CREATE FUNCTION end_own() RETURNS event_trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); END';
    CREATE EVENT TRIGGER ends_starts ON ddl_command_start EXECUTE FUNCTION end_own()";

#[test]
fn a_start_ends_with_what_it_met_when_that_goes_on_for_ten_seconds() {
    let Some(database) = on_postgres() else { return };
    database.sql(ENDS_STARTS);
    let began = Instant::now();
    let opened = Store::open(Options::new(database.url(), MIGRATIONS)).map(|store| store.close());
    let refused = opened.expect_err("refused").to_string();
    assert!(refused.contains("the database cannot be opened: "), "{refused}");
    assert!(refused.contains("the database server ended the connection"), "{refused}");
    assert!(began.elapsed() > Duration::from_secs(9), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_when_mariadb_has_ended_its_connections() {
    if mysql::url().is_none() {
        return say_skipped("killed connections on MySQL: the environment names no server");
    }
    let database = MysqlDatabase::create();
    starts_while(&database.url(), |is_over| kill_on_mysql(&database, is_over)).await;
}

/// Opens a database while `kill` ends its connections, until it is told that the start is over. The store then works.
async fn starts_while(url: &str, kill: impl Fn(&AtomicBool) + Sync) {
    let is_over = AtomicBool::new(false);
    let opened = std::thread::scope(|scope| {
        scope.spawn(|| kill(&is_over));
        let opened = Store::open(Options::new(url, MIGRATIONS));
        is_over.store(true, Ordering::SeqCst);
        opened
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

fn kill_on_mysql(database: &MysqlDatabase, is_over: &AtomicBool) {
    let mut client = database.connect_elsewhere();
    let others = format!("FROM information_schema.processlist WHERE db = '{}'", database.name);
    let mut killed = 0;
    while killed < KILLS && !is_over.load(Ordering::SeqCst) {
        let id: u64 = client.first(&format!("SELECT COALESCE(MAX(id), 0) {others}"));
        if id > 0 {
            // It may have ended by itself meanwhile.
            let _ = client.try_run(&format!("KILL CONNECTION {id}"));
            killed += 1;
        }
    }
}
