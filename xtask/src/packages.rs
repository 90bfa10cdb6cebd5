//! `cargo xtask packages`: puts the binaries of `dist/sarsen-VERSION-TARGET.tar.gz` into what people install.
//!
//! - `install.rs`: the script `install.sh`.
//! - `names.rs`: `packaging/names.toml`, with all names and addresses. `--names FILE` is for rehearsals, with addresses on
//!   this machine.
//! - `npm.rs`: a launcher and a package for each platform. `wheel.rs`: the same for Python; `zip.rs`.
//! - `deb.rs`: Debian packages. `image.rs`: an OCI image; `glibc.rs`: its libraries. `elf.rs`: which ones a program loads.
//! - `crates.rs`: the crates that a back end is built from.
//! - `entry.rs`, `tools.rs`: files, archives, and the programs that compress and sum them.
//!
//! The same archives make the same packages, byte for byte: the time of every file is that of the program in its archive.
//! Nothing is published, and no package downloads or runs anything when it is installed.

mod crates;
mod deb;
mod elf;
mod entry;
mod glibc;
mod image;
mod install;
pub mod names;
mod npm;
mod release;
#[cfg(test)]
mod tests;
mod tools;
mod wheel;
mod zip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::report::Report;
use crate::{places, process};
use names::{NEEDED, Names};
use release::{Program, Release, TARGETS};

type Build = fn(&Release) -> Result<Vec<PathBuf>, String>;

const KINDS: [(&str, Build); 6] = [
    ("install", install::build),
    ("npm", npm::build),
    ("wheel", wheel::build),
    ("deb", deb::build),
    ("image", image::build),
    ("crates", crates::build),
];

pub fn run(args: &[&str]) -> Result<Report, String> {
    let chosen = chosen(args)?;
    let mut report = Report::default();
    let mut release = None;
    report.check("archives", || {
        release = Some(open(&chosen)?);
        Ok(true)
    });
    let Some(release) = release else { return Ok(report) };
    for (kind, build) in KINDS.iter().filter(|(kind, _)| chosen.only.is_empty() || chosen.only.contains(kind))
    {
        report.check(kind, || {
            for file in build(&release)? {
                println!("{}  {}", tools::sha256(&tools::read(&file)?)?, file.display());
            }
            Ok(true)
        });
    }
    Ok(report)
}

/// What the arguments ask for.
struct Chosen<'a> {
    /// Kinds of packages; none is all.
    only: Vec<&'a str>,
    names: PathBuf,
    folder: PathBuf,
}

fn chosen<'a>(args: &[&'a str]) -> Result<Chosen<'a>, String> {
    let root = places::root();
    let mut chosen = Chosen { only: Vec::new(), names: root.join(names::FILE), folder: root.join("dist") };
    let absolute = |path: &str| std::path::absolute(path).map_err(|error| format!("{path}: {error}"));
    let mut words = args.iter();
    while let Some(option) = words.next() {
        let value = *words.next().ok_or_else(|| format!("{option} takes a value"))?;
        match *option {
            "--only" if KINDS.iter().any(|(kind, _)| *kind == value) => chosen.only.push(value),
            "--only" => {
                return Err(format!("--only takes one of {}", KINDS.map(|(kind, _)| kind).join(", ")));
            }
            "--names" => chosen.names = absolute(value)?,
            "--dist" => chosen.folder = absolute(value)?,
            _ => return Err(format!("unknown option: {option}")),
        }
    }
    Ok(chosen)
}

/// Reads the names, and the programs out of their archives.
fn open(chosen: &Chosen<'_>) -> Result<Release, String> {
    let names = Names::read(&chosen.names)?;
    NEEDED.iter().try_for_each(|name| names.get(name).map(drop))?;
    let version = names.version()?;
    let mut release = Release {
        names,
        version,
        folder: chosen.folder.clone(),
        programs: Vec::new(),
        licences: Vec::new(),
        time: 0,
    };
    for target in &TARGETS {
        let name = format!("sarsen-{}-{}", release.version, target.triple);
        let archive = chosen.folder.join(format!("{name}.tar.gz"));
        if !archive.is_file() {
            println!("no {}: no packages for {}", archive.display(), target.triple);
            continue;
        }
        let folder = unpacked(&archive, &name)?;
        let file = folder.join("sarsen");
        release.licences = licences_in(&folder)?;
        release.time = release.time.max(modified(&file)?);
        release.programs.push(Program { target, bytes: tools::read(&file)? });
        println!("{}", archive.display());
    }
    if release.programs.is_empty() {
        return Err(format!(
            "{} has no archive of version {}; `cargo xtask dist` makes them",
            chosen.folder.display(),
            release.version
        ));
    }
    Ok(release)
}

/// The folder of an archive, unpacked anew.
fn unpacked(archive: &Path, name: &str) -> Result<PathBuf, String> {
    let folder = places::target().join("packages");
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(wrong)?;
    let place = folder.join(name);
    if place.exists() {
        fs::remove_dir_all(&place).map_err(wrong)?;
    }
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(&folder).arg(name);
    match process::quietly(&mut tar) {
        true => Ok(place),
        false => Err(format!("{} has no {name}/, or `tar` or `gzip` is missing", archive.display())),
    }
}

fn licences_in(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("LICENSE")).collect();
    names.sort();
    names.into_iter().map(|name| tools::read(&folder.join(&name)).map(|bytes| (name, bytes))).collect()
}

fn modified(file: &Path) -> Result<u64, String> {
    let time = fs::metadata(file).and_then(|data| data.modified());
    let time = time.map_err(|error| format!("{}: {error}", file.display()))?;
    time.duration_since(UNIX_EPOCH)
        .map(|since| since.as_secs())
        .map_err(|_| format!("{} is from before 1970", file.display()))
}
