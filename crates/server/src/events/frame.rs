//! The events of the streams, as text.

use super::bodies::{ByeBody, ResetBody};
use bytes::Bytes;
use endpoint::sse::{self, Id};
use serde::Serialize;
use std::fmt::Display;
use std::time::Duration;

/// An event. Without an id it does not move the client's cursor.
pub(super) fn event(name: &str, id: Option<&dyn Display>, data: &impl Serialize) -> identity::Result<String> {
    let data = serde_json::to_string(data)
        .map_err(|error| identity::Error::Internal(format!("an event: {error}")))?;
    Ok(sse::event(name, id.map_or(Id::Unchanged, Id::Of), &data))
}

/// A sign of life. With a cursor, the client is up to date with it: every event up to there was sent, and no other was known
/// a moment ago.
pub(super) fn heartbeat(cursor: Option<&str>) -> Bytes {
    match cursor {
        Some(cursor) => sse::heartbeat(&cursor).into(),
        None => sse::SIGN_OF_LIFE,
    }
}

/// A sign of life of a stream that is still behind. With a cursor, it moves that of the client. It has a name, so that no
/// client takes it for a heartbeat, and data, because clients read the data of whatever has a name.
pub(super) fn progress(cursor: Option<&dyn Display>) -> Bytes {
    sse::event("progress", cursor.map_or(Id::Unchanged, Id::Of), &"{}").into()
}

/// The last event of a stream, and after what time the client should open the next one.
pub(super) fn bye(reason: &'static str, retry: Duration) -> Bytes {
    let data = serde_json::to_string(&ByeBody { reason }).unwrap_or_default();
    sse::bye(retry, &data).into()
}

/// The events since the cursor cannot be delivered. The empty id makes the client forget its cursor.
pub(super) fn reset(reason: &'static str) -> Bytes {
    let data = serde_json::to_string(&ResetBody { reason }).unwrap_or_default();
    sse::event("reset", Id::Forgotten, &data).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_as_the_standard_has_them() {
        let text = event("a.b", Some(&"0-1-2"), &serde_json::json!({"line": "one\ntwo"})).expect("writes");
        assert_eq!(text, "event: a.b\nid: 0-1-2\ndata: {\"line\":\"one\\ntwo\"}\n\n");
        assert_eq!(event("a", None, &1).expect("writes"), "event: a\ndata: 1\n\n");
        assert_eq!(&heartbeat(Some("0-1-2"))[..], b"id: 0-1-2\n:\n\n");
        assert_eq!(&progress(Some(&"0-1-2"))[..], b"event: progress\nid: 0-1-2\ndata: {}\n\n");
        assert_eq!(&progress(None)[..], b"event: progress\ndata: {}\n\n");
        let bye = bye("stopping", Duration::from_millis(1500));
        assert_eq!(&bye[..], b"event: bye\nretry: 1500\ndata: {\"reason\":\"stopping\"}\n\n");
    }
}
