//! On a node of a Galera cluster each session waits until its node has applied what others have acknowledged.

use crate::support::{MIGRATIONS, add};
use std::path::Path;
use store::testing::own_mariadb::OwnMariaDb;
use store::testing::own_server::free_port;
use store::testing::say_skipped;
use store::{Error, Options, Sql, Store, args, sql};

const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// A cluster of one node.
fn node() -> Option<OwnMariaDb> {
    if !Path::new(PROVIDER).exists() {
        say_skipped("on Galera: its library is not installed");
        return None;
    }
    OwnMariaDb::start_with(|_| {
        let options = format!("gmcast.listen_addr=tcp://127.0.0.1:{}", free_port());
        let settings = [
            "--wsrep-on=ON".to_owned(),
            format!("--wsrep-provider={PROVIDER}"),
            "--wsrep-cluster-address=gcomm://".to_owned(),
            "--wsrep-node-address=127.0.0.1".to_owned(),
            format!("--wsrep-provider-options={options}"),
            "--binlog-format=ROW".to_owned(),
            "--innodb-autoinc-lock-mode=2".to_owned(),
        ];
        settings.to_vec()
    })
}

async fn waits_for(store: &Store) -> Option<i64> {
    static SETTING: Sql = sql("SELECT CAST(@@wsrep_sync_wait AS SIGNED)");
    let read = store.read(|snapshot| snapshot.one(&SETTING, args![], |row| row.get(0)));
    read.await.map_err(|error: Error| error).expect("reads")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_a_node_of_a_cluster_waits_until_it_has_applied_and_no_other_does() {
    for (server, expected) in [(node(), 7), (OwnMariaDb::start(), 0)] {
        let Some(server) = server else { return };
        let store = Store::open(Options::new(server.url(), MIGRATIONS)).expect("opens");
        add(&store, "n", "ada", "one").await.expect("writes");
        assert_eq!(waits_for(&store).await, Some(expected));
        store.close();
    }
}
