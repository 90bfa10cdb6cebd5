//! A COMMIT whose connection broke, and that MariaDB completes only after its caller was told that nobody knows: here
//! it waits for a semi-synchronous replica that is away, as it could for a slow disk.

use crate::instances::{NOW, cached, count_changes, keep, soon};
use crate::proxy::{Cut, Proxy};
use crate::support::{MIGRATIONS, add};
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::testing::own_mariadb::OwnMariaDb;
use store::{Error, Key, Options, Sql, Store, args, sql};

static RENAME: Sql = sql("UPDATE notes SET body = ?2 WHERE id = ?1");

fn server_with_binlog() -> Option<OwnMariaDb> {
    let settings =
        |name: &str| vec![format!("--log-bin={name}"), "--sync-binlog=1".into(), "--server-id=1".into()];
    OwnMariaDb::start_with(|folder| settings(&folder.join("binlog").display().to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_takes_effect_late_reaches_the_caches_of_its_sender() {
    takes_effect_late(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_it_does_after_many_others_and_a_lost_connection() {
    takes_effect_late(true).await;
}

async fn takes_effect_late(others_and_a_new_connection: bool) {
    let Some(server) = server_with_binlog() else { return };
    let proxy = Proxy::start("127.0.0.1".to_owned(), server.port);
    let mut options = Options::new(server.url_at_port(proxy.port), MIGRATIONS);
    (options.watched, options.writers) = (&["notes"], 1);
    options.following.lag_max = Duration::from_secs(10);
    let store = Store::open(options).expect("opens");
    let cache = store.cache("bodies");
    add(&store, "n", "ada", "one").await.expect("writes");
    server.sql("SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'");
    server.sql("SET GLOBAL rpl_semi_sync_master_timeout = 600000");
    server.sql("SET GLOBAL rpl_semi_sync_master_enabled = 1");
    proxy.cut_next(Cut::After);
    let renamed = store.write("note.rename", |tx| {
        tx.changed(Key::row("notes", "id", "n"));
        tx.exec(&RENAME, args!["n", "two"])
    });
    let unknown = renamed.await.expect_err("it has not ended");
    assert!(matches!(unknown, Error::OutcomeUnknown), "{unknown:?}");
    // Another transaction with a larger number, which waits for no replica, is read from the log.
    let heard = count_changes(&store);
    server.sql("SET sql_log_bin = 0; INSERT INTO change_log (`keys`) VALUES ('notes.id=other')");
    soon("the larger number is read", || heard.load(Ordering::SeqCst) > 0).await;
    if others_and_a_new_connection {
        server.sql("SET sql_log_bin = 0; INSERT INTO change_log (`keys`) SELECT '' FROM seq_1_to_20000");
        let before = heard.load(Ordering::SeqCst);
        proxy.cut_all();
        soon("all is dropped", || heard.load(Ordering::SeqCst) > before).await;
    }
    keep(&store, &cache, "n").await;
    assert_eq!(cache.get("n", NOW).as_deref(), Some("one"), "it has not been committed");
    server.sql("SET GLOBAL rpl_semi_sync_master_enabled = 0");
    soon("the late commit is read", || cache.get("n", NOW).is_none()).await;
    assert_eq!(cached(&store, &cache, "n").await.as_deref(), Some("two"));
    store.close();
}

/// Others see such a commit before its sender has an answer: a revoked right must not stay in the sender's caches.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_takes_long_reaches_the_caches_of_its_sender_at_once() {
    let Some(server) = server_with_binlog() else { return };
    let mut options = Options::new(server.url(), MIGRATIONS);
    (options.watched, options.writers) = (&["notes"], 1);
    options.following.lag_max = Duration::from_secs(10);
    let store = Store::open(options).expect("opens");
    let cache = store.cache("bodies");
    add(&store, "n", "ada", "one").await.expect("writes");
    server.sql("SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_COMMIT'");
    server.sql("SET GLOBAL rpl_semi_sync_master_timeout = 600000");
    server.sql("SET GLOBAL rpl_semi_sync_master_enabled = 1");
    keep(&store, &cache, "n").await;
    assert_eq!(cache.get("n", NOW).as_deref(), Some("one"));
    let other = store.clone();
    let renamed = tokio::spawn(async move {
        let write = other.write("note.rename", |tx| {
            tx.changed(Key::row("notes", "id", "n"));
            tx.exec(&RENAME, args!["n", "two"])
        });
        write.await.map_err(|error: Error| error)
    });
    soon("the change is heard of", || cache.get("n", NOW).is_none()).await;
    assert!(!renamed.is_finished(), "the commit has no answer yet");
    assert_eq!(cached(&store, &cache, "n").await.as_deref(), Some("two"));
    server.sql("SET GLOBAL rpl_semi_sync_master_enabled = 0");
    renamed.await.expect("ends").expect("writes");
    store.close();
}
