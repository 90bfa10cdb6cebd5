//! `packaging/names.toml`: the names and public addresses of what is published. A few lines read as much TOML as it has:
//! tables, and strings on one line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::places;

/// From the root of the tree.
pub const FILE: &str = "packaging/names.toml";

/// Every name that a package may need; a test checks that `packaging/names.toml` has them.
pub const NEEDED: [&str; 16] = [
    "version_from",
    "project.title",
    "project.summary",
    "project.license",
    "packages.npm",
    "packages.npm_scope",
    "packages.wheel",
    "packages.debian",
    "addresses.home",
    "addresses.source",
    "addresses.issues",
    "addresses.release",
    "addresses.install",
    "addresses.image",
    "maintainer.name",
    "maintainer.email",
];

pub struct Names {
    values: BTreeMap<String, String>,
    /// Where they are from, for complaints.
    file: PathBuf,
}

impl Names {
    pub fn read(file: &Path) -> Result<Names, String> {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let values = parse(&text).map_err(|why| format!("{}:{why}", file.display()))?;
        Ok(Names { values, file: file.to_owned() })
    }

    /// The value of `table.key`.
    pub fn get(&self, name: &str) -> Result<&str, String> {
        let value = self.values.get(name).map(String::as_str);
        value.ok_or_else(|| format!("{} lacks `{name}`", self.file.display()))
    }

    /// The address of the folder of this release.
    pub fn release(&self, version: &str) -> Result<String, String> {
        Ok(self.get("addresses.release")?.replace("{version}", version))
    }

    /// The version of all packages: that of the workspace.
    pub fn version(&self) -> Result<String, String> {
        let file = places::root().join(self.get("version_from")?);
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let lines = text.lines().skip_while(|line| *line != "[workspace.package]").skip(1);
        let mut lines = lines.take_while(|line| !line.starts_with('['));
        let version = lines.find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        version.map(str::to_owned).ok_or_else(|| format!("{} has no version", file.display()))
    }
}

/// `table.key` → value. An error begins with the number of its line.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    let mut table = String::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let wrong = |what: &str| format!("{}: {what}", index + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
            continue;
        }
        let (key, value) = line.split_once(" = ").ok_or_else(|| wrong("is no `key = \"value\"`"))?;
        let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let value = value.filter(|value| !value.contains(['"', '\\']));
        let value = value.ok_or_else(|| wrong("the value is a string in quotes, without \\ and \""))?;
        if values.insert(format!("{table}{key}"), value.to_owned()).is_some() {
            return Err(wrong("this key is there twice"));
        }
    }
    Ok(values)
}

#[test]
fn the_real_file_has_all_that_packages_need() {
    let names = Names::read(&places::root().join(FILE)).expect("is read");
    for name in NEEDED {
        names.get(name).expect("is there");
    }
    assert!(names.version().is_ok_and(|version| version.split('.').count() == 3));
}

#[test]
fn a_wrong_line_is_named() {
    let text = "# a\nversion_from = \"Cargo.toml\"\n\n[packages]\nnpm = \"sarsen\"\n";
    let values = parse(text).expect("is read");
    assert_eq!(values.get("packages.npm").map(String::as_str), Some("sarsen"));
    assert_eq!(values.get("version_from").map(String::as_str), Some("Cargo.toml"));
    for wrong in ["npm = 3", "npm = \"a\\n\"", "npm", "version_from = \"x\"\nversion_from = \"x\""] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert!(parse("a = \"b\"\n\nnpm = [\"a\"]").is_err_and(|why| why.starts_with("3:")));
}
