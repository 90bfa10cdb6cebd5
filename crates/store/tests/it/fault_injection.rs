//! What a load test does to a server lasts until it ends, and leaves nothing behind.

use crate::instances::soon;
use crate::support::{Database, MIGRATIONS, TestStore, add};
use store::fault_injection::{Fault, end_sessions, hold_transaction, pause_replay};
use store::testing::own_server::OwnServer;
use store::testing::postgres::with_client;
use store::{Error, Options, Store};

/// The drivers block, so everything about a disturbance happens on another thread.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic")
}

/// What a disturbance's thread is told and says: it cannot leave its thread.
struct Held {
    stop: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<Result<(), Error>>,
}

impl Held {
    fn begin(disturb: impl FnOnce() -> Result<Fault, Error> + Send + 'static) -> Held {
        let ((stop, stopped), (begun, wait)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let thread = std::thread::spawn(move || {
            let disturbance = disturb()?;
            begun.send(()).expect("somebody waits");
            stopped.recv().expect("somebody says when");
            disturbance.end()
        });
        // When it fails, its thread says why.
        let _ = wait.recv();
        Held { stop, thread }
    }

    fn end(self) -> Result<(), Error> {
        // One that could not begin has gone.
        let _ = self.stop.send(());
        self.thread.join().expect("it does not panic")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_held_keeps_the_horizon_where_it_is() {
    const HORIZON: &str = "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)";
    const HELD: &str = "SELECT CAST(CAST(backend_xid AS TEXT) AS BIGINT) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'idle in transaction'";
    let Some(test) = Database::postgres().map(Database::open) else { return };
    let url = test.database().url();
    let held = Held::begin(move || hold_transaction(&url));
    let own = test.database().number(HELD);
    for number in 0..5 {
        add(&test.store, &format!("n{number}"), "ada", &format!("{number}"))
            .await
            .expect("nobody is held up");
    }
    // Others use the cluster too, and may hold it further back.
    assert!(test.database().number(HORIZON) <= own);
    let rows = test.database().number("SELECT COUNT(*) FROM change_log");
    held.end().expect("it lasted");
    soon("the horizon moves", || test.database().number(HORIZON) > own).await;
    assert_eq!(test.database().number("SELECT COUNT(*) FROM change_log"), rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_transaction_that_the_server_ended_is_told() {
    const END: &str = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'idle in transaction'";
    let Some(test) = Database::postgres().map(Database::open) else { return };
    let url = test.database().url();
    let held = Held::begin(move || hold_transaction(&url));
    soon("it is found", || test.database().number(END) == 1).await;
    assert!(held.end().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_held_keeps_a_number_of_the_log() {
    const NEWEST: &str = "SELECT MAX(seq) FROM change_log";
    let Some(test) = Database::mysql().map(Database::open) else { return };
    let newest = |test: &TestStore| test.mysql().number(NEWEST);
    let before = newest(&test);
    let url = test.mysql().url();
    let held = Held::begin(move || hold_transaction(&url));
    add(&test.store, "n", "ada", "n").await.expect("nobody is held up");
    let missing = format!("SELECT COUNT(*) FROM change_log WHERE seq > {before}");
    assert!(newest(&test) - before > test.mysql().number(&missing), "a number is taken and not there");
    held.end().expect("it lasted");
    assert!(newest(&test) - before > test.mysql().number(&missing), "it was rolled back");
}

/// So often that nothing is left of what each time half of is ended.
const ENDED: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_ended_whatever_they_do() {
    let postgres = Database::postgres().map(Database::open);
    let mysql = Database::mysql().map(Database::open);
    let urls =
        [postgres.as_ref().map(|test| test.database().url()), mysql.as_ref().map(|test| test.mysql().url())];
    for url in urls.into_iter().flatten() {
        let of_transaction = url.clone();
        let held = Held::begin(move || hold_transaction(&of_transaction));
        aside(move || (0..ENDED).try_for_each(|_| end_sessions(&url))).await.expect("ends sessions");
        assert!(held.end().is_err());
    }
    for test in [postgres, mysql].iter().flatten() {
        add(&test.store, "n", "ada", "n").await.expect("connections are replaced");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_stands_still_until_the_end() {
    const NOTES: &str = "SELECT COUNT(*) FROM notes";
    let Some(server) = OwnServer::start() else { return };
    let store = Store::open(Options::new(server.url(), MIGRATIONS)).expect("opens");
    let standby = server.standby();
    let count = |url: String, sql: &'static str| {
        let config = url.parse().expect("a URL");
        with_client(config, move |client| client.query_one(sql, &[]).expect("a row").get::<_, i64>(0))
    };
    let here = || count(standby.url(), NOTES);
    add(&store, "first", "ada", "first").await.expect("writes");
    soon("the standby follows", || here() == 1).await;

    let url = standby.url();
    let held = Held::begin(move || pause_replay(&url));
    add(&store, "second", "ada", "second").await.expect("writes");
    let received = "SELECT CAST(pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn() AS INT)::BIGINT";
    soon("it has what it does not replay", || count(standby.url(), received) == 1).await;
    assert_eq!(here(), 1);
    let url = standby.url();
    let again = aside(move || pause_replay(&url).err().map(|error| error.to_string())).await;
    assert!(again.expect("refused").contains("paused there already"));
    held.end().expect("it lasted");
    soon("the standby follows again", || here() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_disturbed_is_refused() {
    let said = |url: String| aside(move || pause_replay(&url).err().expect("refused").to_string());
    assert!(said("sqlite:x.db".to_owned()).await.contains("only a standby of PostgreSQL"));
    let held = aside(|| hold_transaction("sqlite:x.db").err().expect("refused").to_string()).await;
    assert!(held.contains("SQLite"), "{held}");
    let ended = aside(|| end_sessions("sqlite:x.db").expect_err("refused").to_string()).await;
    assert!(ended.contains("SQLite"), "{ended}");
    let Some(test) = Database::postgres().map(Database::open) else { return };
    assert!(said(test.database().url()).await.contains("is no standby"));
}
