//! What reads text that a database or an operator gave, as it stands: for the fuzz targets (`fuzz/`).

use crate::postgres::pg_snapshot::PgSnapshot;
use crate::{Error, Key, Options, Version, mysql, postgres};

/// Whether a database URL can be read.
pub fn database_url(url: &str) -> Result<(), Error> {
    crate::open::database(&Options::new(url, &[]))?.check_url(url)
}

/// How keys are written into a log of changes, and read from it.
pub type KeyText = (fn(&[Key]) -> String, fn(&str) -> Vec<Key>);

/// Those of PostgreSQL and MySQL.
pub const KEY_TEXTS: [KeyText; 2] = [
    (postgres::change_log::text_of, postgres::change_log::keys_of),
    (mysql::change_log::text_of, mysql::change_log::keys_of),
];

/// A snapshot of PostgreSQL.
pub struct SnapshotText(PgSnapshot);

impl SnapshotText {
    /// None for what is none.
    pub fn parse(text: &str) -> Option<SnapshotText> {
        PgSnapshot::parse(text).map(SnapshotText)
    }

    /// Whether a transaction had ended.
    pub fn includes(&self, transaction: u64) -> bool {
        self.0.includes(transaction)
    }

    /// Before it every transaction had ended, and from the second on none.
    pub fn bounds(&self) -> (Version, u64) {
        (self.0.xmin(), self.0.xmax())
    }

    /// Those that ran, as an array of PostgreSQL.
    pub fn xip_array(&self) -> String {
        self.0.xip_array()
    }
}
