//! A column that is sealed with the secret key, as the module that owns its table describes it. `sealed` lists all of them.

use crate::Result;
use crate::secrets::{Random, SecretKey};
use store::{Snapshot, Sql, Tx, args};

/// Rows that one statement reads.
const PAGE: i64 = 200;

/// A sealed column of a table that is read in pages. Its value may be NULL.
pub(crate) struct SealedColumn {
    /// The number of the migration that creates the table. A backup of an earlier version has no such table.
    pub(crate) migration: i64,
    /// Reads the ids and the values of the next `?2` rows after the id `?1`, in the order of their ids.
    pub(crate) page: &'static Sql,
    /// Sets the value of the row `?1` to `?2`. `None` if the values are dropped before the key changes.
    pub(crate) set: Option<&'static Sql>,
    /// What the value of the row with this id is bound to.
    pub(crate) binding: fn(&str) -> String,
}

impl SealedColumn {
    pub(crate) fn open_all(&self, snapshot: &mut Snapshot<'_>, key: &SecretKey) -> Result<u64> {
        let (mut count, mut after) = (0, String::new());
        loop {
            let rows = self.rows_after(snapshot, &after)?;
            for (id, value) in &rows {
                if let Some(sealed) = value {
                    key.open(&(self.binding)(id), sealed)?;
                    count += 1;
                }
            }
            let Some((last, _)) = rows.into_iter().next_back() else { return Ok(count) };
            after = last;
        }
    }

    pub(crate) fn reseal(
        &self,
        tx: &mut Tx<'_>,
        from: &SecretKey,
        to: &SecretKey,
        random: &dyn Random,
    ) -> Result<u64> {
        let Some(set) = self.set else { return Ok(0) };
        let (mut count, mut after) = (0, String::new());
        loop {
            let rows = self.rows_after(tx.snapshot(), &after)?;
            for (id, value) in &rows {
                if let Some(sealed) = value {
                    let binding = (self.binding)(id);
                    let resealed = to.seal(&binding, &from.open(&binding, sealed)?, random)?;
                    tx.exec(set, args![id, &resealed])?;
                    count += 1;
                }
            }
            let Some((last, _)) = rows.into_iter().next_back() else { return Ok(count) };
            after = last;
        }
    }

    fn rows_after(&self, snapshot: &mut Snapshot<'_>, after: &str) -> Result<Vec<(String, Option<Vec<u8>>)>> {
        Ok(snapshot.all(self.page, args![after, PAGE], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }
}
