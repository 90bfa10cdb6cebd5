//! What a program loads when it starts, read by `readelf`, which reads programs of every machine.

use super::tools;

/// The libraries of glibc itself; some are empty since 2.34.
pub const IN_LIBC: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// Names of shared libraries.
pub fn needed(program: &[u8]) -> Result<Vec<String>, String> {
    Ok(names(&readelf("-d", program)?))
}

/// The program that loads it: `/lib64/ld-linux-x86-64.so.2`.
pub fn interpreter(program: &[u8]) -> Result<String, String> {
    requested(&readelf("-l", program)?).ok_or_else(|| "the program names no loader".into())
}

fn readelf(option: &str, program: &[u8]) -> Result<String, String> {
    // It reads files only; a pipe is none.
    let file = std::env::temp_dir().join(format!("sarsen-elf-{}", std::process::id()));
    tools::write(&file, program, 0o600)?;
    let text = tools::output("readelf", &["--wide", option, &file.to_string_lossy()]);
    std::fs::remove_file(&file).ok();
    text
}

/// `[Requesting program interpreter: /lib64/ld-linux-x86-64.so.2]`
fn requested(text: &str) -> Option<String> {
    Some(text.split_once("program interpreter: ")?.1.split_once(']')?.0.to_owned())
}

/// `0x… (NEEDED) Shared library: [libc.so.6]`
fn names(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

#[test]
fn libraries_are_named() {
    let text = " 0x01 (NEEDED)  Shared library: [libgcc_s.so.1]\n 0x01 (NEEDED)  Shared library: [libc.so.6]\n 0x0c (INIT) 0x1";
    let segments = "  INTERP 0x1\n      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]\n";
    assert_eq!(requested(segments).as_deref(), Some("/lib/ld-linux-aarch64.so.1"));
    assert_eq!(names(text), ["libgcc_s.so.1", "libc.so.6"]);
}
