//! The load generator's reader of HTTP answers: the result does not depend on where the pieces were cut.
#![no_main]

use bench::http::{Malformed, Progress, ResponseReader};
use libfuzzer_sys::fuzz_target;

/// An answer: status, whether the connection closes, its body.
type Answer = (u16, bool, Vec<u8>);

fn read(bytes: &[u8], cut: usize) -> (Vec<Answer>, Option<Malformed>) {
    let (mut reader, mut answers) = (ResponseReader::default(), vec![]);
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = reader.room();
        let count = rest.len().min(room.len()).min(cut);
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        let mut progress = reader.advance(count);
        while progress == Ok(Progress::Complete) {
            answers.extend(answer(&reader));
            progress = reader.begin_next();
        }
        if let Err(malformed) = progress {
            return (answers, Some(malformed));
        }
    }
    if reader.end_of_stream() == Progress::Complete {
        answers.extend(answer(&reader));
    }
    (answers, None)
}

fn answer(reader: &ResponseReader) -> Option<Answer> {
    let response = reader.response()?;
    let _ = response.headers();
    Some((response.status, response.close, response.body.to_vec()))
}

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    assert_eq!(read(bytes, usize::from(cut).max(1)), read(bytes, usize::MAX));
    let _ = bench::string_field(bytes, "access_token");
});
