//! On a node of a Galera cluster each session waits until its node has applied what others have acknowledged. Instances at
//! two nodes: `sarsen/tests/it/galera.rs`.

use crate::support::{MIGRATIONS, add};
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
