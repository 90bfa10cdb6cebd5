//! What a client of a live query holds. The watchers of a run and the checker apply events by the same rules, those of
//! the protocol.

use super::record::{Event, RowState, Version};
use std::collections::HashMap;

/// The state of one subscription.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The newest value, if one has arrived.
    pub value: Option<Value>,
}

/// A value with what identifies it.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its version, also of a later `same`.
    pub version: Version,
    /// The version up to which it lacks nothing.
    pub settled: Version,
    /// Its digest.
    pub digest: String,
    /// Its rows.
    pub rows: Vec<RowState>,
}

impl Held {
    /// What a client sends as `have`.
    pub fn have(&self) -> Option<String> {
        self.value.as_ref().map(|value| format!("{}/{}", value.version.0, value.digest))
    }

    /// Takes an event over. An error says what is wrong with it; then the state stays as it was.
    pub fn apply(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Value { version, settled, digest, rows } => {
                self.value = Some(Value {
                    version: version.clone(),
                    settled: settled.as_ref().unwrap_or(version).clone(),
                    digest: digest.clone(),
                    rows: rows.clone(),
                });
            }
            Event::Rows { version, settled, base, digest, set, gone, order } => {
                let held = self.value.as_mut().ok_or("row changes for a client that holds nothing")?;
                if held.version != *base {
                    return Err(format!(
                        "row changes of {} for a client that holds {}",
                        base.0, held.version.0
                    ));
                }
                let rows = changed(&held.rows, set, gone, order.as_deref())?;
                let settled = settled.as_ref().unwrap_or(version).clone();
                *held = Value { version: version.clone(), settled, digest: digest.clone(), rows };
            }
            Event::Same { version, settled } => {
                let held = self.value.as_mut().ok_or("`same` for a client that holds nothing")?;
                if let Some(version) = version {
                    held.version = version.clone();
                    held.settled = settled.as_ref().unwrap_or(version).clone();
                }
            }
            Event::Answer { .. } | Event::Quiet => {}
        }
        Ok(())
    }
}

/// The list after a change. Rows that are new come last unless `order` says otherwise.
fn changed(
    held: &[RowState],
    set: &[RowState],
    gone: &[u32],
    order: Option<&[u32]>,
) -> Result<Vec<RowState>, String> {
    let mut rows = held.to_vec();
    for key in gone {
        let place = rows.iter().position(|row| row.key == *key);
        rows.remove(place.ok_or_else(|| format!("row {key} is removed but was not in the list"))?);
    }
    for row in set {
        match rows.iter_mut().find(|held| held.key == row.key) {
            Some(held) => *held = row.clone(),
            None => rows.push(row.clone()),
        }
    }
    let Some(order) = order else { return Ok(rows) };
    let mut by_key: HashMap<u32, RowState> = rows.into_iter().map(|row| (row.key, row)).collect();
    let row = |key: &u32| by_key.remove(key).ok_or_else(|| format!("the order names row {key} wrongly"));
    let ordered = order.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    match by_key.keys().next() {
        None => Ok(ordered),
        Some(key) => Err(format!("the order leaves out row {key}")),
    }
}
