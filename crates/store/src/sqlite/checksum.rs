//! The checksum at the end of a backup. SQLite's own check finds damaged structures, but not a changed letter in a name.
//!
//! It is a trailer behind the last page: [`MAGIC`], the length of the database and the sum, 32 bytes in all. SQLite
//! does not read behind the number of pages that the header has, so that the file still is a database. A file without a
//! trailer, such as a copy of the database of a stopped server, has no checksum.

use std::fs::File;
use std::io::{Error, Read as _, Result, Seek as _, SeekFrom, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const MAGIC: &[u8; 16] = b"sarsen backup 1\n";
/// The magic and two numbers.
const TRAILER: usize = MAGIC.len() + 2 * NUMBER;
const NUMBER: usize = size_of::<u64>();
const BUFFER: usize = 1024 * 1024;
/// How each database begins.
const DATABASE: &[u8; 16] = b"SQLite format 3\0";
/// All databases have pages of this size or a multiple of it.
const PAGE_MIN: u64 = 512;

/// What the end of a file shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// The checksum is right. The database has this length.
    Right(u64),
    /// The file has no checksum.
    None,
    /// The content or the end of the file is not what was written.
    Wrong,
}

/// Appends the checksum to a database. Returns the length of the file. It ends with an error soon after `stopped` was set.
pub(super) fn append(mut file: &File, stopped: Option<&AtomicBool>) -> Result<u64> {
    let length = file.metadata()?.len();
    let sum = sum_of(file, length, stopped)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(&[&MAGIC[..], &length.to_le_bytes(), &sum.to_le_bytes()].concat())?;
    Ok(length + TRAILER as u64)
}

/// Reads the whole file, if it has a checksum.
pub(super) fn check(mut file: &File) -> Result<Checked> {
    let whole = file.metadata()?.len();
    let Some(length) = whole.checked_sub(TRAILER as u64) else { return Ok(Checked::None) };
    let mut trailer = [0; TRAILER];
    file.seek(SeekFrom::Start(length))?;
    file.read_exact(&mut trailer)?;
    let (magic, numbers) = trailer.split_at(MAGIC.len());
    if magic != MAGIC {
        let mut begin = [0; DATABASE.len()];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut begin)?;
        // A database has whole pages: this one has lost its trailer. What is no database has none.
        let is_cut = begin == *DATABASE && !whole.is_multiple_of(PAGE_MIN);
        return Ok(if is_cut { Checked::Wrong } else { Checked::None });
    }
    let (stored_length, stored_sum) = numbers.split_at(NUMBER);
    let right =
        stored_length == length.to_le_bytes() && stored_sum == sum_of(file, length, None)?.to_le_bytes();
    Ok(if right { Checked::Right(length) } else { Checked::Wrong })
}

/// The sum of the first `length` bytes: FNV-1a in words of eight bytes. Each step is reversible, so that a change of one
/// word always changes the result. It protects against accidents, not against people.
fn sum_of(mut file: &File, length: u64, stopped: Option<&AtomicBool>) -> Result<u64> {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    file.seek(SeekFrom::Start(0))?;
    let mut sum = 0xcbf2_9ce4_8422_2325_u64 ^ length;
    let (mut buffer, mut left) = (vec![0; BUFFER], length);
    while left > 0 {
        if stopped.is_some_and(|stopped| stopped.load(Relaxed)) {
            return Err(Error::other("stopped"));
        }
        let part = buffer.get_mut(..left.min(BUFFER as u64) as usize).unwrap_or_default();
        file.read_exact(part)?;
        for word in part.chunks(NUMBER) {
            let word = word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            sum = (sum ^ word).wrapping_mul(PRIME).rotate_left(29);
        }
        left -= part.len() as u64;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(bytes: &[u8]) -> Checked {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        check(&file).expect("reads")
    }

    #[test]
    fn a_stop_ends_the_reading() {
        let file = tempfile::tempfile().expect("a file");
        (&file).write_all(DATABASE).expect("written");
        assert!(append(&file, Some(&AtomicBool::new(true))).is_err());
        assert_eq!(file.metadata().expect("there").len(), DATABASE.len() as u64, "nothing is appended");
        assert!(append(&file, Some(&AtomicBool::new(false))).is_ok());
    }

    #[test]
    fn a_changed_byte_and_a_missing_one_are_found_wherever_they_are() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut content: Vec<u8> = (0..1024_u32).map(|number| (number * 7) as u8).collect();
        content[..DATABASE.len()].copy_from_slice(DATABASE);
        file.write_all(&content).expect("written");
        assert_eq!(append(&file, None).expect("appended"), 1024 + TRAILER as u64);
        let mut whole = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut whole)).expect("read");
        assert_eq!((checked(&whole), checked(&content)), (Checked::Right(1024), Checked::None));
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(checked(&changed), Checked::Wrong, "byte {at}");
            if !at.is_multiple_of(512) {
                assert_eq!(
                    checked(&whole[..at]),
                    if at < TRAILER { Checked::None } else { Checked::Wrong },
                    "{at}"
                );
            }
        }
        for distance in [8, 512] {
            let mut changed = whole.clone();
            let at = (0..512).find(|at| whole[*at] != whole[at + distance]).expect("two different bytes");
            changed.swap(at, at + distance);
            assert_eq!(checked(&changed), Checked::Wrong, "{at} swapped with {}", at + distance);
        }
    }
}
