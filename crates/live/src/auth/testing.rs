//! For the fuzz targets: what is read from other servers.

use super::keys::Keys;
use super::sarsen::Events;

/// Whether these bytes are a key set with a key that can be used.
pub fn key_set(bytes: &[u8]) -> bool {
    Keys::parse(bytes).is_ok()
}

/// Name, id and data of the events in these bytes, which arrive in pieces of this size. `None` if they are not events.
pub fn events(bytes: &[u8], piece: usize) -> Option<Vec<(String, Option<String>, String)>> {
    let mut events = Events::default();
    let mut all = Vec::new();
    for piece in bytes.chunks(piece) {
        all.extend(events.push(piece).ok()?);
    }
    Some(all.into_iter().map(|event| (event.name, event.id, event.data)).collect())
}
