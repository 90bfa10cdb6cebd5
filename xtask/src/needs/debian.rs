//! Programs that Debian's packages bring, and where they put them.

use std::env;
use std::fs;
use std::path::PathBuf;

use super::{From, Need, is_root};
use crate::places;

pub const fn package(packages: &'static [&'static str], megabytes: u32, present: fn() -> bool) -> Need {
    Need { name: packages[0], from: From::Debian(packages), megabytes, present }
}

/// All packages in one go, or what to type.
pub fn install(missing: &[&Need]) -> Result<(), String> {
    let packages = |need: &&Need| if let From::Debian(packages) = need.from { packages } else { &[] };
    let packages: Vec<&str> = missing.iter().flat_map(packages).copied().collect();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !places::on_path("apt-get") {
        return Err(format!("missing on this machine (names of the Debian packages): {list}"));
    }
    if !is_root() {
        return Err(format!("please run this once, then start again:\n    sudo apt-get install {list}"));
    }
    let apt = |args: &[&str]| {
        let mut command = places::at_root("apt-get", args);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    super::install(&mut apt(&["update"]))?;
    super::install(apt(&["install", "--yes", "--no-install-recommends"]).args(&packages))
}

/// The folder with `initdb` and `postgres`: the newest that Debian installed, or one on the search path.
pub fn postgres_programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let newest_first = versions.into_iter().rev().map(|(_, folder)| folder);
    newest_first
        .chain(env::split_paths(&path))
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

/// The programs that make the files of a MariaDB server and serve them.
pub struct MariaDbPrograms {
    pub install: PathBuf,
    pub server: PathBuf,
}

/// On the search path, or where Debian puts what only administrators run.
pub fn mariadb_programs() -> Option<MariaDbPrograms> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]).collect();
    let find = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    Some(MariaDbPrograms { install: find("mariadb-install-db")?, server: find("mariadbd")? })
}
