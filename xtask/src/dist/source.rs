//! What is built, and the files of it: below the steps of `dist`, which share it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{places, process};

/// The version of the workspace, which is that of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the released program has beside what `cargo build` gives it: nobody can add it later.
pub const FEATURES: &str = "acme";

/// The state of the tree that is built.
pub struct Source {
    /// With `-modified` where files differ from it.
    pub commit: String,
    /// Of the commit, in seconds since 1970: the time of all files in the archives.
    pub epoch: String,
    /// The same for people.
    pub time: String,
}

impl Source {
    pub fn of_the_tree() -> Result<Source, String> {
        let git = |args: &[&str]| {
            let mut git = places::at_root("git", &["-c", "safe.directory=*"]);
            let output = process::output(git.args(args).env("TZ", "UTC"));
            let text =
                output.ok_or_else(|| format!("`git {}` failed; dist needs a clone", args.join(" ")))?;
            Ok::<_, String>(text.trim().to_owned())
        };
        let commit = git(&["rev-parse", "HEAD"])?;
        let is_clean = git(&["status", "--porcelain"])?.is_empty();
        Ok(Source {
            commit: if is_clean { commit } else { format!("{commit}-modified") },
            epoch: git(&["show", "-s", "--format=%ct", "HEAD"])?,
            time: git(&["show", "-s", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "HEAD"])?,
        })
    }

    /// A signature stands for a commit that others can look at.
    pub fn may_be_signed(&self, is_wanted: bool) -> Result<(), String> {
        match is_wanted && self.commit.ends_with("-modified") {
            true => Err("the tree has changes that are not committed (git status): nothing is signed".into()),
            false => Ok(()),
        }
    }
}

/// Runs a program that prints nothing of interest. Its errors come on stderr.
pub fn done(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(std::process::Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}` failed ({status}): {command:?}")),
        Err(error) => Err(format!("`{name}` cannot be started ({error}); dist needs it")),
    }
}

/// An error with the file that it is about.
pub fn of<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// The names of what is in a folder, sorted.
pub fn names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(of(folder))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Of the C and Rust code of others: each package of the registry is unpacked in a folder of its own.
pub fn unpacked(package: &str, version: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    let folders = registries.flatten().map(|registry| registry.path().join(format!("{package}-{version}")));
    folders.into_iter().find(|folder| folder.is_dir())
}
