//! HTTP/1.1 over a bare socket: requests with their answers, and streams that are read bit by bit.

use browser::sse::{Event, Events};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Longer than any held poll.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const HEAD_MAX: usize = 64 * 1024;
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: String,
}

/// A connection to a server, for one request after another.
#[derive(Default)]
pub struct Connection {
    open: Option<(SocketAddr, Bytes)>,
}

impl Connection {
    /// Sends a request and waits for its answer. After an error the next request opens a new connection.
    pub fn request(
        &mut self,
        address: SocketAddr,
        head: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        let known = self.open.take().filter(|(open, _)| *open == address);
        let mut bytes = match known {
            Some((_, bytes)) => bytes,
            None => Bytes::connect(address)?,
        };
        bytes.send(head, headers, body)?;
        let (status, body) = bytes.head()?;
        let text = bytes.all(body)?;
        self.open = Some((address, bytes));
        Ok(Answer { status, body: text })
    }
}

/// An answer that does not end. Dropping it closes the connection.
pub struct Stream {
    bytes: Bytes,
    body: Body,
    events: Events,
    /// Complete events that nobody has asked for yet.
    ready: VecDeque<Event<'static>>,
}

impl Stream {
    /// Sends a request. An answer other than 200 is returned whole.
    pub fn open(address: SocketAddr, head: &str, body: &str) -> io::Result<Result<Stream, Answer>> {
        let mut bytes = Bytes::connect(address)?;
        bytes.send(head, &[], body)?;
        let (status, body) = bytes.head()?;
        if status != 200 {
            let body = bytes.all(body)?;
            return Ok(Err(Answer { status, body }));
        }
        Ok(Ok(Stream { bytes, body, events: Events::new(EVENT_BYTES_MAX), ready: VecDeque::new() }))
    }

    /// The next event, if one is complete within `limit`. An error means that the stream has ended.
    pub fn event(&mut self, limit: Duration) -> io::Result<Option<Event<'static>>> {
        self.bytes.socket.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match self.bytes.part(&mut self.body) {
                Ok(Some(part)) => {
                    self.events.push(&part);
                    let ready = &mut self.ready;
                    let taken = self.events.take(|event| ready.push_back(event.into_owned()));
                    taken.map_err(|unreadable| invalid(unreadable.to_string()))?;
                }
                Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if is_timeout(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn invalid<E: Into<Box<dyn std::error::Error + Send + Sync>>>(error: E) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// How the length of a body is known, and what is missing of it.
enum Body {
    Length(usize),
    Chunks,
}

/// A socket with what has been read ahead.
struct Bytes {
    socket: TcpStream,
    ahead: Vec<u8>,
}

impl Bytes {
    fn connect(address: SocketAddr) -> io::Result<Bytes> {
        let socket = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(ANSWER_LIMIT))?;
        socket.set_read_timeout(Some(ANSWER_LIMIT))?;
        Ok(Bytes { socket, ahead: Vec::new() })
    }

    fn send(&mut self, head: &str, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
        let mut text = format!("{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("Content-Type: application/json\r\n\r\n");
        text.push_str(body);
        self.socket.write_all(text.as_bytes())
    }

    fn read_ahead(&mut self) -> io::Result<()> {
        let mut part = [0; 16 * 1024];
        match self.socket.read(&mut part)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.ahead.extend(&part[..count]);
                Ok(())
            }
        }
    }

    /// The status of an answer, and how its body is sent.
    fn head(&mut self) -> io::Result<(u16, Body)> {
        let end = loop {
            if let Some(end) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if self.ahead.len() > HEAD_MAX {
                return Err(invalid("the head of an answer is too long"));
            }
            self.read_ahead()?;
        };
        let head: Vec<u8> = self.ahead.drain(..end + 4).collect();
        let head = String::from_utf8(head).map_err(invalid)?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| invalid("an answer without a status"))?;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length = field("content-length:").and_then(|length| length.parse().ok());
        Ok((status, length.map_or(Body::Chunks, Body::Length)))
    }

    fn all(&mut self, mut body: Body) -> io::Result<String> {
        let mut text = Vec::new();
        while let Some(part) = self.part(&mut body)? {
            text.extend(part);
        }
        String::from_utf8(text).map_err(invalid)
    }

    /// The next part of a body; none at its end. After an error by a time limit, it can be called again.
    fn part(&mut self, body: &mut Body) -> io::Result<Option<Vec<u8>>> {
        loop {
            match body {
                Body::Length(0) => return Ok(None),
                Body::Length(missing) if !self.ahead.is_empty() => {
                    let count = self.ahead.len().min(*missing);
                    *missing -= count;
                    return Ok(Some(self.ahead.drain(..count).collect()));
                }
                Body::Length(_) => {}
                Body::Chunks => {
                    if let Some(chunk) = self.chunk()? {
                        return Ok(Some(chunk).filter(|chunk| !chunk.is_empty()));
                    }
                }
            }
            self.read_ahead()?;
        }
    }

    /// A chunk, if a whole one has been read ahead. The last one is empty.
    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(end) = self.ahead.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&self.ahead[..end]).map_err(invalid)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(invalid)?;
        let whole = end + 2 + size + 2;
        if self.ahead.len() < whole {
            return Ok(None);
        }
        let chunk = self.ahead[end + 2..end + 2 + size].to_vec();
        self.ahead.drain(..whole);
        Ok(Some(chunk))
    }
}
