//! `sarsen.yaml`: reads it, says what is wrong with it by line and column, and notices that it was saved.

use crate::error::{Error, Result};
use crate::yaml;
use server::declared::{Declaration, Refusal};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A small example, which `--init` writes.
const EXAMPLE: &str = include_str!("example.yaml");

/// The file, as it was read.
pub(super) struct Source {
    path: PathBuf,
    document: yaml::Document,
    pub(super) declaration: Arc<Declaration>,
}

impl Source {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Source> {
        let text = text(path)?;
        let document = yaml::Document::read(&text).map_err(|problem| {
            Error::usage(format!("{}:{}: {}", path.display(), problem.place, problem.detail))
        })?;
        let declaration = match Declaration::read(document.json.as_bytes()) {
            Ok(declaration) => Arc::new(declaration),
            Err(errors) => {
                let line = |field: &str, detail: &str| line(path, &document, field, detail);
                let lines: Vec<String> =
                    errors.iter().map(|error| line(&error.field, &error.detail)).collect();
                return Err(Error::usage(lines.join("\n        ")));
            }
        };
        Ok(Source { path: path.to_owned(), document, declaration })
    }

    /// Why the server did not take it.
    pub(super) fn refused(&self, refusal: &Refusal) -> Error {
        Error::usage(line(&self.path, &self.document, &refusal.field, &refusal.detail))
    }
}

/// An error about a field, such as `sarsen.yaml:12:5: clients.web.kind: …`.
fn line(path: &Path, document: &yaml::Document, field: &str, detail: &str) -> String {
    let (path, place) = (path.display(), document.place(field));
    match field {
        "" => format!("{path}: {detail}"),
        field => format!("{path}:{place}: {field}: {detail}"),
    }
}

fn text(path: &Path) -> Result<String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(missing(path)),
        file => file.map_err(Error::file("open", path))?,
    };
    let mut bytes = Vec::new();
    let most = yaml::LENGTH_MAX as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    String::from_utf8(bytes).map_err(|_| Error::usage(format!("{} is not UTF-8 text", path.display())))
}

fn missing(path: &Path) -> Error {
    Error::usage(format!(
        "there is no {}, which says what the server has; sarsen dev --init writes a small one and starts",
        path.display()
    ))
}

/// Writes the example, unless there is a file. Returns whether it did.
pub(super) fn write_example(path: &Path) -> Result<bool> {
    match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        made => {
            let written = made.and_then(|mut file| file.write_all(EXAMPLE.as_bytes()));
            written.map(|()| true).map_err(Error::file("write", path))
        }
    }
}

/// Notices that the file was saved.
pub(super) struct Watch {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl Watch {
    pub(super) fn new(path: &Path) -> Watch {
        Watch { path: path.to_owned(), seen: state(path) }
    }

    /// Whether it was saved since the last call. A file that is gone may be on its way: editors replace files.
    pub(super) fn is_changed(&mut self) -> bool {
        let state = state(&self.path);
        let is_changed = state.is_some() && state != self.seen;
        if is_changed {
            self.seen = state;
        }
        is_changed
    }
}

fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Source> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sarsen.yaml");
        std::fs::write(&path, text).expect("written");
        Source::read(&path)
    }

    #[test]
    fn the_example_is_good() {
        let source = read(EXAMPLE).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(source.declaration.client_keys().collect::<Vec<_>>(), ["web"]);
    }

    #[test]
    fn an_error_has_its_line_and_column() {
        let text = EXAMPLE.replace("kind: web", "kind: wbe").replace("    name: Pro", "    nam: Pro");
        let error = read(&text).err().map(|error| error.to_string()).unwrap_or_default();
        let place = |part: &str| {
            let line = text.lines().position(|line| line.contains(part)).expect("a line");
            let column = text.lines().nth(line).and_then(|line| line.find(part)).expect("a column");
            format!("sarsen.yaml:{}:{}: ", line + 1, column + 1)
        };
        for expected in [
            format!("{}plans[0].nam: Unknown; use", place("nam: Pro")),
            format!("{}clients.web.kind: \"wbe\" is not a client kind", place("kind: wbe")),
        ] {
            assert!(error.contains(&expected), "{expected:?} is not in {error}");
        }
    }
}
