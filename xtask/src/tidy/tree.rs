//! The files that the rules read: those that git tracks or would add.

use std::collections::BTreeMap;
use std::fs;

use crate::places;

/// Path from the root, with forward slashes → text. A file that is not text, such as a picture, has none.
#[derive(Default)]
pub struct Tree {
    pub files: BTreeMap<String, String>,
}

impl Tree {
    /// The real tree.
    pub fn real() -> Tree {
        // Only the command line may say that a tree of another owner is fine to read.
        let args = ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let output = places::at_root("git", &args).output().expect("the tidy rules need git");
        assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
        let read = |name: &str| {
            let bytes = fs::read(places::root().join(name)).ok()?;
            Some((name.to_owned(), String::from_utf8(bytes).unwrap_or_default()))
        };
        Tree { files: names.split('\0').filter(|name| !name.is_empty()).filter_map(read).collect() }
    }

    /// A made-up tree, to see that a rule bites.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect() }
    }

    pub fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    pub fn holds(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Names of the folders right under `prefix` (`""` or `"crates/"`), sorted.
    pub fn folders(&self, prefix: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.iter().filter_map(|(path, _)| Some(path.strip_prefix(prefix)?.split_once('/')?.0)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
