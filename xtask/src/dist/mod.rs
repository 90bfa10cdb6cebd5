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
mod source;
mod sums;
mod target;
mod tools;

use std::path::{Path, PathBuf};

use crate::places;
use crate::report::Report;
use source::Source;
use target::Target;

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

#[cfg(test)]
mod tests;
