//! The files of a package before they are packed, and as a tar archive (ustar of POSIX): sorted as they were given, with
//! one time and numbers for owners, so that the same files make the same bytes on every machine.

pub struct Entry {
    /// From the root of the package, without a slash at either end.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: u32,
    pub kind: Kind,
}

pub enum Kind {
    Folder,
    File(Vec<u8>),
}

impl Entry {
    pub fn folder(path: &str) -> Entry {
        Entry { path: path.to_owned(), mode: 0o755, owner: 0, kind: Kind::Folder }
    }

    pub fn file(path: &str, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { path: path.to_owned(), mode: 0o644, owner: 0, kind: Kind::File(bytes.into()) }
    }

    pub fn program(path: &str, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { mode: 0o755, ..Entry::file(path, bytes) }
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::Folder)
    }

    pub fn bytes(&self) -> &[u8] {
        if let Kind::File(bytes) = &self.kind { bytes } else { &[] }
    }
}

/// Adds the folders that the files are in, and sorts.
pub fn with_folders(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut folders: Vec<String> = Vec::new();
    for entry in &entries {
        folders
            .extend(entry.path.match_indices('/').filter_map(|(end, _)| Some(entry.path.get(..end)?.into())));
    }
    folders.sort();
    folders.dedup();
    folders.retain(|folder| !entries.iter().any(|entry| entry.path == *folder));
    entries.extend(folders.iter().map(|folder| Entry::folder(folder)));
    entries.sort_by(|left, right| left.path.cmp(&right.path));
    entries
}

const BLOCK: usize = 512;
/// What the name of a file may take in the header.
const NAME_MAX: usize = 100;

/// A tar archive. `prefix` is before every path: `./` in Debian's packages.
pub fn tar(entries: &[Entry], prefix: &str, time: u64) -> Result<Vec<u8>, String> {
    let mut archive = Vec::new();
    for entry in entries {
        archive.extend(header(entry, prefix, time)?);
        archive.extend(entry.bytes());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

fn header(entry: &Entry, prefix: &str, time: u64) -> Result<[u8; BLOCK], String> {
    let (kind, end, link) = match &entry.kind {
        Kind::Folder => (b'5', "/", ""),
        Kind::File(_) => (b'0', "", ""),
    };
    let name = format!("{prefix}{}{end}", entry.path);
    if name.len() > NAME_MAX || link.len() > NAME_MAX {
        return Err(format!("{name} is longer than {NAME_MAX} bytes"));
    }
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in header.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    put(0, name.as_bytes());
    put(100, format!("{:07o}", entry.mode).as_bytes());
    put(108, format!("{:07o}", entry.owner).as_bytes());
    put(116, format!("{:07o}", entry.owner).as_bytes());
    put(124, format!("{:011o}", entry.bytes().len()).as_bytes());
    put(136, format!("{time:011o}").as_bytes());
    // The sum is taken with spaces in its own place.
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link.as_bytes());
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    for (to, from) in header.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").as_bytes()) {
        *to = *from;
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tools;

    #[test]
    fn tar_reads_what_it_wrote() {
        let data = Entry { mode: 0o700, owner: 10001, ..Entry::folder("var/lib/x") };
        let entries = with_folders(vec![Entry::program("usr/bin/x", "#!/bin/sh\n"), data]);
        let archive = tar(&entries, "./", 1_700_000_000).expect("is written");
        let args = ["--list", "--verbose", "--numeric-owner", "--utc", "--file=-"];
        let listed =
            String::from_utf8(tools::filter("tar", &args, &archive).expect("is read")).expect("is text");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = listed.lines().map(words).collect();
        assert_eq!(
            lines,
            [
                "drwxr-xr-x 0/0 0 2023-11-14 22:13 ./usr/",
                "drwxr-xr-x 0/0 0 2023-11-14 22:13 ./usr/bin/",
                "-rwxr-xr-x 0/0 10 2023-11-14 22:13 ./usr/bin/x",
                "drwxr-xr-x 0/0 0 2023-11-14 22:13 ./var/",
                "drwxr-xr-x 0/0 0 2023-11-14 22:13 ./var/lib/",
                "drwx------ 10001/10001 0 2023-11-14 22:13 ./var/lib/x/",
            ]
        );
        let content = tools::filter("tar", &["-xOf", "-", "./usr/bin/x"], &archive);
        assert_eq!(content.as_deref(), Ok(&b"#!/bin/sh\n"[..]));
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert!(tar(&[Entry::file(&"a".repeat(101), "")], "", 0).is_err());
    }
}
