//! `cargo xtask dist`: the archives of a release, as files in `dist/`.
//!
//! | file | what it is |
//! |---|---|
//! | `sarsen-VERSION-TARGET.tar.gz` | the program, its licences, files for `systemd` and proxies |
//! | `sarsen-VERSION-TARGET/` | the same, unpacked |
//! | `sarsen-VERSION-TARGET.symbols.gz` | what a debugger needs of the program, and nobody else |
//! | `sarsen-VERSION.cdx.json` | what the programs are made of: CycloneDX |
//! | `SHA256SUMS`, `SHA256SUMS.sig` | the sums of all that is there, and an Ed25519 signature over them |
//!
//! The same program makes the same archive, in whatever folder and whenever it is packed. That the same commit makes the same
//! program is meant, and not checked yet (record 0110). `docs/operate/archives.md` is for those who check archives.
//!
//! Layout: `target.rs` has the table of what is built, `tools.rs` fetches compilers, `build.rs` runs them, `pack.rs` makes an
//! archive, `licences.rs` and `sbom.rs` read what others wrote, `sums.rs` adds up and signs.

mod build;
mod licences;
mod pack;
mod sbom;
mod sums;
mod target;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::Report;
use crate::{places, process};
use target::Target;

/// The version of the workspace, which is that of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the released program has beside what `cargo build` gives it: nobody can add it later.
const FEATURES: &str = "acme";

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
struct Chosen<'a> {
    targets: Vec<&'static Target>,
    /// The private key, in PEM, that signs the sums.
    key: Option<&'a str>,
    /// A program that is there, and is packed as it is.
    from: Option<&'a str>,
    /// Where the files go.
    out: PathBuf,
}

pub fn run(args: &[&str]) -> Result<Report, String> {
    let chosen = chosen(args)?;
    let mut report = Report::default();
    let mut source = None;
    report.check("commit", || {
        let found = Source::of_the_tree()?;
        println!("{} of {}", found.commit, found.time);
        found.may_be_signed(chosen.key.is_some())?;
        source = Some(found);
        Ok(true)
    });
    let Some(source) = source else { return Ok(report) };
    let mut done = true;
    for target in &chosen.targets {
        report.check(target.triple, || {
            done = false;
            let programs = match chosen.from {
                Some(file) => {
                    println!("{file} is packed as it is: how it was built, nobody says here");
                    vec![PathBuf::from(file)]
                }
                None => build::programs(target, &source)?,
            };
            let made = pack::archive(&programs, target, &source, &chosen.out)?;
            println!("{}", made.in_words());
            done = true;
            Ok(true)
        });
        if !done {
            // Sums over half of a release would look like those of a whole one.
            return Ok(report);
        }
    }
    report.check("bill of materials", || {
        sbom::write(&source, &chosen.out)?;
        Ok(true)
    });
    report.check("sums", || {
        sums::write(&chosen.out, chosen.key.map(Path::new))?;
        Ok(true)
    });
    Ok(report)
}

fn chosen<'a>(args: &[&'a str]) -> Result<Chosen<'a>, String> {
    let mut chosen = Chosen { targets: Vec::new(), key: None, from: None, out: places::dist() };
    let mut words = args.iter();
    while let Some(option) = words.next() {
        let value = words.next().copied().ok_or_else(|| format!("{option} takes a value"))?;
        match *option {
            "--target" => chosen.targets.push(target::named(value)?),
            "--key" => chosen.key = Some(value),
            "--from" => chosen.from = Some(value),
            "--out" => {
                chosen.out = std::path::absolute(value).map_err(|error| format!("--out {value}: {error}"))?;
            }
            _ => return Err(format!("dist takes --target, --key, --from and --out, not {option}")),
        }
    }
    match (chosen.from, chosen.targets.as_slice()) {
        (Some(_), [_]) | (None, [_, ..]) => Ok(chosen),
        (Some(_), _) => Err("--from FILE goes with one --target: the one that the file was built for".into()),
        (None, []) => Ok(Chosen { targets: target::ALL.iter().collect(), ..chosen }),
    }
}

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
    fn of_the_tree() -> Result<Source, String> {
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
    fn may_be_signed(&self, is_wanted: bool) -> Result<(), String> {
        match is_wanted && self.commit.ends_with("-modified") {
            true => Err("the tree has changes that are not committed (git status): nothing is signed".into()),
            false => Ok(()),
        }
    }
}

/// Runs a program that prints nothing of interest. Its errors come on stderr.
fn done(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(std::process::Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}` failed ({status}): {command:?}")),
        Err(error) => Err(format!("`{name}` cannot be started ({error}); dist needs it")),
    }
}

/// An error with the file that it is about.
fn of<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// The names of what is in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(of(folder))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Of the C and Rust code of others: each package of the registry is unpacked in a folder of its own.
fn unpacked(package: &str, version: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    let folders = registries.flatten().map(|registry| registry.path().join(format!("{package}-{version}")));
    folders.into_iter().find(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests;
