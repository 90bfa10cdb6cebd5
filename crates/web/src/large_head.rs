//! Requests that have no handler because their head is too large, or cannot be read.
//!
//! hyper answers them by itself, with a bare status and without `Connection: close`. For HTTP/1.1 that answer is recognized on
//! its way to the socket and held back ([`is_bare`]); the connection then sends one of the service, made from as much of the head as
//! was read. h2 answers heads of more than twice the limit by itself; those between get the answer of the service.

use super::service::Service;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// How long the client may take to receive the answer and to end what it sends.
const SEND_TIME: Duration = Duration::from_secs(2);
/// Bytes that are read and thrown away, so that the client receives the answer and no reset.
const DISCARDED_MAX: usize = 512 * 1024;
/// The status lines of answers that hyper makes by itself.
const BARE: [&[u8]; 3] = [
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
    b"HTTP/1.1 400 Bad Request\r\n",
    b"HTTP/1.1 414 URI Too Long\r\n",
];
/// The length of a date, such as `Fri, 27 Nov 2026 20:00:00 GMT`.
const DATE: usize = 29;

/// Whether this is the whole of an answer that hyper makes by itself. A service has other headers.
pub(crate) fn is_bare(written: &[u8]) -> bool {
    let Some(fields) = BARE.iter().find_map(|begin| written.strip_prefix(*begin)) else { return false };
    let fields = fields.strip_prefix(b"connection: close\r\n").unwrap_or(fields);
    fields
        .strip_prefix(b"content-length: 0\r\ndate: ")
        .is_some_and(|rest| rest.len() == DATE + b"\r\n\r\n".len())
}

/// A head of HTTP/2 as its limit counts it: names and values, with 32 bytes for each field (RFC 9113 section 6.5.2).
pub(crate) fn size<B>(request: &Request<B>) -> usize {
    const FIELD: usize = 32;
    const PSEUDO: usize = 4 * FIELD + ":method:scheme:path:authority".len();
    let uri = request.uri();
    let of_uri = uri.scheme_str().map_or(0, str::len)
        + uri.authority().map_or(0, |authority| authority.as_str().len())
        + uri.path_and_query().map_or(0, |path| path.as_str().len());
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    PSEUDO + request.method().as_str().len() + of_uri + fields.sum::<usize>()
}

/// The same head without its body.
pub(crate) fn head_of<B>(request: &Request<B>) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    head
}

/// What the beginning of a head of HTTP/1.1 tells: its path and what it accepts.
fn beginning(bytes: &[u8]) -> Request<()> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let target = first.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    // The last line may be cut.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end - first.len().min(end));
    let mut headers = HeaderMap::new();
    let mut read = 0;
    for line in lines {
        read += line.len() + 1;
        if read > whole {
            break;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        if HeaderName::from_bytes(&line[..colon]).is_ok_and(|name| name == ACCEPT)
            && let Ok(value) = HeaderValue::from_bytes(line[colon + 1..].trim_ascii())
        {
            headers.insert(ACCEPT, value);
        }
    }
    let mut head = Request::new(());
    *head.uri_mut() = Uri::try_from(path).ok().filter(|uri| uri.path().starts_with('/')).unwrap_or_default();
    *head.headers_mut() = headers;
    head
}

/// Answers a request whose head hyper has refused, and ends the connection. `read` is what there is of the head.
pub(crate) async fn refuse<S: Service, I: AsyncRead + AsyncWrite + Unpin>(
    service: &S,
    mut io: I,
    read: &[u8],
    is_too_large: bool,
) {
    let answer = match is_too_large {
        true => whole(service.refuse_head(&beginning(read))).await,
        false => Some((StatusCode::BAD_REQUEST, HeaderMap::new(), Bytes::new())),
    };
    let Some((status, headers, content)) = answer else { return };
    let answers = async {
        io.write_all(&wire(status, &headers, &content)).await?;
        io.shutdown().await?;
        tokio::io::copy(&mut (&mut io).take(DISCARDED_MAX as u64), &mut tokio::io::sink()).await
    };
    // A client that is gone needs no answer.
    let _ = tokio::time::timeout(SEND_TIME, answers).await;
}

async fn whole<B: http_body::Body<Data = Bytes>>(
    response: Response<B>,
) -> Option<(StatusCode, HeaderMap, Bytes)> {
    let (head, body) = response.into_parts();
    let content = body.collect().await.ok()?.to_bytes();
    Some((head.status, head.headers, content))
}

/// The last response of a connection, as bytes.
fn wire(status: StatusCode, headers: &HeaderMap, content: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    let reason = status.canonical_reason().unwrap_or("Error");
    bytes.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in headers.iter().filter(|(name, _)| **name != CONTENT_LENGTH && **name != CONNECTION) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    let end = format!("content-length: {}\r\nconnection: close\r\n\r\n", content.len());
    bytes.extend_from_slice(end.as_bytes());
    bytes.extend_from_slice(content);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_head_tells_its_path_and_what_it_accepts() {
        let head = beginning(
            b"GET /auth/authorize?state=x HTTP/1.1\r\nHost: test\r\naccept:  text/html \r\nCookie: xx",
        );
        assert_eq!(
            (head.uri().path(), &head.headers()[ACCEPT]),
            ("/auth/authorize", &HeaderValue::from_static("text/html"))
        );
        for (cut, path) in [
            (&b"GET /a HTTP/1.1\r\nAccept: text/ht"[..], "/a"),
            (b"GET /a?xxxx", "/a"),
            (b"GET http://h/a HTTP/1.1\r\n\r\n", "/a"),
            (b"GET", "/"),
            (b"\xff \xff \xff", "/"),
            (b"", "/"),
            (b"\n\n:\n", "/"),
        ] {
            let head = beginning(cut);
            assert_eq!((head.uri().path(), head.headers().len()), (path, 0), "{cut:?}");
        }
    }

    #[test]
    fn only_a_whole_answer_of_hyper_is_recognized() {
        let rest = b"content-length: 0\r\ndate: Fri, 27 Nov 2026 20:00:00 GMT\r\n\r\n";
        for begin in BARE {
            assert!(is_bare(&[begin, &rest[..]].concat()));
            assert!(is_bare(&[begin, b"connection: close\r\n", &rest[..]].concat()));
            assert!(!is_bare(&[begin, rest, &b"x"[..]].concat()) && !is_bare(begin));
            assert!(!is_bare(&[begin, b"a: b\r\n", &rest[..]].concat()));
        }
        assert!(!is_bare(b"HTTP/1.1 200 OK\r\n\r\n") && !is_bare(b""));
    }
}
