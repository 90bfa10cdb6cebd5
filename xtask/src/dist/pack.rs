//! From a built program to an archive: the symbols apart, the same bytes for the same input.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::{Source, done, names, of};
use super::target::Target;
use super::{licences, sbom};
use crate::{places, process};

/// What lies beside the program, and where it comes from.
const FILES: [(&str, &str); 10] = [
    ("README.md", "deploy/archive.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("deploy/sarsen.service", "deploy/sarsen.service"),
    ("deploy/alerts.yaml", "deploy/alerts.yaml"),
    ("deploy/Caddyfile", "deploy/Caddyfile"),
    ("deploy/Caddyfile-instances", "deploy/Caddyfile-instances"),
    ("deploy/nginx.conf", "deploy/nginx.conf"),
    ("deploy/nginx-instances.conf", "deploy/nginx-instances.conf"),
];

/// What was made, in bytes.
pub struct Made {
    archive: (PathBuf, u64),
    programs: Vec<(String, u64)>,
    symbols: (PathBuf, u64),
}

impl Made {
    pub fn in_words(&self) -> String {
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let mut lines: Vec<String> =
            self.programs.iter().map(|(name, bytes)| format!("{name}: {}", mebibytes(*bytes))).collect();
        for (file, bytes) in [&self.archive, &self.symbols] {
            lines.push(format!("{}: {}", file.display(), mebibytes(*bytes)));
        }
        lines.join("\n")
    }
}

/// Packs programs, the first of which is `sarsen`, into a folder that is made if need be.
pub fn archive(programs: &[PathBuf], target: &Target, source: &Source, out: &Path) -> Result<Made, String> {
    let stem = target.stem();
    let staged = out.join(&stem);
    if staged.exists() {
        fs::remove_dir_all(&staged).map_err(of(&staged))?;
    }
    fs::create_dir_all(staged.join("deploy")).map_err(of(&staged))?;
    let mut made = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        let name = match index {
            0 => "sarsen".to_owned(),
            _ => program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let symbols = if index == 0 { stem.clone() } else { format!("{stem}.{name}") };
        separate(program, &staged.join(&name), &out.join(format!("{symbols}.symbols")))?;
        made.push((name.clone(), size(&staged.join(&name))?));
    }
    for (name, from) in FILES {
        copy(&places::root().join(from), &staged.join(name))?;
    }
    let licences_of_others = staged.join("LICENSES-OF-OTHERS");
    fs::write(&licences_of_others, licences::text(&sbom::packages()?)?).map_err(of(&licences_of_others))?;
    give_modes(&staged)?;

    let archive = out.join(format!("{stem}.tar.gz"));
    let tar = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", "-cf", "-"];
    let mut command = Command::new("sh");
    // The name and time of a file are in a gzip header unless -n is said.
    command.args([
        "-c",
        "set -e; out=$1; shift; tar \"$@\" >\"$out.tar\"; gzip -9n <\"$out.tar\" >\"$out\"; rm \"$out.tar\"",
    ]);
    command.arg("sh").arg(&archive).arg(format!("--mtime=@{}", source.epoch)).args(tar);
    done(command.arg("-C").arg(out).arg(&stem))?;
    let symbols = out.join(format!("{stem}.symbols.gz"));
    Ok(Made {
        archive: (archive.clone(), size(&archive)?),
        programs: made,
        symbols: (symbols.clone(), size(&symbols)?),
    })
}

/// Copies a program without its symbols, and these to a file of their own, whose name the program has in it.
fn separate(program: &Path, stripped: &Path, symbols: &Path) -> Result<(), String> {
    if !program.is_file() {
        return Err(format!("{}: there is no such program", program.display()));
    }
    done(objcopy().arg("--only-keep-debug").arg(program).arg(symbols))?;
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(symbols);
    done(objcopy().arg("--strip-all").arg(link).arg(program).arg(stripped))?;
    done(Command::new("gzip").args(["-9nf"]).arg(symbols))
}

/// That of the compiler's own tools knows every target; another one at least this machine's.
pub fn objcopy() -> Command {
    let print = |what: &str| process::output(Command::new("rustc").args(["--print", what]));
    if let Some((libraries, sysroot)) = print("target-libdir").zip(print("sysroot")) {
        let program = Path::new(libraries.trim()).with_file_name("bin").join("rust-objcopy");
        if program.is_file() {
            let mut command = Command::new(program);
            command.env("LD_LIBRARY_PATH", Path::new(sysroot.trim()).join("lib"));
            return command;
        }
    }
    Command::new(if places::on_path("llvm-objcopy") { "llvm-objcopy" } else { "objcopy" })
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(of(from))
}

/// Modes do not depend on who unpacked the tree.
fn give_modes(path: &Path) -> Result<(), String> {
    let is_program = path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.starts_with("sarsen") && !name.contains('.')
    });
    let mode = if path.is_dir() || is_program { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(of(path))?;
    if path.is_dir() {
        for name in names(path)? {
            give_modes(&path.join(name))?;
        }
    }
    Ok(())
}

fn size(file: &Path) -> Result<u64, String> {
    Ok(fs::metadata(file).map_err(of(file))?.len())
}
