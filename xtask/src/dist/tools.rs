//! The compilers of a release, fetched into the target folder; nothing is installed on the machine.
//!
//! - `zig cc` and `cargo-zigbuild` come as Python packages, of the versions below.
//! - Debian's Rust for another kind of machine comes as Debian packages that are unpacked, with lists of packages of their own
//!   so that the machine's are left as they are.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::{done, names, of as at};
use super::target::{Compiler, Target};
use crate::{places, process};

/// Another version compiles C to other bytes.
const PYTHON: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// The compiler for this machine, and the standard library of the other one. Debian keeps their versions together.
const DEBIAN: [&str; 3] = ["rustc-web:amd64", "cargo-web:amd64", "libstd-rust-web-dev:arm64"];

/// What a build is started with.
pub struct Tools {
    pub zigbuild: PathBuf,
    /// Folders that come first on the search path.
    pub path: Vec<PathBuf>,
}

pub fn of(target: &Target) -> Result<Tools, String> {
    let python = folder().join("python");
    let zigbuild = python.join("bin/cargo-zigbuild");
    if !fits(&python, &PYTHON.join("\n")) {
        println!("fetching {} (about 350 MB)", PYTHON.join(" and "));
        let mut venv = places::at_root("python3", &["-m", "venv", "--clear"]);
        done(venv.arg(&python))?;
        let mut pip = Command::new(python.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
        ]);
        done(pip.args(PYTHON))?;
        stamp(&python, &PYTHON.join("\n"))?;
    }
    let mut path = vec![python.join("bin")];
    if target.compiler == Compiler::Debian {
        debian()?;
        path.insert(0, unpacked().join("usr/bin"));
    }
    Ok(Tools { zigbuild, path })
}

/// The compiler is not where it was built for, so it is told where its libraries are.
pub fn debian_variables() -> [(&'static str, OsString); 3] {
    let usr = unpacked().join("usr");
    [
        ("CARGO", usr.join("bin/cargo").into()),
        ("RUSTC", usr.join("bin/rustc").into()),
        ("LD_LIBRARY_PATH", usr.join("lib/x86_64-linux-gnu").into()),
    ]
}

fn debian() -> Result<(), String> {
    if fits(&unpacked(), &DEBIAN.join("\n")) {
        return Ok(());
    }
    if !places::on_path("apt-get") || !places::on_path("dpkg-deb") {
        return Err("needs apt-get and dpkg-deb: Debian 12 or newer has the compiler for this target".into());
    }
    println!("fetching {} with what they need (about 150 MB, 600 unpacked)", DEBIAN.join(", "));
    let apt = folder().join("apt");
    for name in ["lists/partial", "cache/archives/partial"] {
        let folder = apt.join(name);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
    }
    done(&mut apt_get(&apt, &["update", "--quiet=2"]))?;
    done(apt_get(&apt, &["install", "--download-only", "--yes", "--no-install-recommends"]).args(DEBIAN))?;
    let archives = apt.join("cache/archives");
    for name in names(&archives)?.iter().filter(|name| name.ends_with(".deb")) {
        done(Command::new("dpkg-deb").arg("-x").arg(archives.join(name)).arg(unpacked()))?;
    }
    let mut rustc = Command::new(unpacked().join("usr/bin/rustc"));
    if !process::quietly(rustc.arg("-vV").envs(debian_variables())) {
        return Err(format!("the unpacked {} does not start", rustc.get_program().display()));
    }
    stamp(&unpacked(), &DEBIAN.join("\n"))
}

/// The archives that the machine's sources name, for both kinds of machine.
fn apt_get(apt: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    let option = |name: &str, folder: &Path| format!("{name}={}", folder.display());
    command.arg("-o").arg(option("Dir::State::lists", &apt.join("lists")));
    command.arg("-o").arg(option("Dir::Cache", &apt.join("cache")));
    for option in ["APT::Architecture=amd64", "APT::Architectures::=amd64", "APT::Architectures::=arm64"] {
        command.args(["-o", option]);
    }
    // Downloads change nothing that the lock is for.
    command.args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"]);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn folder() -> PathBuf {
    places::dist_tools()
}

fn unpacked() -> PathBuf {
    folder().join("debian")
}

/// What was fetched, left beside it.
fn fits(folder: &Path, list: &str) -> bool {
    fs::read_to_string(folder.join(".fetched")).is_ok_and(|fetched| fetched == list)
}

fn stamp(folder: &Path, list: &str) -> Result<(), String> {
    let file = folder.join(".fetched");
    fs::write(&file, list).map_err(at(&file))
}
