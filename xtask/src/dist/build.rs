//! Building the program for a target, so that the same commit gives the same bytes everywhere.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::source::{FEATURES, Source};
use super::target::{Compiler, Target};
use super::tools;
use crate::{places, process};

/// A build takes some seven minutes of two cores.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// The programs of an archive, `sarsen` first.
pub fn programs(target: &Target, source: &Source) -> Result<Vec<PathBuf>, String> {
    let mut cargo = command(target, source)?;
    if !process::run(&mut cargo, LIMIT)?.success {
        return Err(format!("the program does not build for {}", target.triple));
    }
    let folder = places::target().join(target.triple).join("dist");
    Ok(["sarsen", "sarsen-bench"].map(|name| folder.join(name)).into())
}

fn command(target: &Target, source: &Source) -> Result<Command, String> {
    let tools = tools::of(target)?;
    let mut cargo = Command::new(tools.zigbuild);
    cargo.current_dir(places::root()).args([
        "zigbuild",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "sarsen",
    ]);
    cargo.args(["--features", FEATURES, "--target"]).arg(format!("{}.{}", target.triple, target.glibc));
    let mut path: Vec<PathBuf> = tools.path;
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    cargo.env("PATH", std::env::join_paths(path).map_err(|error| error.to_string())?);
    if target.compiler == Compiler::Debian {
        cargo.envs(tools::debian_variables());
    }
    let renamed = renamed_folders();
    cargo.env("RUSTFLAGS", flags(&renamed, "--remap-path-prefix="));
    cargo.env(format!("CFLAGS_{}", target.triple.replace('-', "_")), flags(&renamed, "-ffile-prefix-map="));
    cargo.env("SARSEN_COMMIT", &source.commit).env("SOURCE_DATE_EPOCH", &source.epoch);
    // Also where somebody has set other habits for their own work.
    cargo.env("CARGO_INCREMENTAL", "0").env("LC_ALL", "C").env("TZ", "UTC");
    Ok(cargo)
}

/// Folders of this machine, and the names that the program knows them by. Of two that fit, compilers take the last.
fn renamed_folders() -> Vec<(PathBuf, &'static str)> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cargo"))
    });
    let cargo = home.map(|home| (home, "/cargo"));
    cargo.into_iter().chain([(places::root(), "/sarsen"), (places::target(), "/sarsen/target")]).collect()
}

fn flags(renamed: &[(PathBuf, &'static str)], option: &str) -> OsString {
    let mut flags = String::new();
    for (folder, name) in renamed {
        // Writing to a String does not fail.
        let _ = write!(flags, "{option}{}={name} ", folder.display());
    }
    flags.trim_end().into()
}

#[test]
fn folders_of_the_machine_get_names_of_their_own() {
    let renamed = [(PathBuf::from("/a/cargo"), "/cargo"), (PathBuf::from("/a/tree"), "/sarsen")];
    assert_eq!(flags(&renamed, "-f="), "-f=/a/cargo=/cargo -f=/a/tree=/sarsen");
    let names: Vec<&str> = renamed_folders().iter().map(|(_, name)| *name).collect();
    assert_eq!(names.last(), Some(&"/sarsen/target"), "inside the tree, so it has to be the last");
}
