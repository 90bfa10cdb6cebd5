//! Server-Sent Events as a client reads them (HTML standard, section 9.2), whatever the pieces are in which they arrive. Lines
//! end with `\n`, as Sarsen writes them.

use std::borrow::Cow;
use std::fmt;

/// An event, or a comment, which has nothing of all this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// `event`.
    pub name: Cow<'a, str>,
    /// `id`, if there is one. An empty one forgets the last.
    pub id: Option<Cow<'a, str>>,
    /// `retry`, in milliseconds.
    pub retry: Option<u64>,
    /// The lines of `data`.
    pub data: Cow<'a, str>,
}

impl<'a> Event<'a> {
    /// Reads the lines of an event, with or without the empty one that ends it.
    pub fn parse(block: &'a str) -> Event<'a> {
        let (mut event, mut has_data) = (Event::default(), false);
        for line in block.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "event" => event.name = value.into(),
                "id" if !value.contains('\0') => event.id = Some(value.into()),
                "retry" => event.retry = value.parse().ok(),
                "data" if !has_data => (event.data, has_data) = (value.into(), true),
                "data" => event.data.to_mut().extend(["\n", value]),
                // A comment, or a field of a later version.
                _ => {}
            }
        }
        event
    }

    /// The same, without the bytes that it was read from.
    pub fn into_owned(self) -> Event<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Event { name: owned(self.name), id: self.id.map(owned), retry: self.retry, data: owned(self.data) }
    }

    /// The place behind it, from which the next stream may go on.
    pub fn cursor(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Whether the server has sent all that it knew a moment ago: of Sarsen's events only the heartbeat has an id and no name.
    pub fn is_heartbeat(&self) -> bool {
        self.name.is_empty() && self.cursor().is_some()
    }
}

/// Why a stream cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// An event has more bytes than this.
    TooLong(usize),
    /// An event is not UTF-8.
    NotText,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::TooLong(most) => write!(out, "an event has more than {most} bytes"),
            Unreadable::NotText => out.write_str("an event is not UTF-8"),
        }
    }
}

/// Splits a stream of bytes into events.
pub struct Events {
    rest: Vec<u8>,
    /// No event ends in `rest[..searched]`.
    searched: usize,
    event_bytes_max: usize,
}

impl Events {
    /// Nothing has arrived yet. A longer event than this ends the stream.
    pub fn new(event_bytes_max: usize) -> Events {
        Events { rest: Vec::new(), searched: 0, event_bytes_max }
    }

    /// Bytes have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// Calls `on_event` for every complete event, and drops them.
    pub fn take(&mut self, mut on_event: impl FnMut(Event<'_>)) -> Result<(), Unreadable> {
        let mut start = 0;
        // The first of the two line ends may be the last byte that was searched.
        let mut from = self.searched.saturating_sub(1);
        while let Some(found) = self.rest[from..].windows(2).position(|pair| pair == b"\n\n") {
            let end = from + found;
            let block = std::str::from_utf8(&self.rest[start..end]).map_err(|_| Unreadable::NotText)?;
            on_event(Event::parse(block));
            (start, from) = (end + 2, end + 2);
        }
        self.rest.drain(..start);
        self.searched = self.rest.len();
        match self.searched > self.event_bytes_max {
            true => Err(Unreadable::TooLong(self.event_bytes_max)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "event: a.b\nid: 1\ndata: {\"x\":\ndata: 1}\n\n:\n\nid: 2\n:\n\nevent: reset\nid\ndata: {}\n\nretry: 5\n\n";

    /// The events of a stream that arrives in parts of this size.
    fn read(bytes: &[u8], size: usize) -> Vec<Event<'static>> {
        let (mut events, mut all) = (Events::new(1000), Vec::new());
        for part in bytes.chunks(size.min(bytes.len())) {
            events.push(part);
            events.take(|event| all.push(event.into_owned())).expect("events");
        }
        all
    }

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        let whole = read(TEXT.as_bytes(), usize::MAX);
        assert_eq!(whole.len(), 5);
        assert_eq!(
            (&*whole[0].name, whole[0].id.as_deref(), &*whole[0].data),
            ("a.b", Some("1"), "{\"x\":\n1}")
        );
        assert_eq!(whole[1], Event::default());
        assert_eq!(whole[2].id.as_deref(), Some("2"));
        assert_eq!((&*whole[3].name, whole[3].id.as_deref()), ("reset", Some("")));
        assert_eq!(whole[4].retry, Some(5));
        for size in 1..20 {
            assert_eq!(read(TEXT.as_bytes(), size), whole, "in parts of {size}");
        }
    }

    #[test]
    fn a_cursor_without_a_name_is_a_heartbeat() {
        for (text, cursor, is_heartbeat) in [
            ("id: 1\n:\n\n", Some("1"), true),
            ("event: progress\nid: 1\ndata: {}\n\n", Some("1"), false),
            ("event: a.b\nid: 1\n\n", Some("1"), false),
            ("event: a.b\ndata: {}\n\n", None, false),
            ("id\n:\n\n", None, false),
            ("id: a\0b\n:\n\n", None, false),
            ("data: {}\n\n", None, false),
            (":\n\n", None, false),
        ] {
            let events = read(text.as_bytes(), usize::MAX);
            let [event] = &*events else { panic!("{text:?}: {events:?}") };
            assert_eq!((event.cursor(), event.is_heartbeat()), (cursor, is_heartbeat), "{text:?}");
        }
    }

    #[test]
    fn an_event_without_end_is_an_error() {
        let mut events = Events::new(100);
        events.push(&[b'x'; 100]);
        assert_eq!(events.take(|_| panic!("it has no end")), Ok(()));
        events.push(b"x");
        assert_eq!(events.take(|_| panic!("it has no end")), Err(Unreadable::TooLong(100)));
    }

    #[test]
    fn an_event_that_is_no_text_is_an_error() {
        let mut events = Events::new(100);
        events.push(b"data: \xff\n\n");
        assert_eq!(events.take(|_| panic!("it is no event")), Err(Unreadable::NotText));
    }
}
