//! Reading server-sent events, whatever the pieces are in which they arrive.

use bench::http::{Event, EventReader, Malformed};
use proptest::prelude::*;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
const BODY: &[u8] =
    b": hi\n\nevent: hello\ndata: {}\n\nevent: value\nid: 7\ndata: {\"value\":{\"value\":1}}\n\ndata:x\n\n";

type Owned = (String, String);

/// Feeds `bytes` in pieces of these lengths, and returns the events.
fn read(bytes: &[u8], lengths: &[usize]) -> Result<(EventReader, Vec<Owned>), Malformed> {
    let (mut reader, mut events) = (EventReader::default(), Vec::new());
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(usize::MAX));
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = reader.room();
        let count = lengths.next().unwrap_or(1).clamp(1, room.len()).min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        reader.advance(count)?;
        reader.events(&mut |Event { name, data, .. }| events.push((name.into_owned(), data.into_owned())))?;
    }
    Ok((reader, events))
}

fn chunked(body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut bytes = [HEAD, b"Transfer-Encoding: chunked\r\n\r\n"].concat();
    let (mut rest, mut sizes) = (body, sizes.iter().copied().chain(std::iter::repeat(usize::MAX)));
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
        bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        rest = after;
    }
    bytes
}

fn expected() -> Vec<Owned> {
    [("hello", "{}"), ("value", "{\"value\":{\"value\":1}}"), ("", "x")]
        .map(|(name, data)| (name.to_owned(), data.to_owned()))
        .to_vec()
}

proptest! {
    #[test]
    fn pieces_and_chunks_do_not_matter(
        sizes in proptest::collection::vec(1usize..40, 0..40),
        lengths in proptest::collection::vec(1usize..60, 0..80),
    ) {
        let (reader, events) = read(&chunked(BODY, &sizes), &lengths).unwrap();
        prop_assert_eq!(events, expected());
        prop_assert_eq!((reader.status(), reader.has_ended()), (Some(200), false));
    }

    #[test]
    fn a_body_without_chunks_is_read_too(lengths in proptest::collection::vec(1usize..60, 0..80)) {
        let bytes = [HEAD, b"\r\n", BODY].concat();
        prop_assert_eq!(read(&bytes, &lengths).unwrap().1, expected());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&[HEAD, b"Transfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat(), &[]);
        let _ = read(&bytes, &[]);
    }
}

#[test]
fn the_last_chunk_ends_the_stream() {
    let bytes = [&chunked(BODY, &[])[..], b"0\r\n\r\n"].concat();
    let (reader, events) = read(&bytes, &[]).unwrap();
    assert!(reader.has_ended() && events == expected());
}

#[test]
fn what_is_not_an_event_stream_is_an_error() {
    let body = |bytes: &[u8]| [HEAD, b"Transfer-Encoding: chunked\r\n\r\n", bytes].concat();
    for bytes in [
        b"SSH-2.0\r\n\r\n".to_vec(),
        body(b"xyz\r\n"),
        body(b"FFFFFFFFFF\r\n"),
        body(b"9\r\ndata: \xff\n\n\r\n"),
    ] {
        assert!(read(&bytes, &[]).is_err(), "{}", String::from_utf8_lossy(&bytes));
    }
}
