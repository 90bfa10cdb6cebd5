//! Server-Sent Events (HTML standard, section 9.2), as far as the stream of the server uses them.

/// More than the longest event has.
const EVENT_SIZE_MAX: usize = 8 * 1024 * 1024;

/// An event, or a sign of life without a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::auth) struct Event {
    /// `event`.
    pub(in crate::auth) name: String,
    /// `id`, if there is one. An empty one forgets the last.
    pub(in crate::auth) id: Option<String>,
    /// `retry`, in milliseconds.
    pub(in crate::auth) retry: Option<u64>,
    /// The lines of `data`.
    pub(in crate::auth) data: String,
}

/// Splits a stream of bytes into events.
#[derive(Default)]
pub(in crate::auth) struct Events {
    rest: Vec<u8>,
}

impl Events {
    /// Adds bytes and returns the events that they complete.
    pub(in crate::auth) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, String> {
        // An end may begin with the last byte of before.
        let mut searched = self.rest.len().saturating_sub(1);
        self.rest.extend_from_slice(bytes);
        let mut start = 0;
        let mut events = Vec::new();
        while let Some(end) =
            self.rest.get(searched..).and_then(|rest| rest.windows(2).position(|pair| pair == b"\n\n"))
        {
            let end = searched + end;
            let block = self.rest.get(start..end).unwrap_or_default();
            let text = std::str::from_utf8(block).map_err(|_| "an event is not UTF-8".to_owned())?;
            events.push(Event::parse(text));
            (start, searched) = (end + 2, end + 2);
        }
        self.rest.drain(..start);
        match self.rest.len() > EVENT_SIZE_MAX {
            true => Err(format!("an event has more than {EVENT_SIZE_MAX} bytes")),
            false => Ok(events),
        }
    }
}

impl Event {
    fn parse(block: &str) -> Event {
        let mut event = Event::default();
        for line in block.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "event" => value.clone_into(&mut event.name),
                "id" if !value.contains('\0') => event.id = Some(value.to_owned()),
                "retry" => event.retry = value.parse().ok(),
                "data" => {
                    if !event.data.is_empty() {
                        event.data.push('\n');
                    }
                    event.data.push_str(value);
                }
                // A comment, or a field of a later version.
                _ => {}
            }
        }
        event
    }

    /// Whether the server has sent all that it knew a moment ago: only its heartbeat has an id and no name.
    pub(super) fn is_heartbeat(&self) -> bool {
        self.name.is_empty() && self.cursor().is_some()
    }

    /// The place behind it, from which the next stream may go on.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "event: a.b\nid: 1\ndata: {\"x\":\ndata: 1}\n\n:\n\nid: 2\n:\n\nevent: reset\nid\ndata: {}\n\nretry: 5\n\n";

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        let whole = Events::default().push(TEXT.as_bytes()).expect("events");
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
            let mut events = Events::default();
            let parts = TEXT.as_bytes().chunks(size).flat_map(|part| events.push(part).expect("events"));
            assert_eq!(parts.collect::<Vec<_>>(), whole, "in parts of {size}");
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
            let events = Events::default().push(text.as_bytes()).expect("events");
            let [event] = &*events else { panic!("{text:?}: {events:?}") };
            assert_eq!((event.cursor(), event.is_heartbeat()), (cursor, is_heartbeat), "{text:?}");
        }
    }

    #[test]
    fn an_event_without_end_is_an_error() {
        let mut events = Events::default();
        events.push(&vec![b'x'; EVENT_SIZE_MAX]).expect("not too long");
        events.push(b"x").expect_err("too long");
    }
}
