//! The key under which a backup is marked, and what its mark shows.

/// A key under which backups are marked, so that their check shows who made them.
#[derive(Clone)]
pub struct MarkKey([u8; 32]);

impl MarkKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 32]) -> MarkKey {
        MarkKey(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for MarkKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("MarkKey(…)")
    }
}

/// What the end of a file shows about who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The key with this position among those that were given.
    Key(usize),
    /// Another key.
    OtherKey,
    /// An earlier version of the program, or anybody: the checksum is right and needs no key.
    Plain,
    /// Nobody: the file was not made as a backup.
    None,
}
