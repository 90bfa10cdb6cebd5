//! The end of a backup: a checksum that anybody can verify, and a mark under a key that shows who made the file. SQLite's own
//! check finds damaged structures, but not a changed letter in a name.
//!
//! It is a trailer of three lines behind the last page: [`MAGIC`], the SHA-256 of the database, and an HMAC of the magic, the
//! length of the database and that sum. SQLite does not read behind the number of pages that the header has, so that the file
//! still is a database. Earlier versions wrote [`PLAIN_MAGIC`], the length and a sum that anybody can compute; these are read.

use crate::mark::{Mark, MarkKey};
use aws_lc_rs::{constant_time, digest, hmac};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Error, Read as _, Result, Seek as _, SeekFrom, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const MAGIC: &str = "sarsen backup 2\n";
const SUM: &str = "sha256 ";
const MARK: &str = "hmac-sha256 ";
/// The letters of 32 bytes in hexadecimal, and the end of a line.
const HEX: usize = 65;
const TRAILER: usize = MAGIC.len() + SUM.len() + HEX + MARK.len() + HEX;

const PLAIN_MAGIC: &[u8; 16] = b"sarsen backup 1\n";
/// The magic and two numbers.
const PLAIN_TRAILER: usize = PLAIN_MAGIC.len() + 2 * NUMBER;
const NUMBER: usize = size_of::<u64>();

const BUFFER: usize = 1024 * 1024;
/// How each database begins.
const DATABASE: &[u8; 16] = b"SQLite format 3\0";
/// All databases have pages of this size or a multiple of it.
const PAGE_MIN: u64 = 512;

/// What the end of a file shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// The checksum is right.
    Right {
        /// The length of the database.
        length: u64,
        mark: Mark,
    },
    /// The file has no checksum.
    None,
    /// The content or the end of the file is not what was written.
    Wrong,
}

/// Appends the trailer to a database. Returns the length of the file. It ends with an error soon after `stopped` was set.
pub(super) fn append(mut file: &File, key: &MarkKey, stopped: Option<&AtomicBool>) -> Result<u64> {
    let length = file.metadata()?.len();
    let sum = sha256(file, length, stopped)?;
    file.seek(SeekFrom::End(0))?;
    let text = format!("{}{}", sum_lines(&sum), mark_line(key, length, &sum));
    file.write_all(text.as_bytes())?;
    Ok(length + text.len() as u64)
}

/// Reads the whole file, if it has a checksum. The mark is compared with each of the keys.
pub(super) fn check(file: &File, keys: &[MarkKey]) -> Result<Checked> {
    let whole = file.metadata()?.len();
    if let Some((length, trailer)) = end::<TRAILER>(file, whole)?
        && trailer.starts_with(MAGIC.as_bytes())
    {
        let sum = sha256(file, length, None)?;
        return Ok(match trailer.strip_prefix(sum_lines(&sum).as_bytes()) {
            Some(mark) if is_mark(mark) => Checked::Right { length, mark: mark_of(mark, length, &sum, keys) },
            _ => Checked::Wrong,
        });
    }
    if let Some((length, trailer)) = end::<PLAIN_TRAILER>(file, whole)?
        && trailer.starts_with(PLAIN_MAGIC)
    {
        let sum = plain_sum(file, length)?;
        let expected = [&PLAIN_MAGIC[..], &length.to_le_bytes(), &sum.to_le_bytes()].concat();
        let right = expected == trailer;
        return Ok(if right { Checked::Right { length, mark: Mark::Plain } } else { Checked::Wrong });
    }
    // A database has whole pages: this one has lost its trailer. What is no database has none.
    let begin = begin(file, whole)?;
    Ok(if begin && !whole.is_multiple_of(PAGE_MIN) { Checked::Wrong } else { Checked::None })
}

/// The last bytes of a file, and the length of what is before them.
fn end<const LENGTH: usize>(mut file: &File, whole: u64) -> Result<Option<(u64, [u8; LENGTH])>> {
    let Some(before) = whole.checked_sub(LENGTH as u64) else { return Ok(None) };
    let mut bytes = [0; LENGTH];
    file.seek(SeekFrom::Start(before))?;
    file.read_exact(&mut bytes)?;
    Ok(Some((before, bytes)))
}

/// Whether a file begins as a database does.
fn begin(mut file: &File, whole: u64) -> Result<bool> {
    let mut bytes = [0; DATABASE.len()];
    if whole < bytes.len() as u64 {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes == *DATABASE)
}

/// The first two lines.
fn sum_lines(sum: &digest::Digest) -> String {
    format!("{MAGIC}{SUM}{}\n", hexadecimal(sum.as_ref()))
}

fn mark_line(key: &MarkKey, length: u64, sum: &digest::Digest) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key.bytes()));
    context.update(MAGIC.as_bytes());
    context.update(&length.to_le_bytes());
    context.update(sum.as_ref());
    format!("{MARK}{}\n", hexadecimal(context.sign().as_ref()))
}

fn mark_of(line: &[u8], length: u64, sum: &digest::Digest, keys: &[MarkKey]) -> Mark {
    let is_of = |key: &MarkKey| {
        let expected = mark_line(key, length, sum);
        constant_time::verify_slices_are_equal(expected.as_bytes(), line).is_ok()
    };
    keys.iter().position(is_of).map_or(Mark::OtherKey, Mark::Key)
}

/// Whether this is a line of the form that a mark has.
fn is_mark(line: &[u8]) -> bool {
    let digits = line.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_suffix(b"\n"));
    digits.is_some_and(|digits| {
        digits.len() + 1 == HEX && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn sha256(file: &File, length: u64, stopped: Option<&AtomicBool>) -> Result<digest::Digest> {
    let mut context = digest::Context::new(&digest::SHA256);
    read_parts(file, length, stopped, |part| context.update(part))?;
    Ok(context.finish())
}

/// The sum of earlier versions: FNV-1a in words of eight bytes. It protects against accidents, not against people.
fn plain_sum(file: &File, length: u64) -> Result<u64> {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut sum = 0xcbf2_9ce4_8422_2325_u64 ^ length;
    read_parts(file, length, None, |part| {
        for word in part.chunks(NUMBER) {
            let word = word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            sum = (sum ^ word).wrapping_mul(PRIME).rotate_left(29);
        }
    })?;
    Ok(sum)
}

/// Reads the first `length` bytes in parts of [`BUFFER`] bytes.
fn read_parts(
    mut file: &File,
    length: u64,
    stopped: Option<&AtomicBool>,
    mut with: impl FnMut(&[u8]),
) -> Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let (mut buffer, mut left) = (vec![0; BUFFER], length);
    while left > 0 {
        if stopped.is_some_and(|stopped| stopped.load(Relaxed)) {
            return Err(Error::other("stopped"));
        }
        let part = buffer.get_mut(..left.min(BUFFER as u64) as usize).unwrap_or_default();
        file.read_exact(part)?;
        with(part);
        left -= part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> [MarkKey; 2] {
        [MarkKey::new([1; 32]), MarkKey::new([2; 32])]
    }

    fn checked(bytes: &[u8]) -> Checked {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        check(&file, &keys()).expect("reads")
    }

    fn content() -> Vec<u8> {
        let mut content: Vec<u8> = (0..1024_u32).map(|number| (number * 7) as u8).collect();
        content[..DATABASE.len()].copy_from_slice(DATABASE);
        content
    }

    /// The content with its trailer.
    fn appended(key: &MarkKey) -> Vec<u8> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&content()).expect("written");
        assert_eq!(append(&file, key, None).expect("appended"), 1024 + TRAILER as u64);
        let mut whole = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut whole)).expect("read");
        whole
    }

    fn right(mark: Mark) -> Checked {
        Checked::Right { length: 1024, mark }
    }

    #[test]
    fn a_stop_ends_the_reading() {
        let file = tempfile::tempfile().expect("a file");
        (&file).write_all(DATABASE).expect("written");
        let [key, _] = keys();
        assert!(append(&file, &key, Some(&AtomicBool::new(true))).is_err());
        assert_eq!(file.metadata().expect("there").len(), DATABASE.len() as u64, "nothing is appended");
        assert!(append(&file, &key, Some(&AtomicBool::new(false))).is_ok());
    }

    #[test]
    fn a_changed_byte_and_a_missing_one_are_found_wherever_they_are() {
        let [key, _] = keys();
        let (whole, content) = (appended(&key), content());
        assert_eq!((checked(&whole), checked(&content)), (right(Mark::Key(0)), Checked::None));
        let mark_at = whole.len() - HEX;
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let found = checked(&changed);
            let of_another = found == right(Mark::OtherKey) && (mark_at..whole.len()).contains(&at);
            assert!(found == Checked::Wrong || of_another, "byte {at}: {found:?}");
            if !at.is_multiple_of(512) {
                let expected = if at < DATABASE.len() { Checked::None } else { Checked::Wrong };
                assert_eq!(checked(&whole[..at]), expected, "{at}");
            }
        }
        for distance in [8, 512] {
            let mut changed = whole.clone();
            let at = (0..512).find(|at| whole[*at] != whole[at + distance]).expect("two different bytes");
            changed.swap(at, at + distance);
            assert_eq!(checked(&changed), Checked::Wrong, "{at} swapped with {}", at + distance);
        }
    }

    #[test]
    fn a_mark_names_the_key_under_which_it_was_made() {
        let [first, second] = keys();
        assert_eq!(checked(&appended(&first)), right(Mark::Key(0)));
        assert_eq!(checked(&appended(&second)), right(Mark::Key(1)));
        assert_eq!(checked(&appended(&MarkKey::new([3; 32]))), right(Mark::OtherKey));
        // The trailer of another file, and one with a right sum by somebody who has no key.
        let mut forged = content();
        forged[700] ^= 1;
        forged.extend(&appended(&first)[1024..]);
        assert_eq!(checked(&forged), Checked::Wrong);
        forged.truncate(1024);
        let sum = digest::digest(&digest::SHA256, &forged);
        forged.extend(sum_lines(&sum).as_bytes());
        forged.extend(&appended(&first)[1024 + MAGIC.len() + SUM.len() + HEX..]);
        assert_eq!(checked(&forged), right(Mark::OtherKey));
    }

    #[test]
    fn the_trailer_of_earlier_versions_is_read_and_names_nobody() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&content()).expect("written");
        let sum = plain_sum(&file, 1024).expect("reads");
        // As the version before computed it.
        assert_eq!(format!("{sum:016x}"), "f738230871ed6c68");
        let plain = [&content()[..], PLAIN_MAGIC, &1024_u64.to_le_bytes(), &sum.to_le_bytes()].concat();
        assert_eq!(checked(&plain), right(Mark::Plain));
        for at in 0..plain.len() {
            let mut changed = plain.clone();
            changed[at] ^= 1;
            assert_eq!(checked(&changed), Checked::Wrong, "byte {at}");
        }
    }
}
