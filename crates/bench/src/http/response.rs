//! Reads HTTP/1.1 answers from the pieces that a socket delivers, in one reused buffer.
//!
//! Promises: the result does not depend on where the pieces are cut. A head or body beyond its limit, and anything that is
//! not HTTP/1.1, is [`Malformed`]. It has no sockets.

use std::mem::MaybeUninit;

/// A head longer than this is refused, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// A body longer than this is refused, in bytes. No answer to the bench is near it.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const HEADERS_MAX: usize = 96;
const BUFFER_BYTES_INITIAL: usize = 2048;

/// The bytes are not an HTTP/1.1 answer; the text names the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Malformed(pub &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    NeedMore,
    Complete,
}

/// Reads the answers of one connection; [`ResponseReader::begin_next`] starts the next one.
pub struct ResponseReader {
    /// `buffer[..filled]` has been received; the rest is room.
    buffer: Vec<u8>,
    filled: usize,
    /// The start of the current answer.
    start: usize,
    head: Head,
    phase: Phase,
    /// The decoded body, when it came in chunks.
    chunks: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Head {
    status: u16,
    end: usize,
    close: bool,
    retry_after_s: Option<u64>,
}

#[derive(Clone, Copy)]
enum Phase {
    Head,
    Sized { end: usize },
    Chunked { at: usize },
    UntilClose,
    Complete { body_end: usize, answer_end: usize, chunked: bool },
}

impl Default for ResponseReader {
    fn default() -> ResponseReader {
        ResponseReader {
            buffer: vec![0; BUFFER_BYTES_INITIAL],
            filled: 0,
            start: 0,
            head: Head::default(),
            phase: Phase::Head,
            chunks: Vec::new(),
        }
    }
}

impl ResponseReader {
    /// Room for received bytes; then call [`ResponseReader::advance`] with their number.
    pub fn room(&mut self) -> &mut [u8] {
        if self.buffer.len() - self.filled < BUFFER_BYTES_INITIAL / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// `count` more bytes were received.
    pub fn advance(&mut self, count: usize) -> Result<Progress, Malformed> {
        self.filled += count;
        self.parse()
    }

    /// The same for bytes that are not in the room yet.
    pub(super) fn give(&mut self, bytes: &[u8]) -> Result<Progress, Malformed> {
        while self.buffer.len() - self.filled < bytes.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        self.buffer[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len())
    }

    /// The peer has closed its side. `Complete` if the body ends that way.
    pub fn end_of_stream(&mut self) -> Progress {
        if let Phase::UntilClose = self.phase {
            let end = self.filled;
            self.phase = Phase::Complete { body_end: end, answer_end: end, chunked: false };
            return Progress::Complete;
        }
        Progress::NeedMore
    }

    /// Drops the current answer. Bytes after it, if there are any, begin the next one.
    pub fn begin_next(&mut self) -> Result<Progress, Malformed> {
        if let Phase::Complete { answer_end, .. } = self.phase {
            self.buffer.copy_within(answer_end..self.filled, 0);
            self.filled -= answer_end;
        }
        self.start = 0;
        self.phase = Phase::Head;
        if self.filled == 0 { Ok(Progress::NeedMore) } else { self.parse() }
    }

    /// Whether a byte of the current answer has arrived.
    pub fn has_begun(&self) -> bool {
        self.filled > 0
    }

    /// The answer; `None` until it is complete.
    pub fn response(&self) -> Option<Response<'_>> {
        let Phase::Complete { body_end, chunked, .. } = self.phase else { return None };
        let head = &self.buffer[self.start..self.head.end];
        let body = if chunked { &self.chunks[..] } else { &self.buffer[self.head.end..body_end] };
        Some(Response {
            status: self.head.status,
            close: self.head.close,
            retry_after_s: self.head.retry_after_s,
            body,
            head,
        })
    }

    fn parse(&mut self) -> Result<Progress, Malformed> {
        loop {
            match self.phase {
                Phase::Head => {
                    if !self.parse_head()? {
                        return Ok(Progress::NeedMore);
                    }
                }
                Phase::Sized { end } => {
                    if self.filled < end {
                        return Ok(Progress::NeedMore);
                    }
                    self.phase = Phase::Complete { body_end: end, answer_end: end, chunked: false };
                }
                Phase::Chunked { at } => {
                    if !self.parse_chunk(at)? {
                        return Ok(Progress::NeedMore);
                    }
                }
                Phase::UntilClose => {
                    let received = self.filled - self.head.end;
                    return if received > BODY_BYTES_MAX {
                        Err(Malformed("body too long"))
                    } else {
                        Ok(Progress::NeedMore)
                    };
                }
                Phase::Complete { .. } => return Ok(Progress::Complete),
            }
        }
    }

    /// True when the head is whole and the phase has moved on (or an interim answer was skipped).
    fn parse_head(&mut self) -> Result<bool, Malformed> {
        let received = &self.buffer[self.start..self.filled];
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut []);
        let status = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut parsed,
            received,
            &mut headers,
        );
        let length = match status {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if received.len() > HEAD_BYTES_MAX => {
                return Err(Malformed("head too long"));
            }
            Ok(httparse::Status::Partial) => return Ok(false),
            Err(_) => return Err(Malformed("head is not HTTP/1.1")),
        };
        let code = parsed.code.ok_or(Malformed("no status"))?;
        let mut head = Head {
            status: code,
            end: self.start + length,
            close: parsed.version == Some(0),
            retry_after_s: None,
        };
        let framing = read_headers(parsed.headers, &mut head)?;
        self.begin_body(head, framing)?;
        Ok(true)
    }

    fn begin_body(&mut self, head: Head, framing: Framing) -> Result<(), Malformed> {
        let end = head.end;
        if (100..200).contains(&head.status) {
            if head.status == 101 {
                return Err(Malformed("switched protocols"));
            }
            self.start = end;
            return Ok(());
        }
        self.phase = match framing {
            _ if head.status == 204 || head.status == 304 => Phase::Sized { end },
            Framing::Chunked => Phase::Chunked { at: end },
            Framing::Length(length) if length > BODY_BYTES_MAX => return Err(Malformed("body too long")),
            Framing::Length(length) => Phase::Sized { end: end + length },
            Framing::UntilClose => Phase::UntilClose,
        };
        self.head = head;
        self.head.close |= matches!(self.phase, Phase::UntilClose);
        self.chunks.clear();
        Ok(())
    }

    /// True when a whole chunk was taken.
    fn parse_chunk(&mut self, at: usize) -> Result<bool, Malformed> {
        let received = &self.buffer[at..self.filled];
        let (line, size) = match httparse::parse_chunk_size(received) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) if received.len() > HEAD_BYTES_MAX => {
                return Err(Malformed("chunk size too long"));
            }
            Ok(httparse::Status::Partial) => return Ok(false),
            Err(_) => return Err(Malformed("bad chunk size")),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > BODY_BYTES_MAX - self.chunks.len().min(BODY_BYTES_MAX) {
            return Err(Malformed("body too long"));
        }
        if size == 0 {
            let Some(trailer) = trailer_bytes(&received[line..])? else { return Ok(false) };
            let end = at + line + trailer;
            self.phase = Phase::Complete { body_end: end, answer_end: end, chunked: true };
            return Ok(true);
        }
        let data_end = line + size;
        if received.len() < data_end + 2 {
            return Ok(false);
        }
        if &received[data_end..data_end + 2] != b"\r\n" {
            return Err(Malformed("chunk does not end where it said"));
        }
        self.chunks.extend_from_slice(&received[line..data_end]);
        self.phase = Phase::Chunked { at: at + data_end + 2 };
        Ok(true)
    }
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

fn read_headers(headers: &[httparse::Header<'_>], head: &mut Head) -> Result<Framing, Malformed> {
    let mut framing = Framing::UntilClose;
    for header in headers {
        // By length first: most headers are irrelevant, and this runs for every answer.
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let length = decimal(header.value).ok_or(Malformed("bad content-length"))?;
                match framing {
                    Framing::Length(other) if other as u64 != length => {
                        return Err(Malformed("two content-lengths"));
                    }
                    Framing::Chunked => {}
                    _ => framing = Framing::Length(usize::try_from(length).unwrap_or(usize::MAX)),
                }
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                if !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed("unknown transfer-encoding"));
                }
                framing = Framing::Chunked;
            }
            10 if header.name.eq_ignore_ascii_case("connection") => {
                head.close |= header.value.trim_ascii().eq_ignore_ascii_case(b"close");
            }
            11 if header.name.eq_ignore_ascii_case("retry-after") => {
                head.retry_after_s = decimal(header.value);
            }
            _ => {}
        }
    }
    Ok(framing)
}

/// The trailer section with its empty line, in bytes; `None` when more is needed.
fn trailer_bytes(received: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    loop {
        let Some(length) = received[at..].windows(2).position(|pair| pair == b"\r\n") else {
            return if received.len() > HEAD_BYTES_MAX {
                Err(Malformed("trailer too long"))
            } else {
                Ok(None)
            };
        };
        at += length + 2;
        if length == 0 {
            return Ok(Some(at));
        }
    }
}

fn decimal(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A complete answer, borrowed from its reader.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    pub status: u16,
    /// The server will close this connection (or has).
    pub close: bool,
    /// `Retry-After` in seconds, when it was there and a number.
    pub retry_after_s: Option<u64>,
    pub body: &'a [u8],
    head: &'a [u8],
}

impl<'a> Response<'a> {
    /// All headers in order. Parses the head again: for set-up, not for the hot path.
    pub fn headers(&self) -> Vec<(&'a str, &'a [u8])> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        match parsed.parse(self.head) {
            Ok(_) => parsed.headers.iter().map(|header| (header.name, header.value)).collect(),
            Err(_) => Vec::new(),
        }
    }
}
