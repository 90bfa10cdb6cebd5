//! Deletes the rows of a billing connection in slices. Rows that refer to others are deleted first.

use super::{connections, customers, events, prices, subscriptions, walks};
use crate::Result;
use crate::ids::{BillingConnectionId, OrganizationId};
use store::Tx;

/// Deletes up to `most` rows of a deleted connection, if there is one. Returns the number of deleted rows.
pub fn erase_deleted(tx: &mut Tx<'_>, most: i64) -> Result<i64> {
    connections::next_deleted(tx)?.map_or(Ok(0), |id| erase(tx, &id, most))
}

/// Deletes up to `most` rows of the connections of an organization. Returns the number of deleted rows.
pub(crate) fn erase_some(tx: &mut Tx<'_>, organization: &OrganizationId, most: i64) -> Result<i64> {
    connections::next_of(tx, organization)?.map_or(Ok(0), |id| erase(tx, &id, most))
}

fn erase(tx: &mut Tx<'_>, id: &BillingConnectionId, most: i64) -> Result<i64> {
    let mut left = most;
    left -= events::erase(tx, id, left)?;
    left -= subscriptions::erase(tx, id, left)?;
    left -= customers::erase(tx, id, left)?;
    left -= prices::erase(tx, id, left)?;
    left -= walks::erase(tx, id, left)?;
    if left > 0 {
        connections::remove(tx, id)?;
        left -= 1;
    }
    Ok(most - left)
}
