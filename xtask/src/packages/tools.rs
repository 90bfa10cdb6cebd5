//! What the builders of packages share: programs as filters of bytes, files with a fixed time, JSON text.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Sends bytes through a program.
pub fn filter(program: &str, args: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| missing(program, &error))?;
    let mut pipe = child.stdin.take().ok_or("a child without its input")?;
    let output = thread::scope(|scope| {
        // A program that ends early closes the pipe; its status tells more than this error.
        scope.spawn(move || pipe.write_all(input).ok());
        child.wait_with_output()
    });
    let output = output.map_err(|error| format!("`{program}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{program} {}` failed: {}", args.join(" "), output.status));
    }
    Ok(output.stdout)
}

/// What a program prints.
pub fn output(program: &str, args: &[&str]) -> Result<String, String> {
    Ok(String::from_utf8_lossy(&filter(program, args, &[])?).into_owned())
}

fn missing(program: &str, error: &std::io::Error) -> String {
    let package = match program {
        "sha256sum" | "md5sum" | "date" => "coreutils",
        "xz" => "xz-utils",
        "readelf" => "binutils",
        other => other,
    };
    format!("`{program}` cannot be started: {error}; Debian has it in the package {package}")
}

/// Without a name and a time, so that the same bytes come out each time. For programs the highest level takes three times
/// as long and saves nothing; for pages lintian wants it.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let level = if bytes.len() < 1 << 20 { "-9" } else { "-6" };
    filter("gzip", &[level, "-n", "-c"], bytes)
}

/// By one thread: several cut the input according to their number. Level 6 takes ten times as long for a tenth less.
pub fn xz(bytes: &[u8]) -> Result<Vec<u8>, String> {
    filter("xz", &["-2", "--threads=1", "--stdout"], bytes)
}

/// In hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> Result<String, String> {
    first_word(&filter("sha256sum", &[], bytes)?)
}

pub fn md5(bytes: &[u8]) -> Result<String, String> {
    first_word(&filter("md5sum", &[], bytes)?)
}

fn first_word(bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes);
    text.split_whitespace().next().map(str::to_owned).ok_or_else(|| "a sum is empty".into())
}

pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn read_text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let wrong = |error| format!("{}: {error}", path.display());
    fs::write(path, bytes).map_err(wrong)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(wrong)
}

/// Replaces `@NAME@` by its value. A name that is not known is an error, so that none is left.
pub fn fill(template: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    let is_name = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    match text.split('@').skip(1).find(is_name) {
        Some(name) => Err(format!("nothing is known for @{name}@")),
        None => Ok(text),
    }
}

/// A string of JSON.
pub fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[test]
fn a_program_that_is_missing_or_fails_is_named() {
    assert!(filter("no-such-program", &[], b"").is_err_and(|why| why.contains("package no-such-program")));
    assert!(filter("sh", &["-c", "exit 3"], &[0; 1 << 20]).is_err_and(|why| why.contains("failed")));
    assert_eq!(filter("cat", &[], &[7; 1 << 20]).map(|bytes| bytes.len()), Ok(1 << 20));
}

#[test]
fn nothing_is_left_in_a_template() {
    assert_eq!(fill("a @B@ ada@acme.test", &[("B", "c")]).as_deref(), Ok("a c ada@acme.test"));
    assert!(fill("a @B@ @C@", &[("B", "c")]).is_err_and(|why| why.contains("@C@")));
}

#[test]
fn json_is_quoted() {
    assert_eq!(json("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
}
