//! For the fuzz targets: what is read from other servers.

use super::keys::Keys;
use browser::sse::Events;

/// Whether these bytes are a key set with a key that can be used.
pub fn key_set(bytes: &[u8]) -> bool {
    Keys::parse(bytes).is_ok()
}

/// Name, id and data of the events in these bytes, which arrive in pieces of this size. `None` if they are not events.
pub fn events(bytes: &[u8], piece: usize) -> Option<Vec<(String, Option<String>, String)>> {
    let (mut events, mut all) = (Events::new(1024 * 1024), Vec::new());
    for piece in bytes.chunks(piece) {
        events.push(piece);
        let read = |event: browser::sse::Event<'_>| {
            let id = event.id.map(|id| id.into_owned());
            all.push((event.name.into_owned(), id, event.data.into_owned()));
        };
        events.take(read).ok()?;
    }
    Some(all)
}
