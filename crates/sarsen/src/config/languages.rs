//! The texts of pages and mails: those of the program, and the files of `languages_directory` in their place.

use crate::error::{Error, Result};
use crate::files;
use server::{Languages, TextFile};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The largest file of texts. All texts of a language have a tenth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The languages of these tags. A file of the directory that is wrong, or of another language, is an error of one line.
pub(super) fn load(tags: &[String], directory: Option<&Path>) -> Result<Arc<Languages>> {
    let files = directory.map(texts_in).transpose()?.unwrap_or_default();
    Languages::load(tags, &files).map(Arc::new).map_err(|wrong| Error::usage(wrong.to_string()))
}

/// The files `TAG.toml` of a folder, by name.
fn texts_in(directory: &Path) -> Result<Vec<TextFile>> {
    let entries = fs::read_dir(directory).map_err(Error::file("read", directory))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::file("read", directory))?.path();
        let tag = path.file_stem().and_then(|stem| stem.to_str());
        let Some(tag) = tag.filter(|_| path.extension().is_some_and(|kind| kind == "toml")) else { continue };
        let size = path.metadata().map_err(Error::file("read", &path))?.len();
        if size > FILE_BYTES_MAX {
            return Err(Error::usage(format!(
                "{} has {size} bytes; a file of texts may have {FILE_BYTES_MAX}",
                path.display()
            )));
        }
        // Another process may have removed it since.
        if let Some(content) = files::read(&path)? {
            found.push(TextFile { name: path.display().to_string(), tag: tag.to_owned(), content });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}
