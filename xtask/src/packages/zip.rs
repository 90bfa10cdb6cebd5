//! A ZIP archive, as wheels are: `gzip` compresses and sums, and its bytes are put between the headers of ZIP.

use super::entry::Entry;
use super::tools;

/// What `gzip -n` writes before the compressed bytes, and after them: the CRC and the length.
const GZIP_HEAD: usize = 10;
const GZIP_TAIL: usize = 8;

const VERSION: u16 = 20;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// Permission bits of Unix are in the upper half of the attributes.
const MADE_ON_UNIX: u16 = (3 << 8) | VERSION;
const REGULAR_FILE: u32 = 0o100_000;

/// Of files only: folders come from their names.
pub fn zip(entries: &[Entry], time: u64) -> Result<Vec<u8>, String> {
    let (date, clock) = dos_time(time)?;
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let packed = tools::gzip(entry.bytes())?;
        let tail = packed.len().checked_sub(GZIP_TAIL).ok_or("gzip wrote too little")?;
        let (Some(body), Some(sums)) = (packed.get(GZIP_HEAD..tail), packed.get(tail..)) else {
            return Err("gzip wrote too little".into());
        };
        let (start, length) = (size(archive.len())?, size(body.len())?);
        // The same fields are in both headers. The sums of gzip are little-endian, as here.
        let mut common = Vec::new();
        for word in [VERSION, FLAGS, DEFLATED, clock, date] {
            common.extend(word.to_le_bytes());
        }
        common.extend(sums.get(..4).unwrap_or_default());
        common.extend(length.to_le_bytes());
        common.extend(size(entry.bytes().len())?.to_le_bytes());
        let name_length =
            u16::try_from(entry.path.len()).map_err(|_| format!("{} is too long", entry.path))?;
        common.extend(name_length.to_le_bytes());
        common.extend([0, 0]);

        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(entry.path.as_bytes());
        archive.extend(body);

        directory.extend(b"PK\x01\x02");
        directory.extend(MADE_ON_UNIX.to_le_bytes());
        directory.extend(&common);
        // No comment, the first disk, no internal attributes.
        directory.extend([0; 6]);
        directory.extend(((REGULAR_FILE | entry.mode) << 16).to_le_bytes());
        directory.extend(start.to_le_bytes());
        directory.extend(entry.path.as_bytes());
    }
    let count = u16::try_from(entries.len()).map_err(|_| "too many files")?.to_le_bytes();
    let (start, length) = (size(archive.len())?, size(directory.len())?);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(count);
    archive.extend(count);
    archive.extend(length.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0, 0]);
    Ok(archive)
}

fn size(length: usize) -> Result<u32, String> {
    u32::try_from(length).map_err(|_| "a wheel has less than 4 GiB".into())
}

/// Date and time of DOS, in UTC.
fn dos_time(time: u64) -> Result<(u16, u16), String> {
    let text = tools::output("date", &["--utc", &format!("--date=@{time}"), "+%Y %-m %-d %-H %-M %-S"])?;
    let numbers: Vec<u16> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [year, month, day, hour, minute, second] = numbers[..] else {
        return Err(format!("no time: {text}"));
    };
    let year = year.checked_sub(1980).ok_or("ZIP has no time before 1980")?;
    Ok(((year << 9) | (month << 5) | day, (hour << 11) | (minute << 5) | (second / 2)))
}

#[test]
fn others_read_what_it_wrote() {
    let files = [Entry::program("a/bin", vec![b'x'; 100_000]), Entry::file("é.txt", "text")];
    let archive = zip(&files, 1_700_000_000).expect("is written");
    assert!(archive.len() < 1000, "compressed");
    let file = std::env::temp_dir().join(format!("sarsen-zip-{}.zip", std::process::id()));
    tools::write(&file, &archive, 0o644).expect("written");
    let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None\n\
                  for i in z.infolist(): print(i.filename, i.file_size, oct(i.external_attr >> 16), i.date_time)";
    let read = tools::output("python3", &["-c", script, &file.to_string_lossy()]);
    std::fs::remove_file(&file).ok();
    let time = "(2023, 11, 14, 22, 13, 20)";
    assert_eq!(read, Ok(format!("a/bin 100000 0o100755 {time}\né.txt 4 0o100644 {time}\n")));
    assert!(zip(&files, 0).is_err());
}
