//! The database URL leads to a standby whose data are old: nothing is read from it, and no cache trusts its change log.

use crate::instances::{NOW, cached, keep, rename, soon};
use crate::proxy::Proxy;
use crate::remote::resumes;
use crate::support::{BODY, MIGRATIONS, add};
use std::time::{Duration, Instant};
use store::testing::own_mariadb::OwnMariaDb;
use store::testing::own_server::OwnServer;
use store::{Error, Options, Store, args};

fn open(url: String) -> Store {
    Store::open(Options { watched: &["notes"], ..Options::new(url, MIGRATIONS) }).expect("opens")
}

/// Adds a note, and waits until the standby has it and stands still.
async fn add_and_pause(store: &Store, standby: &OwnServer) {
    add(store, "n", "ada", "one").await.expect("writes");
    let standby_store = |standby: &OwnServer| {
        let count = "SELECT COUNT(*) FROM notes WHERE id = 'n'";
        let config = standby.config();
        store::testing::postgres::with_client(config, move |client| {
            client.query_one(count, &[]).is_ok_and(|row| row.get::<_, i64>(0) == 1)
        })
    };
    let began = Instant::now();
    while !tokio::task::block_in_place(|| standby_store(standby)) {
        assert!(began.elapsed() < Duration::from_secs(20), "the standby does not follow");
    }
    standby.sql("SELECT pg_wal_replay_pause()");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_two_hosts_the_one_that_accepts_writes_is_followed() {
    let Some(primary) = OwnServer::start() else { return };
    let standby = primary.standby();
    let proxy = Proxy::start("127.0.0.1".to_owned(), primary.port);
    let hosts = format!("127.0.0.1:{},127.0.0.1", proxy.port);
    let (one, other) = (open(primary.url()), open(primary.url_at(&hosts, primary.port)));
    let cache = other.cache("bodies");
    add_and_pause(&one, &standby).await;
    keep(&other, &cache, "n").await;
    // The first host is the standby now, as after a failover and back.
    proxy.lead_to(standby.port);
    proxy.cut_all();
    rename(&one, "n", "two").await;
    resumes(&other, "m").await;
    let began = Instant::now();
    while cached(&other, &cache, "n").await.as_deref() != Some("two") {
        assert!(began.elapsed() < Duration::from_secs(20), "it reads from the standby");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for body in ["three", "four"] {
        keep(&other, &cache, "n").await;
        rename(&one, "n", body).await;
        soon("the entry goes", || cache.get("n", NOW).is_none()).await;
        assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some(body));
    }
    one.close();
    other.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_takes_connections_and_says_nothing_keeps_nobody_from_the_next() {
    let Some(primary) = OwnServer::start() else { return };
    let proxy = Proxy::start("127.0.0.1".to_owned(), primary.port);
    proxy.be_silent(true);
    let began = Instant::now();
    let store = open(primary.url_at(&format!("127.0.0.1:{},127.0.0.1", proxy.port), primary.port));
    while let Err(error) = add(&store, "n", "ada", "one").await {
        assert!(error.is_temporary(), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "each thread waits for it once");
    }
    proxy.be_silent(false);
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_server_takes_connections_and_says_nothing_commands_fail_in_time() {
    let Some(primary) = OwnServer::start() else { return };
    let proxy = Proxy::start("127.0.0.1".to_owned(), primary.port);
    let store = open(primary.url_at("127.0.0.1", proxy.port));
    add(&store, "n", "ada", "one").await.expect("writes");
    proxy.be_silent(true);
    proxy.cut_all();
    for id in ["a", "b", "c"] {
        let added = tokio::time::timeout(Duration::from_secs(15), add(&store, id, "ada", "x"));
        let refused = added.await.expect("it is answered").expect_err("nobody is there");
        assert!(refused.is_temporary(), "{refused:?}");
    }
    proxy.be_silent(false);
    resumes(&store, "m").await;
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_moved_to_a_standby_gives_no_old_answers() {
    let Some(primary) = OwnServer::start() else { return };
    let standby = primary.standby();
    let proxy = Proxy::start("127.0.0.1".to_owned(), primary.port);
    let (one, other) = (open(primary.url()), open(primary.url_at("127.0.0.1", proxy.port)));
    let cache = other.cache("bodies");
    add_and_pause(&one, &standby).await;
    keep(&other, &cache, "n").await;
    proxy.lead_to(standby.port);
    proxy.cut_all();
    rename(&one, "n", "two").await;
    soon("the entry is not used", || cache.get("n", NOW).is_none()).await;
    for _ in 0..20 {
        let read = other.read(|snapshot| snapshot.one(&BODY, args!["n"], |row| row.get::<String>(0)));
        let refused = read.await.expect_err("it is a standby");
        assert!(
            matches!(&refused, Error::Unavailable { advice, .. } if advice.contains("primary")),
            "{refused:?}"
        );
        assert!(cache.get("n", NOW).is_none());
    }
    let refused = add(&other, "m", "ada", "m").await.expect_err("it is a standby");
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused:?}");
    proxy.lead_to(primary.port);
    proxy.cut_all();
    resumes(&other, "m").await;
    keep(&other, &cache, "n").await;
    assert_eq!(cache.get("n", NOW).as_deref(), Some("two"));
    one.close();
    other.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_a_standby_is_refused_with_what_to_do() {
    let Some(primary) = OwnServer::start() else { return };
    open(primary.url()).close();
    let standby = primary.standby();
    let refused = |url: String| {
        let Err(error) = Store::open(Options::new(url, MIGRATIONS)) else { panic!("opened") };
        error.to_string()
    };
    let text = tokio::task::block_in_place(|| refused(standby.url()));
    assert!(text.contains("primary"), "{text}");
    let text =
        tokio::task::block_in_place(|| refused(format!("{}?target_session_attrs=read-only", primary.url())));
    assert!(text.contains("target_session_attrs") && !text.contains(&primary.password), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mariadb_that_accepts_no_writes_is_not_read_either() {
    let Some(server) = OwnMariaDb::start() else { return };
    let open = |url: String| Store::open(Options { watched: &["notes"], ..Options::new(url, MIGRATIONS) });
    open(server.url()).expect("opens").close();
    tokio::task::block_in_place(|| server.sql("SET GLOBAL read_only = 1"));
    let Err(refused) = tokio::task::block_in_place(|| open(server.url())) else { panic!("opened") };
    assert!(refused.to_string().contains("read_only"), "{refused}");
    tokio::task::block_in_place(|| server.sql("SET GLOBAL read_only = 0"));
    open(server.url()).expect("opens").close();
}

/// A server with a user whom `read_only` binds, and the schema.
fn mariadb_for_an_ordinary_user() -> Option<OwnMariaDb> {
    let server = OwnMariaDb::start()?;
    server.sql("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'app'");
    server.sql("GRANT ALL ON sarsen.* TO app@'127.0.0.1'");
    open(server.url()).close();
    Some(server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mariadb_that_was_demoted_or_flushes_late_is_left() {
    let start = || tokio::task::block_in_place(mariadb_for_an_ordinary_user);
    let (Some(old), Some(new)) = (start(), start()) else { return };
    let proxy = Proxy::start("127.0.0.1".to_owned(), old.port);
    let store = open(format!("mysql://app:app@127.0.0.1:{}/sarsen", proxy.port));
    add(&store, "n", "ada", "of the old one").await.expect("writes");
    // The connections to it live on.
    proxy.lead_to(new.port);
    tokio::task::block_in_place(|| old.sql("SET GLOBAL read_only = 1"));
    resumes(&store, "m").await;
    let read = |id: &'static str| {
        store.read(move |snapshot| snapshot.one(&BODY, args![id], |row| row.get::<String>(0)))
    };
    for _ in 0..20 {
        let found: Result<_, Error> = read("n").await;
        assert_eq!(found.expect("answers"), None, "the new primary has no such note");
        let found: Result<_, Error> = read("m").await;
        assert_eq!(found.expect("answers").as_deref(), Some("m"));
    }
    // Nor does a server get writes that may lose them.
    let setting = "innodb_flush_log_at_trx_commit";
    let set = |value| {
        tokio::task::block_in_place(|| new.sql(&format!("SET GLOBAL {setting} = {value}")));
        proxy.cut_all();
    };
    set(2);
    let refused = add(&store, "lost", "ada", "lost").await.expect_err("it may be lost");
    assert!(matches!(&refused, Error::Unavailable { advice, .. } if advice.contains(setting)), "{refused:?}");
    set(1);
    resumes(&store, "after").await;
    store.close();
}
