//! Server-sent events over one connection: a response that does not end.
//!
//! [`EventReader`] turns received bytes into events and has no sockets: the body comes in chunks or until the connection
//! closes, and [`browser::sse`] reads what it holds.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use browser::sse::{Event, Events, Unreadable};
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::connection::connect;
use super::response::Malformed;
use super::target::Target;
use crate::measure::Cause;

/// Small, because there are thousands of streams.
const BUFFER_BYTES_INITIAL: usize = 1024;
const HEAD_BYTES_MAX: usize = 64 * 1024;
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
const HEADERS_MAX: usize = 96;

/// An open stream.
pub struct EventStream {
    stream: TcpStream,
    reader: EventReader,
}

impl EventStream {
    /// Connects, sends `request`, and reads the head of the answer, all within `timeout`. `index` numbers the connections of
    /// a run and spreads their source addresses.
    pub async fn open(
        target: &Target,
        index: usize,
        request: &[u8],
        timeout: Duration,
    ) -> Result<EventStream, Cause> {
        let expires = Instant::now() + timeout;
        let stream = match timeout_at(expires, connect(target, index)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Cause::connect(&error)),
            Err(_) => return Err(Cause::ConnectTimeout),
        };
        stream.set_nodelay(true).map_err(|error| Cause::connect(&error))?;
        let mut opened = EventStream { stream, reader: EventReader::default() };
        let head = async {
            opened.stream.write_all(request).await.map_err(|error| Cause::transport(&error))?;
            while opened.reader.status().is_none() {
                opened.read().await?;
            }
            Ok(())
        };
        timeout_at(expires, head).await.map_err(|_| Cause::Timeout)??;
        match opened.reader.status() {
            Some(200) => Ok(opened),
            status => Err(Cause::Status(status.unwrap_or(0), String::new())),
        }
    }

    /// Waits for bytes and calls `on_event` for every event that they complete. Returns the number of bytes.
    pub async fn receive(&mut self, mut on_event: impl FnMut(Event<'_>)) -> Result<usize, Cause> {
        // Events may have come with the head.
        self.reader.events(&mut on_event).map_err(Cause::Malformed)?;
        if self.reader.has_ended() {
            return Err(Cause::Closed);
        }
        let count = self.read().await?;
        self.reader.events(&mut on_event).map_err(Cause::Malformed)?;
        Ok(count)
    }

    async fn read(&mut self) -> Result<usize, Cause> {
        let (stream, reader) = (&mut self.stream, &mut self.reader);
        let count = poll_fn(|context| {
            let mut room = ReadBuf::new(reader.room());
            match Pin::new(&mut *stream).poll_read(context, &mut room) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(room.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(Cause::transport(&error))),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        if count == 0 {
            return Err(Cause::Closed);
        }
        self.reader.advance(count).map_err(Cause::Malformed)?;
        Ok(count)
    }
}

/// Reads the head, then the events.
pub struct EventReader {
    /// `wire[..filled]` has been received and is not decoded yet; the rest is room.
    wire: Vec<u8>,
    filled: usize,
    /// The decoded body from the first incomplete event on.
    events: Events,
    status: Option<u16>,
    framing: Framing,
}

#[derive(Clone, Copy, PartialEq)]
enum Framing {
    UntilClose,
    /// The bytes that are left of the current chunk, with its line end. `None`: a size line comes next.
    Chunks(Option<usize>),
    Ended,
}

impl Default for EventReader {
    fn default() -> EventReader {
        EventReader {
            wire: vec![0; BUFFER_BYTES_INITIAL],
            filled: 0,
            events: Events::new(EVENT_BYTES_MAX),
            status: None,
            framing: Framing::UntilClose,
        }
    }
}

impl EventReader {
    /// Room for received bytes; then call [`EventReader::advance`] with their number.
    pub fn room(&mut self) -> &mut [u8] {
        if self.wire.len() - self.filled < BUFFER_BYTES_INITIAL / 2 {
            self.wire.resize(self.wire.len() * 2, 0);
        }
        &mut self.wire[self.filled..]
    }

    /// `count` more bytes were received.
    pub fn advance(&mut self, count: usize) -> Result<(), Malformed> {
        self.filled += count;
        let mut at = 0;
        if self.status.is_none() {
            let Some(length) = self.read_head()? else { return Ok(()) };
            at = length;
        }
        at += self.decode(at)?;
        self.wire.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }

    /// The status, as soon as the head is whole.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The last chunk has come.
    pub fn has_ended(&self) -> bool {
        self.framing == Framing::Ended
    }

    /// Calls `on_event` for every complete event with data, and drops them.
    pub fn events(&mut self, on_event: &mut impl FnMut(Event<'_>)) -> Result<(), Malformed> {
        let with_data = |event: Event<'_>| {
            if !event.data.is_empty() {
                on_event(event);
            }
        };
        self.events.take(with_data).map_err(|unreadable| match unreadable {
            Unreadable::TooLong(_) => Malformed("event too long"),
            Unreadable::NotText => Malformed("an event is not UTF-8"),
        })
    }

    /// The length of the head, when it is whole.
    fn read_head(&mut self) -> Result<Option<usize>, Malformed> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        let length = match parsed.parse(&self.wire[..self.filled]) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if self.filled > HEAD_BYTES_MAX => {
                return Err(Malformed("head too long"));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Malformed("head is not HTTP/1.1")),
        };
        let is_chunked = parsed.headers.iter().any(|header| {
            header.name.eq_ignore_ascii_case("transfer-encoding")
                && header.value.trim_ascii().eq_ignore_ascii_case(b"chunked")
        });
        self.status = Some(parsed.code.ok_or(Malformed("no status"))?);
        self.framing = if is_chunked { Framing::Chunks(None) } else { Framing::UntilClose };
        Ok(Some(length))
    }

    /// Moves the body in `wire[from..filled]` to `text`. Returns the bytes that are done with.
    fn decode(&mut self, from: usize) -> Result<usize, Malformed> {
        let received = &self.wire[from..self.filled];
        let mut at = 0;
        while at < received.len() {
            match self.framing {
                Framing::Ended => at = received.len(),
                Framing::UntilClose => {
                    self.events.push(&received[at..]);
                    at = received.len();
                }
                Framing::Chunks(None) => match httparse::parse_chunk_size(&received[at..]) {
                    Ok(httparse::Status::Complete((_, 0))) => self.framing = Framing::Ended,
                    Ok(httparse::Status::Complete((line, size))) => {
                        let size = usize::try_from(size).ok().filter(|size| *size <= EVENT_BYTES_MAX);
                        self.framing = Framing::Chunks(Some(size.ok_or(Malformed("chunk too long"))? + 2));
                        at += line;
                    }
                    Ok(httparse::Status::Partial) => return Ok(at),
                    Err(_) => return Err(Malformed("bad chunk size")),
                },
                Framing::Chunks(Some(left)) => {
                    let taken = left.min(received.len() - at);
                    let data = taken.min(left.saturating_sub(2));
                    self.events.push(&received[at..at + data]);
                    self.framing = Framing::Chunks((taken < left).then_some(left - taken));
                    at += taken;
                }
            }
        }
        Ok(at)
    }
}
