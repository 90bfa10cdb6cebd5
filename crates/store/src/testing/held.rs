//! A table that any connection may read. A write to it waits until the test releases the table.
#![expect(clippy::expect_used, reason = "a test whose database server does not answer has failed")]

use super::mysql::MysqlDatabase;
use super::postgres::PostgresDatabase;
use ::postgres::NoTls;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Ends with this value.
pub struct Held {
    /// Disconnected when it is to end.
    until: Option<Sender<()>>,
    holder: Option<JoinHandle<()>>,
}

impl Held {
    pub(super) fn on_postgres(database: &PostgresDatabase, table: &str) -> Held {
        let (config, lock) = (database.config(), format!("LOCK TABLE {table} IN SHARE MODE"));
        Held::start(move |held, until| {
            let mut client = config.connect(NoTls).expect("connects");
            let mut transaction = client.transaction().expect("begins");
            transaction.batch_execute(&lock).expect("locks");
            hold(&held, &until);
        })
    }

    pub(super) fn on_mysql(database: &MysqlDatabase, table: &str) -> Held {
        let (mut client, lock) = (database.connect(), format!("LOCK TABLES {table} READ"));
        Held::start(move |held, until| {
            client.run(&lock);
            hold(&held, &until);
        })
    }

    /// On a thread of its own, where the drivers may block. Returns when the table is held.
    fn start(work: impl FnOnce(Sender<()>, Receiver<()>) + Send + 'static) -> Held {
        let ((held, is_held), (sender, until)) = (channel(), channel());
        let holder = std::thread::spawn(move || work(held, until));
        is_held.recv().expect("holds the table");
        Held { until: Some(sender), holder: Some(holder) }
    }
}

fn hold(held: &Sender<()>, until: &Receiver<()>) {
    held.send(()).expect("somebody waits for it");
    // Nothing is ever sent: it ends when the other side goes.
    let _ = until.recv();
}

impl Drop for Held {
    fn drop(&mut self) {
        self.until = None;
        if let Some(holder) = self.holder.take() {
            holder.join().expect("it held until now");
        }
    }
}
