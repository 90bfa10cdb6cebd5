//! The crates of Sarsen that a back end is built from while no registry has them: their folders are named in `Cargo.toml`.

use crate::error::{Error, Result};
use crate::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `live` consists of. A patch that nothing uses would be a warning of each build.
const NEEDED: [&str; 6] =
    ["sarsen-browser", "sarsen-endpoint", "sarsen-live", "sarsen-metrics", "sarsen-store", "sarsen-web"];
/// Where packed crates are unpacked to, in the product's folder.
const UNPACKED: &str = "crates";

/// Where a crate is: in a folder, or packed in a file.
enum Place {
    Folder(PathBuf),
    File(PathBuf),
}

/// The crates that were found in a folder.
pub struct Crates(Vec<(&'static str, Place)>);

impl Crates {
    /// Finds them: a folder for each, as in Sarsen's repository, or files as `cargo package` makes them.
    pub fn find(folder: &Path) -> Result<Crates> {
        let folder = folder.canonicalize().map_err(Error::file("read", folder))?;
        let mut there = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::file("read", &folder))? {
            there.push(entry.map_err(Error::file("read", &folder))?.path());
        }
        there.sort();
        let found = NEEDED.map(|name| (name, place(name, &there)));
        let missing: Vec<&str> =
            found.iter().filter(|(_, place)| place.is_none()).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            return Err(Error::usage(format!(
                "{} does not have {}; use the folder `crates` of Sarsen's repository, or one with files such as \
                 sarsen-live-0.1.0.crate",
                folder.display(),
                missing.join(", ")
            )));
        }
        Ok(Crates(found.into_iter().filter_map(|(name, place)| Some((name, place?))).collect()))
    }

    /// Unpacks those that are packed, and adds all of them to `Cargo.toml`.
    pub fn add_to(&self, product: &Path) -> Result<()> {
        let mut patch = String::from("\n# Until a registry has them.\n[patch.crates-io]\n");
        for (name, place) in &self.0 {
            let path = match place {
                Place::Folder(folder) => folder.clone(),
                Place::File(file) => unpack(file, product)?,
            };
            let Some(path) = path.to_str() else {
                return Err(Error::usage(format!("{} is not UTF-8, which Cargo.toml needs", path.display())));
            };
            patch.push_str(&format!("{name} = {{ path = {} }}\n", toml::Value::from(path)));
        }
        let manifest = product.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(Error::file("read", &manifest))?;
        fs::write(&manifest, text + &patch).map_err(Error::file("write", &manifest))
    }
}

fn place(name: &str, there: &[PathBuf]) -> Option<Place> {
    let folder = there.iter().find(|path| package_of(path).as_deref() == Some(name));
    let is_packed = |path: &&PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str());
        let version =
            file.and_then(|file| file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".crate"));
        version.is_some_and(|version| version.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    // The last one in the order of names, when there are several versions.
    let file = || there.iter().rev().find(is_packed);
    folder.cloned().map(Place::Folder).or_else(|| file().cloned().map(Place::File))
}

/// The name of the package in a folder.
fn package_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let manifest: toml::Table = text.parse().ok()?;
    Some(manifest.get("package")?.get("name")?.as_str()?.to_owned())
}

/// Unpacks a file into the product. Returns the folder, as seen from there.
fn unpack(file: &Path, product: &Path) -> Result<PathBuf> {
    let into = product.join(UNPACKED);
    fs::create_dir_all(&into).map_err(Error::file("create", &into))?;
    output::tell(&format!("Unpacking {}", file.display()));
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(file).arg("-C").arg(&into).arg("--no-same-owner").stdin(Stdio::null());
    let status = tar.status().map_err(Error::io("cannot run tar"))?;
    let stem = file.file_stem().unwrap_or_default();
    match status.success() && into.join(stem).join("Cargo.toml").is_file() {
        true => Ok(Path::new(UNPACKED).join(stem)),
        false => Err(Error::failed(format!("{} is not a packed crate; tar says above why", file.display()))),
    }
}
