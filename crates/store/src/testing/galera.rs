//! A Galera cluster of a test's own, on this machine: every node accepts writes. There is none where Galera is not
//! installed.
#![expect(clippy::expect_used, reason = "a test whose servers do not answer has failed")]

use super::own::End;
use super::own_mariadb::OwnMariaDb;
use super::own_server::free_port;
use super::say_skipped;
use crate::threads::pause;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";
/// For what a node was given to apply, beyond the time for which it was kept from it.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(60);
/// Each row that is inserted keeps the applier of a node busy, if that node has the trigger.
const PAUSES: &str = "CREATE DATABASE pauses;
    CREATE TABLE pauses.pauses (id BIGINT NOT NULL PRIMARY KEY, seconds DOUBLE NOT NULL)";
/// Of one node alone.
const BUSY: &str = "SET SESSION wsrep_on = OFF;
    CREATE TRIGGER pauses.busy BEFORE INSERT ON pauses.pauses FOR EACH ROW DO SLEEP(NEW.seconds);
    SET GLOBAL slave_run_triggers_for_rbr = YES";

/// Nodes that are stopped and removed with this value.
pub struct Cluster {
    nodes: Vec<OwnMariaDb>,
}

/// Waits until a node takes statements: one that has given another its data does so a moment later.
fn until_prepared(node: &OwnMariaDb) {
    let (mut connection, since) = (node.connect(), Instant::now());
    while let Err(error) = connection.try_run("SELECT COUNT(*) FROM mysql.db") {
        assert!(since.elapsed() < CATCH_UP_LIMIT, "the node takes no statements: {error}");
        pause(Duration::from_millis(5));
    }
}

/// How a node falls behind the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behind {
    /// Its tables are locked, as for a backup: it can be read, and its own writes wait as well.
    Locked,
    /// One change takes it long to apply: it can be read, and its own writes wait only for their commit.
    Busy,
}

impl Cluster {
    /// None where MySQL is not tested, or a node cannot be started here.
    pub fn start(nodes: usize) -> Option<Cluster> {
        if !Path::new(PROVIDER).exists() {
            say_skipped("on Galera: its library is not installed");
            return None;
        }
        let (mut cluster, mut known) = (Cluster { nodes: Vec::new() }, Vec::new());
        for _ in 0..nodes {
            let (port, incremental, transfer) = (free_port(), free_port(), free_port());
            let options = format!(
                "gmcast.listen_addr=tcp://127.0.0.1:{port};ist.recv_addr=127.0.0.1:{incremental};gcache.size=8M"
            );
            let settings = [
                "--wsrep-on=ON".to_owned(),
                format!("--wsrep-provider={PROVIDER}"),
                format!("--wsrep-provider-options={options}"),
                format!("--wsrep-cluster-address=gcomm://{}", known.join(",")),
                "--wsrep-node-address=127.0.0.1".to_owned(),
                "--wsrep-sst-method=rsync".to_owned(),
                format!("--wsrep-sst-receive-address=127.0.0.1:{transfer}"),
                // As the manual asks for.
                "--wsrep-auto-increment-control=OFF".to_owned(),
                "--binlog-format=ROW".to_owned(),
                "--innodb-autoinc-lock-mode=2".to_owned(),
                "--innodb-log-file-size=8M".to_owned(),
            ];
            let node = match cluster.nodes.first() {
                None => OwnMariaDb::start_with(|_| settings.to_vec())?,
                Some(first) => OwnMariaDb::start_joining(&first.password, settings.to_vec())?,
            };
            known.push(format!("127.0.0.1:{port}"));
            cluster.nodes.push(node);
        }
        cluster.nodes.iter().for_each(until_prepared);
        cluster.nodes.first()?.sql(PAUSES);
        Some(cluster)
    }

    /// A node, by its number.
    pub fn node(&self, number: usize) -> &OwnMariaDb {
        self.nodes.get(number).expect("a node")
    }

    /// Kills a node. Without a majority the others answer nothing.
    pub fn kill(&mut self, number: usize) {
        self.nodes.get_mut(number).expect("a node").stop(End::Crash);
    }

    /// Makes [`Behind::Busy`] possible at a node.
    pub fn prepare_to_be_busy(&self, node: usize) {
        self.node(node).sql(BUSY);
    }

    /// Keeps a node from applying what the others commit, for so long. `begun` runs when that is so; all is applied at
    /// the end.
    pub fn fall_behind(&self, node: usize, how: Behind, long: Duration, begun: impl FnOnce()) {
        let mut connection = self.node(node).connect();
        let since = Instant::now();
        match how {
            Behind::Locked => {
                connection.run("SET GLOBAL wsrep_desync = ON; FLUSH TABLES WITH READ LOCK");
                begun();
                pause(long);
                connection.run("UNLOCK TABLES; SET GLOBAL wsrep_desync = OFF");
            }
            Behind::Busy => {
                static NUMBER: AtomicU32 = AtomicU32::new(0);
                let (id, seconds) = (NUMBER.fetch_add(1, Ordering::Relaxed), long.as_secs_f64());
                let other = usize::from(node == 0);
                self.node(other).sql(&format!("INSERT INTO pauses.pauses VALUES ({id}, {seconds})"));
                begun();
                let applied = format!("SELECT COUNT(*) FROM pauses.pauses WHERE id = {id}");
                while connection.first::<i64>(&applied) == 0 {
                    assert!(since.elapsed() < long + CATCH_UP_LIMIT, "it does not catch up");
                    pause(Duration::from_millis(5));
                }
            }
        }
        connection.run("SET SESSION wsrep_sync_wait = 7; START TRANSACTION; COMMIT");
    }
}
