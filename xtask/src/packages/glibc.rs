//! The libraries of glibc for the image, out of Debian's packages for its architecture. They are downloaded once, with
//! lists of their own beside those of the machine, which may be of another architecture.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::entry::Entry;
use super::release::Program;
use super::{elf, tools};
use crate::{places, process};

const LIMIT: Duration = Duration::from_secs(300);

pub struct Glibc {
    pub files: Vec<Entry>,
    /// Of Debian's package.
    pub version: String,
}

/// What the program loads, and the copyright of that.
pub fn files(program: &Program) -> Result<Glibc, String> {
    let machine = program.target.debian;
    let folder = places::target().join("packages/glibc").join(machine);
    let libraries = elf::needed(&program.bytes)?;
    let mut packages = vec!["libc6"];
    if libraries.iter().any(|library| library.starts_with("libgcc_s.")) {
        packages.push("libgcc-s1");
    }
    let mut version = None;
    let mut files = Vec::new();
    for package in &packages {
        let archive = downloaded(&folder, package, machine)?;
        let root = unpacked(&folder, &archive, package)?;
        // libc6_2.36-9+deb12u14_amd64.deb
        let name = archive.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        version = version.or_else(|| name.split('_').nth(1).map(str::to_owned));
        // That of libgcc-s1 is in another package, named by a link.
        let doc = root.join("usr/share/doc").join(package);
        let owner = fs::read_link(&doc).ok();
        let owner = owner.as_deref().and_then(Path::to_str).unwrap_or(package);
        let root = unpacked(&folder, &downloaded(&folder, owner, machine)?, owner)?;
        let text = tools::read(&root.join("usr/share/doc").join(owner).join("copyright"))?;
        files.push(Entry::file(&format!("usr/share/doc/{package}/copyright"), text));
    }
    let interpreter = elf::interpreter(&program.bytes)?;
    for library in libraries.iter().filter(|library| !interpreter.ends_with(*library)) {
        let path = found(&folder, &packages, library)?;
        let bytes = tools::read(&path)?;
        files.push(Entry::file(&format!("lib/{}/{library}", program.target.multiarch), bytes));
    }
    let loader = interpreter.rsplit('/').next().unwrap_or_default();
    let bytes = tools::read(&found(&folder, &packages, loader)?)?;
    files.push(Entry::program(interpreter.trim_start_matches('/'), bytes));
    Ok(Glibc { files, version: version.unwrap_or_default() })
}

/// The folder with the files of a package.
fn unpacked(folder: &Path, archive: &Path, package: &str) -> Result<PathBuf, String> {
    let root = folder.join(package);
    match process::quietly(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&root)) {
        true => Ok(root),
        false => {
            Err(format!("`dpkg-deb -x {}` failed; Debian has it in the package dpkg", archive.display()))
        }
    }
}

/// A package of Debian, from the folder or from where this machine's packages come from.
fn downloaded(folder: &Path, package: &str, machine: &str) -> Result<PathBuf, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if let Some(file) = archive_of(folder, package) {
        return Ok(file);
    }
    for name in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(folder.join(name)).map_err(wrong)?;
    }
    let at = |name: &str, to: &str| format!("{name}={}", folder.join(to).display());
    let options = [
        format!("APT::Architecture={machine}"),
        format!("APT::Architectures::={machine}"),
        at("Dir::State::Lists", "lists"),
        at("Dir::Cache", "."),
        "Dir::State::status=/dev/null".into(),
        // Otherwise a user that may not write to this folder would download.
        "APT::Sandbox::User=root".into(),
    ];
    for words in [&["update"][..], &["download", package]] {
        let mut apt = Command::new("apt-get");
        apt.arg("--quiet=2")
            .args(options.iter().flat_map(|option| ["-o", option]))
            .args(words)
            .current_dir(folder);
        if !process::run(&mut apt, LIMIT)?.success {
            return Err(format!(
                "apt-get cannot download {package} for {machine}; the image is built on Debian"
            ));
        }
    }
    archive_of(folder, package).ok_or_else(|| format!("apt-get downloaded no {package}"))
}

fn archive_of(folder: &Path, package: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let begins = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
    };
    files.filter(begins).max()
}

/// A library in one of the packages, wherever that has it.
fn found(folder: &Path, packages: &[&str], library: &str) -> Result<PathBuf, String> {
    let mut waiting: Vec<PathBuf> = packages.iter().map(|package| folder.join(package)).collect();
    while let Some(place) = waiting.pop() {
        for path in fs::read_dir(&place).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.is_symlink() {
                waiting.push(path);
            } else if path.file_name().is_some_and(|name| name == library)
                && path.is_file()
                && !path.is_symlink()
            {
                return Ok(path);
            }
        }
    }
    Err(format!("the program needs {library}, and {} have none", packages.join(" and ")))
}
