//! The licences of everything that is compiled into the program: most of them ask that their text goes along.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::sbom;
use super::source::{names, of, unpacked};

/// How the files are called in which a package has its licence.
const BEGINNINGS: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// Code of others inside a package of others: where its licence lies there.
const INSIDE: [(&str, &str); 1] = [("aws-lc-sys", "aws-lc/LICENSE")];

/// All texts, each once, with the packages that it belongs to.
pub fn text(packages: &[sbom::Package]) -> Result<String, String> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for package in packages.iter().filter(|package| !package.is_ours) {
        let Some(folder) = unpacked(&package.name, &package.version) else {
            return Err(format!("the sources of {} {} are not unpacked", package.name, package.version));
        };
        let name = format!("{} {}", package.name, package.version);
        let texts = texts(&folder, &package.name)?;
        if texts.is_empty() {
            without.push(format!("{name}: {}", package.licence));
        }
        for text in texts {
            owners.entry(text).or_default().push(name.clone());
        }
    }
    let mut all = "Sarsen is under MIT or Apache-2.0, as you like. It contains these programs of others.\n\
                   SQLite, in libsqlite3-sys, is in the public domain.\n\
                   Rust's standard library is under MIT or Apache-2.0.\n\
                   LLVM's libunwind and compiler-rt are under Apache-2.0 with the LLVM exception.\n"
        .to_owned();
    for (text, owners) in owners {
        let rule = "-".repeat(78);
        write!(all, "\n{rule}\n{}\n{rule}\n\n{text}\n", owners.join("\n"))
            .map_err(|error| error.to_string())?;
    }
    if !without.is_empty() {
        let list = without.join("\n");
        write!(all, "\nThese packages name their licence and carry no text of it:\n{list}\n")
            .map_err(|error| error.to_string())?;
    }
    Ok(all)
}

fn texts(folder: &Path, package: &str) -> Result<Vec<String>, String> {
    let is_licence = |name: &String| {
        let name = name.to_lowercase();
        BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    };
    let inside = INSIDE.iter().filter(|(name, _)| *name == package).map(|(_, file)| (*file).to_owned());
    let files = names(folder)?.into_iter().filter(is_licence).chain(inside);
    let files = files.map(|name| folder.join(name)).filter(|file| file.is_file());
    files.map(|file| Ok(fs::read_to_string(&file).map_err(of(&file))?.trim().replace('\r', ""))).collect()
}
