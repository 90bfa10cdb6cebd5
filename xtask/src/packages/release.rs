//! What is packed: below the kinds of packages, which all take it.

use std::path::PathBuf;

use super::entry::Entry;
use super::names::Names;
use super::tools;

/// A platform that archives are made for.
pub struct Target {
    /// In the names of archives.
    pub triple: &'static str,
    /// The name of its processor in Node.js.
    pub node: &'static str,
    /// Platform tags of a wheel; they name the oldest glibc.
    pub wheel: &'static str,
    /// The architecture of Debian, which OCI calls the same.
    pub debian: &'static str,
    /// The folder of its libraries.
    pub multiarch: &'static str,
    /// The oldest glibc.
    pub glibc: &'static str,
}

pub const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        node: "x64",
        wheel: "manylinux_2_17_x86_64.manylinux2014_x86_64",
        debian: "amd64",
        multiarch: "x86_64-linux-gnu",
        glibc: "2.17",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        node: "arm64",
        wheel: "manylinux_2_28_aarch64",
        debian: "arm64",
        multiarch: "aarch64-linux-gnu",
        glibc: "2.28",
    },
];

/// What is packed.
pub struct Release {
    pub names: Names,
    pub version: String,
    /// Where the archives are, and where packages are written.
    pub folder: PathBuf,
    pub programs: Vec<Program>,
    /// Names and texts of the files `LICENSE…` of the archives.
    pub(super) licences: Vec<(String, Vec<u8>)>,
    /// Of every file in a package, in seconds since 1970.
    pub time: u64,
}

/// The program of one target.
pub struct Program {
    pub target: &'static Target,
    pub bytes: Vec<u8>,
}

impl Release {
    /// A text with the names of the packages.
    pub(super) fn fill(&self, template: &str) -> Result<String, String> {
        let names = &self.names;
        let values = [
            ("TITLE", names.get("project.title")?),
            ("SUMMARY", names.get("project.summary")?),
            ("NPM", names.get("packages.npm")?),
            ("WHEEL", names.get("packages.wheel")?),
            ("HOME", names.get("addresses.home")?),
        ];
        tools::fill(template, &values)
    }

    /// The texts of the licences: our own, and those of what the program is made of.
    pub(super) fn licences(&self) -> Vec<Entry> {
        self.licences.iter().map(|(name, bytes)| Entry::file(name, bytes.clone())).collect()
    }
}
