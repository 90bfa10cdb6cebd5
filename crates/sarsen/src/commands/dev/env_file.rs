//! `.env.local`: what the product needs to know of the server, in a marked block. The rest of the file stays byte for byte.

use crate::error::{Error, Result};
use crate::files;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// The name of the file, which frameworks read by themselves.
pub(super) const NAME: &str = ".env.local";
const BEGIN: &str = "# >>> sarsen dev: this block is written by `sarsen dev`, at each start";
const END: &str = "# <<< sarsen dev";
/// The marks by which a block is found: the rest of the line may change.
const BEGIN_MARK: &str = "# >>> sarsen dev";
/// The most bytes of the file.
const LENGTH_MAX: u64 = 1 << 20;

/// Names and values in their order.
pub(super) type Variables = Vec<(String, String)>;

/// Writes the block, unless the file has it. A new file is for its owner only, and so is one that is changed.
pub(super) fn write(path: &Path, variables: &Variables) -> Result<()> {
    let (before, mode) = read(path)?;
    let after = with_block(&before, &block(variables))
        .map_err(|problem| Error::failed(format!("{}: {problem}; nothing was written", path.display())))?;
    if after == before && mode.is_some_and(|mode| mode & 0o077 == 0) {
        return Ok(());
    }
    files::replace_private_bytes(path, &after)
}

/// The content, and the mode of a file that is there. Symbolic links are not followed: the file has secrets.
fn read(path: &Path) -> Result<(Vec<u8>, Option<u32>)> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let refused = |what: &str| {
        Err(Error::failed(format!(
            "{} {what}; sarsen dev writes secrets there, so move it away, or replace it by a file of yours",
            path.display()
        )))
    };
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return refused("is a symbolic link"),
        opened => opened.map_err(Error::file("open", path))?,
    };
    let about = file.metadata().map_err(Error::file("read", path))?;
    if !about.is_file() {
        return refused("is no file");
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        return refused("belongs to another user");
    }
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX + 1).read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    if bytes.len() as u64 > LENGTH_MAX {
        return refused("has more than a mebibyte");
    }
    Ok((bytes, Some(about.mode() & 0o777)))
}

fn block(variables: &Variables) -> String {
    let mut text = format!("{BEGIN}\n");
    for (name, value) in variables {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}={value}");
    }
    text + END + "\n"
}

/// The file with this block in the place of the one that it has, or at its end.
fn with_block(file: &[u8], block: &str) -> std::result::Result<Vec<u8>, String> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        lines.push((start, line.trim_ascii_end()));
        start += line.len();
    }
    let is_begin = |(_, line): &&(usize, &[u8])| line.starts_with(BEGIN_MARK.as_bytes());
    let begins: Vec<usize> = lines.iter().filter(is_begin).map(|(start, _)| *start).collect();
    let (before, after) = match begins[..] {
        [] => (file, &[][..]),
        [begin] => {
            let end = lines.iter().find(|(start, line)| *start > begin && *line == END.as_bytes());
            let Some((end, _)) = end else {
                return Err(format!("the line {BEGIN_MARK:?} has no {END:?} below it; remove it"));
            };
            let length = file[*end..].iter().position(|byte| *byte == b'\n').map_or(END.len(), |at| at + 1);
            (&file[..begin], file.get(end + length..).unwrap_or_default())
        }
        _ => return Err(format!("the line {BEGIN_MARK:?} is there more than once; remove one block")),
    };
    let gap: &[u8] = if before.is_empty() || before.ends_with(b"\n") { b"" } else { b"\n" };
    Ok([before, gap, block.as_bytes(), after].concat())
}

/// What the user should know about git and the file, if anything: its secrets must not get into a repository.
pub(super) fn git_warning(folder: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        // The configuration of a repository may name a program that git runs.
        command.args(["-c", "core.fsmonitor=false"]).arg("-C").arg(folder).args(args).args(["--", NAME]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().ok()?.code()
    };
    // 0: ignored. 128: no repository.
    if git(&["check-ignore", "--quiet"])? != 1 {
        return None;
    }
    let file = folder.join(NAME);
    let file = file.display();
    match git(&["ls-files", "--error-unmatch"])? {
        0 => Some(format!(
            "git tracks {file}, which has secrets: run git rm --cached {NAME}, and add {NAME} to .gitignore"
        )),
        _ => Some(format!("git does not ignore {file}, which has secrets: add {NAME} to .gitignore")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(value: &str) -> Variables {
        vec![("A".to_owned(), value.to_owned())]
    }

    fn put(before: &str, value: &str) -> String {
        let after = with_block(before.as_bytes(), &block(&variables(value))).expect("a good file");
        String::from_utf8(after).expect("text")
    }

    #[test]
    fn only_the_block_changes() {
        let block_of = |value: &str| format!("{BEGIN}\nA={value}\n{END}\n");
        assert_eq!(put("", "1"), block_of("1"));
        assert_eq!(put("X=1", "1"), format!("X=1\n{}", block_of("1")));
        let around = |block: &str| format!("X=1\r\n# mine\n\n{block}Y='2'\nZ=\u{fc}");
        assert_eq!(put(&around(&block_of("1")), "2"), around(&block_of("2")));
        assert_eq!(put(&around(&block_of("1")), "1"), around(&block_of("1")), "the same again");
        let older = "# >>> sarsen dev (older words)\nB=1\nC=2\n# <<< sarsen dev";
        assert_eq!(put(older, "1"), block_of("1"), "a block without a line end, from another version");
        let crlf = "# >>> sarsen dev\r\nB=1\r\n# <<< sarsen dev\r\nX=1\r\n";
        assert_eq!(put(crlf, "1"), format!("{}X=1\r\n", block_of("1")));
    }

    #[test]
    fn a_broken_block_is_left_alone() {
        for broken in ["# >>> sarsen dev\nA=1\n", "# <<< sarsen dev\n# >>> sarsen dev\nX=1\n"] {
            let problem = with_block(broken.as_bytes(), "").expect_err(broken);
            assert!(problem.contains("below it"), "{problem}");
        }
        let twice = format!("{0}{0}", block(&variables("1")));
        assert!(with_block(twice.as_bytes(), "").expect_err("twice").contains("more than once"));
    }

    #[test]
    fn the_file_is_private_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join(NAME), folder.path().join("other"));
        write(&path, &variables("1")).expect("written");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .expect("opened up");
        write(&path, &variables("1")).expect("written");
        assert_eq!(mode(&path), 0o600, "what others may read is closed, also without a change");

        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&other, "X=1\n").expect("written");
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        let error = write(&path, &variables("1")).expect_err("a link").to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&other).expect("read"), "X=1\n");
    }
}
