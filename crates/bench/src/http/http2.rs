//! HTTP/2 for a load generator (RFC 9113): a request at a time, given and answered in the bytes of HTTP/1.1, so that
//! nothing else has to know.
//!
//! It tells the server to keep no table of fields, and reads the status and the body of an answer only. Windows are as
//! large as they can be; a run ends long before they are used up. It has no sockets.

use super::response::Malformed;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;
const HEADER_TABLE_SIZE: u8 = 1;
const INITIAL_WINDOW_SIZE: u8 = 4;
const WINDOW_MAX: u32 = (1 << 31) - 1;
const WINDOW_INITIAL: u32 = 65_535;
/// Length, type, flags, stream.
const FRAME_HEAD: usize = 9;
const HEADERS_MAX: usize = 32;
/// The statuses of the static table, from index 8 on (RFC 7541 appendix A).
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// The client's side of a connection.
pub(super) struct Http2 {
    /// Of the last request.
    stream: u32,
    /// What has to be sent.
    out: Vec<u8>,
    /// What was received and not read yet.
    received: Vec<u8>,
    status: u16,
    body: Vec<u8>,
}

impl Http2 {
    /// A connection whose beginning has to be sent.
    pub(super) fn new() -> Http2 {
        let mut out = PREFACE.to_vec();
        let mut settings = vec![0, HEADER_TABLE_SIZE, 0, 0, 0, 0, 0, INITIAL_WINDOW_SIZE];
        settings.extend(WINDOW_MAX.to_be_bytes());
        put_frame(&mut out, SETTINGS, 0, 0, &settings);
        put_frame(&mut out, WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - WINDOW_INITIAL).to_be_bytes());
        // Streams of a client have odd numbers.
        Http2 { stream: u32::MAX, out, received: Vec::new(), status: 0, body: Vec::new() }
    }

    /// What has to be sent now.
    pub(super) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Begins a request, which is in the bytes of HTTP/1.1.
    pub(super) fn begin(&mut self, request: &[u8]) -> Result<(), Malformed> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(head)) = parsed.parse(request) else {
            return Err(Malformed("the request is not HTTP/1.1"));
        };
        let (method, path) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
        let mut fields = Vec::with_capacity(request.len());
        put_field(&mut fields, b":method", method.as_bytes());
        put_field(&mut fields, b":scheme", b"http");
        put_field(&mut fields, b":path", path.as_bytes());
        for header in parsed.headers.iter() {
            match header.name.eq_ignore_ascii_case("host") {
                true => put_field(&mut fields, b":authority", header.value),
                false => put_field(&mut fields, header.name.to_ascii_lowercase().as_bytes(), header.value),
            }
        }
        self.stream = self.stream.wrapping_add(2);
        (self.status, self.body) = (0, Vec::new());
        let body = &request[head..];
        let end = if body.is_empty() { END_STREAM } else { 0 };
        put_frame(&mut self.out, HEADERS, END_HEADERS | end, self.stream, &fields);
        if !body.is_empty() {
            put_frame(&mut self.out, DATA, END_STREAM, self.stream, body);
        }
        Ok(())
    }

    /// Reads more bytes. Returns the answer in the bytes of HTTP/1.1 when it is complete.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        self.received.extend_from_slice(bytes);
        let received = std::mem::take(&mut self.received);
        let mut rest = &received[..];
        let mut is_complete = false;
        while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD>() {
            let [high, middle, low, kind, flags, stream @ ..] = *head;
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            let Some((payload, after)) = after.split_at_checked(length) else { break };
            is_complete |= self.read(kind, flags, u32::from_be_bytes(stream), payload)?;
            rest = after;
        }
        self.received = rest.to_vec();
        Ok(is_complete.then(|| {
            let length = self.body.len();
            let mut answer =
                format!("HTTP/1.1 {} -\r\ncontent-length: {length}\r\n\r\n", self.status).into_bytes();
            answer.extend_from_slice(&self.body);
            answer
        }))
    }

    /// Reads a frame. Returns whether it ends the answer.
    fn read(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<bool, Malformed> {
        let is_own = stream == self.stream;
        match kind {
            SETTINGS if flags & ACK == 0 => put_frame(&mut self.out, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => put_frame(&mut self.out, PING, ACK, 0, payload),
            GOAWAY => return Err(Malformed("the connection ended")),
            RST_STREAM if is_own => return Err(Malformed("the stream was reset")),
            HEADERS | DATA if flags & PADDED != 0 => return Err(Malformed("padding")),
            HEADERS if flags & (END_HEADERS | PRIORITY) != END_HEADERS => {
                return Err(Malformed("fields in several frames"));
            }
            HEADERS if is_own => {
                // Trailers have no status.
                if self.status == 0 {
                    self.status = status(payload)?;
                }
                return Ok(flags & END_STREAM != 0);
            }
            DATA if is_own => {
                self.body.extend_from_slice(payload);
                return Ok(flags & END_STREAM != 0);
            }
            _ => {}
        }
        Ok(false)
    }
}

/// The status is the first field, after updates of the size of the table.
fn status(fields: &[u8]) -> Result<u16, Malformed> {
    let unknown = Malformed("a status that is not in the static table");
    let first = fields.iter().find(|byte| **byte & 0xe0 != 0x20).ok_or(unknown)?;
    let index = first.checked_sub(0x88).ok_or(unknown)?;
    STATUSES.get(usize::from(index)).copied().ok_or(unknown)
}

fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    out.extend(length);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A field that nobody keeps, without compression (RFC 7541 section 6.2.2).
fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(0);
    for text in [name, value] {
        put_length(out, text.len());
        out.extend_from_slice(text);
    }
}

/// A whole number with a prefix of seven bits (RFC 7541 section 5.1).
fn put_length(out: &mut Vec<u8>, length: usize) {
    if length < 127 {
        out.push(length as u8);
        return;
    }
    out.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        out.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_frame(&mut out, kind, flags, stream, payload);
        out
    }

    #[test]
    fn a_request_of_http_1_becomes_frames() {
        let mut http2 = Http2::new();
        assert!(http2.take_out().starts_with(PREFACE));
        http2.begin(b"POST /a HTTP/1.1\r\nHost: h\r\nX-Y: z\r\n\r\nbody").expect("a request");
        let fields =
            b"\0\x07:method\x04POST\0\x07:scheme\x04http\0\x05:path\x02/a\0\x0a:authority\x01h\0\x03x-y\x01z";
        let expected = [frame(HEADERS, END_HEADERS, 1, fields), frame(DATA, END_STREAM, 1, b"body")].concat();
        assert_eq!(http2.take_out(), expected);
        http2.begin(b"GET / HTTP/1.1\r\n\r\n").expect("a request");
        assert_eq!(http2.take_out()[3..9], [HEADERS, END_HEADERS | END_STREAM, 0, 0, 0, 3]);
        assert!(http2.begin(b"GET /").is_err());
    }

    #[test]
    fn an_answer_is_the_same_wherever_its_bytes_are_cut() {
        let answer = [
            frame(SETTINGS, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, &[0x20, 0x8d, 0, 1, b'a', 1, b'b']),
            frame(PING, 0, 0, &[7; 8]),
            frame(DATA, 0, 1, b"not "),
            frame(DATA, END_STREAM, 1, b"found"),
        ]
        .concat();
        for size in [1, 5, 9, 30, 1000] {
            let mut http2 = Http2::new();
            http2.begin(b"GET / HTTP/1.1\r\n\r\n").expect("a request");
            http2.take_out();
            let mut found = Vec::new();
            for part in answer.chunks(size) {
                found.extend(http2.receive(part).expect("an answer"));
            }
            assert_eq!(found, [b"HTTP/1.1 404 -\r\ncontent-length: 9\r\n\r\nnot found".to_vec()], "{size}");
            let acknowledged = [frame(SETTINGS, ACK, 0, &[]), frame(PING, ACK, 0, &[7; 8])].concat();
            assert_eq!(http2.take_out(), acknowledged);
        }
    }

    #[test]
    fn what_ends_the_stream_is_an_error() {
        for wrong in [
            frame(GOAWAY, 0, 0, &[0; 8]),
            frame(RST_STREAM, 0, 1, &[0; 4]),
            frame(HEADERS, 0, 1, &[0x88]),
            frame(HEADERS, END_HEADERS, 1, &[0x08, 1, b'x']),
        ] {
            let mut http2 = Http2::new();
            http2.begin(b"GET / HTTP/1.1\r\n\r\n").expect("a request");
            assert!(http2.receive(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lengths_have_as_many_bytes_as_they_need() {
        let encoded = |length| {
            let mut out = Vec::new();
            put_length(&mut out, length);
            out
        };
        assert_eq!(
            (encoded(126), encoded(127), encoded(127 + 300)),
            (vec![126], vec![127, 0], vec![127, 172, 2])
        );
    }
}
