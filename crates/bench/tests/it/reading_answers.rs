//! An answer does not depend on how its bytes are cut, and bytes that are not HTTP are refused.

use bench::http::{Progress, ResponseReader};
use proptest::prelude::*;

/// One answer, as the reader returns it.
#[derive(Debug, Clone, PartialEq)]
struct Read {
    status: u16,
    close: bool,
    retry_after_s: Option<u64>,
    body: Vec<u8>,
}

fn take(reader: &ResponseReader) -> Read {
    let response = reader.response().expect("complete");
    let (status, close, retry_after_s) = (response.status, response.close, response.retry_after_s);
    Read { status, close, retry_after_s, body: response.body.to_vec() }
}

/// Feeds `bytes` in pieces of the given sizes (repeated) and collects all answers.
fn read_all(bytes: &[u8], sizes: &[usize]) -> Vec<Read> {
    let mut reader = ResponseReader::default();
    let mut answers = Vec::new();
    let mut at = 0;
    for size in sizes.iter().cycle() {
        if at == bytes.len() {
            break;
        }
        let room = reader.room();
        let count = (*size).min(room.len()).min(bytes.len() - at);
        room[..count].copy_from_slice(&bytes[at..at + count]);
        at += count;
        let mut progress = reader.advance(count).expect("well-formed");
        while progress == Progress::Complete {
            answers.push(take(&reader));
            progress = reader.begin_next().expect("well-formed");
        }
    }
    answers
}

fn an_answer() -> impl Strategy<Value = (Vec<u8>, Read)> {
    let body = proptest::collection::vec(any::<u8>(), 0..5_000);
    let status = prop_oneof![Just(200u16), Just(400), Just(503), Just(204)];
    let chunk_sizes = proptest::collection::vec(1usize..900, 1..6);
    let framing = prop_oneof![Just(None), chunk_sizes.prop_map(Some)];
    (status, body, framing, any::<bool>(), proptest::option::of(0u64..100), any::<bool>()).prop_map(
        |(status, body, chunked, close, retry_after_s, interim)| {
            let body = if status == 204 { Vec::new() } else { body };
            let mut bytes = Vec::new();
            if interim {
                bytes.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            }
            bytes.extend_from_slice(format!("HTTP/1.1 {status} Whatever\r\nDate: today\r\n").as_bytes());
            if close {
                bytes.extend_from_slice(b"connection: close\r\n");
            }
            if let Some(seconds) = retry_after_s {
                bytes.extend_from_slice(format!("Retry-After: {seconds}\r\n").as_bytes());
            }
            match &chunked {
                Some(sizes) if status != 204 => {
                    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                    let mut rest = &body[..];
                    for size in sizes.iter().cycle() {
                        if rest.is_empty() {
                            break;
                        }
                        let (chunk, after) = rest.split_at((*size).min(rest.len()));
                        bytes.extend_from_slice(format!("{:x};name=value\r\n", chunk.len()).as_bytes());
                        bytes.extend_from_slice(chunk);
                        bytes.extend_from_slice(b"\r\n");
                        rest = after;
                    }
                    bytes.extend_from_slice(b"0\r\nTrailer: yes\r\n\r\n");
                }
                _ => {
                    if status != 204 {
                        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
                    }
                    bytes.extend_from_slice(b"\r\n");
                    bytes.extend_from_slice(&body);
                }
            }
            (bytes, Read { status, close, retry_after_s, body })
        },
    )
}

proptest! {
    #[test]
    fn answers_are_the_same_however_they_are_cut(
        answers in proptest::collection::vec(an_answer(), 1..5),
        sizes in proptest::collection::vec(1usize..3_000, 1..20),
    ) {
        let bytes: Vec<u8> = answers.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let expected: Vec<Read> = answers.into_iter().map(|(_, read)| read).collect();
        prop_assert_eq!(read_all(&bytes, &sizes), expected);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
        prefix in prop_oneof![
            Just(&b""[..]),
            Just(&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..]),
            Just(&b"HTTP/1.1 200 OK\r\nContent-Length: "[..]),
        ],
    ) {
        let mut reader = ResponseReader::default();
        for byte in prefix.iter().chain(&bytes) {
            reader.room()[0] = *byte;
            if reader.advance(1).is_err() {
                return Ok(());
            }
        }
    }
}

fn refuses(bytes: &[u8]) -> bool {
    let mut reader = ResponseReader::default();
    for byte in bytes {
        reader.room()[0] = *byte;
        if reader.advance(1).is_err() {
            return true;
        }
    }
    false
}

#[test]
fn what_is_not_http_is_refused() {
    assert!(refuses(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"));
    assert!(refuses(b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n"));
    assert!(refuses(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"));
    assert!(refuses(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"));
    assert!(refuses(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"));
    assert!(refuses(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"));
    assert!(refuses(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n"));
    let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-header: a\r\n".repeat(10_000)].concat();
    assert!(refuses(&endless));
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let mut reader = ResponseReader::default();
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nall of it";
    reader.room()[..bytes.len()].copy_from_slice(bytes);
    assert_eq!(reader.advance(bytes.len()), Ok(Progress::NeedMore));
    assert!(reader.response().is_none());
    assert_eq!(reader.end_of_stream(), Progress::Complete);
    assert_eq!(take(&reader).body, b"all of it");
    assert!(take(&reader).close);
}

#[test]
fn an_answer_that_breaks_off_is_not_complete() {
    let mut reader = ResponseReader::default();
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    reader.room()[..bytes.len()].copy_from_slice(bytes);
    assert_eq!(reader.advance(bytes.len()), Ok(Progress::NeedMore));
    assert_eq!(reader.end_of_stream(), Progress::NeedMore);
    assert!(reader.response().is_none());
}
