//! Streams of Server-Sent Events (HTML standard, section 9.2), as a server writes them. The reader is `browser::sse`.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// A comment, which shows that the connection lives.
pub const SIGN_OF_LIFE: Bytes = Bytes::from_static(b":\n\n");

/// The id of an event, with which a client asks for what comes after it.
#[derive(Clone, Copy)]
pub enum Id<'a> {
    /// The client keeps its last one.
    Unchanged,
    /// The client takes this one.
    Of(&'a dyn Display),
    /// The client forgets its last one.
    Forgotten,
}

/// The lines of an event before its data, and the beginning of that line: for data that is written elsewhere, which ends with
/// two line ends.
pub fn head(name: &str, id: Id<'_>) -> String {
    let mut text = format!("event: {name}\n");
    let _ = match id {
        Id::Unchanged => Ok(()),
        Id::Of(id) => writeln!(text, "id: {id}"),
        Id::Forgotten => writeln!(text, "id"),
    };
    text.push_str("data: ");
    text
}

/// An event. `data` has no line breaks, as JSON has none.
pub fn event(name: &str, id: Id<'_>, data: &dyn Display) -> String {
    let mut text = head(name, id);
    let _ = write!(text, "{data}\n\n");
    text
}

/// The last event of a stream, and after what time the client should open the next one.
pub fn bye(retry: Duration, data: &dyn Display) -> String {
    format!("event: bye\nretry: {}\ndata: {data}\n\n", retry.as_millis())
}

/// An event without a name or data: it moves the client's id, and shows that the connection lives.
pub fn heartbeat(id: &dyn Display) -> String {
    format!("id: {id}\n:\n\n")
}

/// The response of a stream. `cache_control` keeps it out of caches.
pub fn response(body: Body, cache_control: &'static str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    // nginx would collect events until its buffer is full.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_as_the_standard_has_them() {
        assert_eq!(event("a.b", Id::Of(&"0-1"), &"{}"), "event: a.b\nid: 0-1\ndata: {}\n\n");
        assert_eq!(event("a", Id::Unchanged, &1), "event: a\ndata: 1\n\n");
        assert_eq!(event("reset", Id::Forgotten, &"{}"), "event: reset\nid\ndata: {}\n\n");
        assert_eq!(heartbeat(&"0-1"), "id: 0-1\n:\n\n");
        assert_eq!(bye(Duration::from_millis(1500), &"{}"), "event: bye\nretry: 1500\ndata: {}\n\n");
    }
}
