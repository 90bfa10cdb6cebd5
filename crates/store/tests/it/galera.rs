//! On a node of a Galera cluster each session waits until its node has applied what others have acknowledged. A node that
//! has lost its cluster is unavailable. Instances at two nodes: `sarsen/tests/it/galera.rs`.

use crate::support::{BODY, INSERT, MIGRATIONS, add};
use std::time::Duration;
use store::testing::galera::{Behind, Cluster};
use store::testing::own_mariadb::OwnMariaDb;
use store::{Error, Key, Options, Sql, Store, args, sql};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

async fn waits_for(url: String) -> Option<i64> {
    static SETTING: Sql = sql("SELECT CAST(@@wsrep_sync_wait AS SIGNED)");
    let store = Store::open(Options::new(url, MIGRATIONS)).expect("opens");
    add(&store, "n", "ada", "one").await.expect("writes");
    let read = store.read(|snapshot| snapshot.one(&SETTING, args![], |row| row.get(0)));
    let setting = read.await.map_err(|error: Error| error).expect("reads");
    store.close();
    setting
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_a_node_of_a_cluster_waits_until_it_has_applied_and_no_other_does() {
    let Some(cluster) = Cluster::start(1) else { return };
    assert_eq!(waits_for(cluster.node(0).url()).await, Some(7));
    let Some(alone) = OwnMariaDb::start() else { return };
    assert_eq!(waits_for(alone.url()).await, Some(0));
}

/// Adds a note whose body says whether it found another one.
async fn decide(store: &Store) -> Option<String> {
    let decided = store.write("note.decide", |tx| {
        let found: Option<String> = tx.one(&BODY, args!["other"], |row| row.get(0))?;
        tx.changed(Key::row("notes", "id", "decision"));
        tx.exec(&INSERT, args!["decision", "bob", if found.is_some() { "after" } else { "before" }])?;
        Ok(found)
    });
    decided.await.map_err(|error: Error| error).expect("writes")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two nodes, and a second in which one is behind: a soak runs it"]
async fn soak_a_command_at_a_node_that_is_behind_reads_what_was_acknowledged_at_another() {
    let Some(cluster) = Cluster::start(2) else { return };
    cluster.prepare_to_be_busy(1);
    let open = |node| {
        // The nodes give different numbers, as by default: a number that both have given refuses one of the two commits.
        let numbers = format!("auto_increment_increment = 2, GLOBAL auto_increment_offset = {}", node + 1);
        cluster.node(node).sql(&format!("SET GLOBAL {numbers}"));
        Store::open(Options::new(cluster.node(node).url(), MIGRATIONS)).expect("opens")
    };
    let (here, there) = (open(1), open(0));
    let mut found = None;
    block_in_place(|| {
        // No foreign key leads from the one row to the other, so that both can be committed.
        cluster.fall_behind(1, Behind::Busy, Duration::from_millis(500), || {
            found = Handle::current().block_on(async {
                add(&there, "other", "ada", "one").await.expect("writes");
                decide(&here).await
            });
        });
    });
    assert_eq!(found.as_deref(), Some("one"));
    [here, there].iter().for_each(Store::close);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a cluster notices after five seconds that it has lost a node: a soak runs it"]
async fn soak_a_node_that_has_lost_its_cluster_is_unavailable_until_it_has_one() {
    let Some(mut cluster) = Cluster::start(2) else { return };
    let store = Store::open(Options::new(cluster.node(1).url(), MIGRATIONS)).expect("opens");
    add(&store, "first", "ada", "one").await.expect("writes");
    let read = || async {
        let read = store.read(|snapshot| snapshot.one(&BODY, args!["first"], |row| row.get::<String>(0)));
        read.await.map(|body| assert_eq!(body.as_deref(), Some("one")))
    };
    read().await.expect("reads");
    cluster.kill(0);
    // Until it is noticed that the other one is gone the node only waits.
    let refused = |error: Error| {
        assert!(!matches!(error, Error::Database(_)), "{error}");
        error.to_string().contains("lost its cluster")
    };
    while !read().await.is_err_and(refused) {}
    let mut tries = 0..;
    while let Some(number) = tries.next()
        && !add(&store, &format!("note {number}"), "ada", &number.to_string()).await.is_err_and(refused)
    {}
    cluster.node(1).sql("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'");
    while let Err(error) = read().await {
        refused(error);
    }
    store.close();
}
