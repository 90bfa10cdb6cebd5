//! What reads text that a database or an operator gave, as it stands: for the fuzz targets (`fuzz/`).

use crate::postgres::seen::Seen;
use crate::{Error, Key, Options, Version, mysql, postgres};

/// Whether a database URL can be read.
pub fn database_url(url: &str) -> Result<(), Error> {
    Options::new(url, &[]).place().map(drop)
}

/// How keys are written into a log of changes, and read from it.
pub type KeyText = (fn(&[Key]) -> String, fn(&str) -> Vec<Key>);

/// Those of PostgreSQL and MySQL.
pub const KEY_TEXTS: [KeyText; 2] =
    [(postgres::log::text_of, postgres::log::keys_of), (mysql::feed::text_of, mysql::feed::keys_of)];

/// A snapshot of PostgreSQL.
pub struct SnapshotText(Seen);

impl SnapshotText {
    /// None for what is none.
    pub fn parse(text: &str) -> Option<SnapshotText> {
        Seen::parse(text).map(SnapshotText)
    }

    /// Whether a transaction had ended.
    pub fn holds(&self, transaction: u64) -> bool {
        self.0.holds(transaction)
    }

    /// Before it every transaction had ended, and from the second on none.
    pub fn bounds(&self) -> (Version, u64) {
        (self.0.horizon(), self.0.next())
    }

    /// Those that ran, as an array of PostgreSQL.
    pub fn running(&self) -> String {
        self.0.running_text()
    }
}
