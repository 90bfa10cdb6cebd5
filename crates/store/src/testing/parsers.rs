//! What reads text that a database or an operator gave, as it stands: for the fuzz targets (`fuzz/`).

use crate::postgres::pg_snapshot::PgSnapshot;
use crate::remote::key_text;
use crate::{Error, Key, Options};

/// Whether a database URL can be read.
pub fn database_url(url: &str) -> Result<(), Error> {
    crate::open::database(&Options::new(url, &[]))?.check_url(url)
}

/// Keys as the change log stores them.
pub fn key_text(keys: &[Key]) -> String {
    key_text::text_of(keys)
}

/// The keys in such a text.
pub fn keys_of(text: &str) -> Vec<Key> {
    key_text::keys_of(text)
}

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
    pub fn bounds(&self) -> (u64, u64) {
        (self.0.xmin(), self.0.xmax())
    }

    /// Those that ran, as an array of PostgreSQL.
    pub fn xip_array(&self) -> String {
        self.0.xip_array()
    }
}
