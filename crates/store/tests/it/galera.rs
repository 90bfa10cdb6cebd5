//! On a node of a Galera cluster each session waits until its node has applied what others have acknowledged. A node that
//! has lost its cluster is unavailable. Instances at two nodes: `sarsen/tests/it/galera.rs`.

use crate::support::{BODY, MIGRATIONS, add};
use store::testing::galera::Cluster;
use store::testing::own_mariadb::OwnMariaDb;
use store::{Error, Options, Sql, Store, args, sql};

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
