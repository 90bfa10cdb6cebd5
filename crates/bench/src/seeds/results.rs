//! The results, one line of JSON for each run, appended when the run ends.
//!
//! Promise: a line that was cut off, because the program was killed while it wrote, is removed and counts as no result.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;

/// The outcome of one run of one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub row: String,
    #[serde(flatten)]
    pub settings: Settings,
    pub machine: String,
    pub took_s: f64,
    /// `None`: the run failed before it had any.
    pub figures: Option<Value>,
    /// Why the run failed. There may be figures too, when the end state was wrong.
    pub error: Option<String>,
}

/// Results with equal settings are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub command: String,
    /// The version of a foreign program that the run uses.
    pub with: Option<String>,
    pub commit: String,
    pub build: String,
    pub quick: bool,
}

impl Record {
    /// Whether its figures may be shown as measurements.
    pub fn measures(&self) -> bool {
        !self.settings.quick && self.settings.build != "debug"
    }
}

#[derive(Debug)]
pub(super) struct Results {
    path: PathBuf,
    records: Vec<Record>,
}

impl Results {
    /// Reads the file, if it is there.
    pub fn open(path: PathBuf) -> Result<Results, Error> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::io(format!("cannot read {}", path.display()))(error)),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut records = Vec::new();
        for (index, line) in text[..whole].lines().enumerate() {
            let record = serde_json::from_str(line).map_err(|error| {
                let place = format!("{}:{}", path.display(), index + 1);
                Error::Usage(format!("{place} is not a result of `bench seeds` ({error}); remove the line"))
            })?;
            records.push(record);
        }
        if whole < text.len() {
            cut(&path, whole as u64)?;
        }
        Ok(Results { path, records })
    }

    /// Whether `row` has figures with these settings.
    pub fn has(&self, row: &str, settings: &Settings) -> bool {
        let is_it = |record: &&Record| record.row == row && record.settings == *settings;
        self.records
            .iter()
            .rfind(is_it)
            .is_some_and(|record| record.figures.is_some() && record.error.is_none())
    }

    /// Appends it to the file, durably.
    pub fn add(&mut self, record: Record) -> Result<(), Error> {
        let what = || Error::io(format!("cannot write {}", self.path.display()));
        let mut line = serde_json::to_vec(&record).map_err(std::io::Error::from).map_err(what())?;
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(&line).and_then(|()| file.sync_data())).map_err(what())?;
        self.records.push(record);
        Ok(())
    }

    /// The result of `row` that the tables show: the newest measurement, else the newest run that shows only that it works.
    pub fn of(&self, row: &str) -> Option<&Record> {
        let newest = |wanted: &dyn Fn(&Record) -> bool| {
            self.records.iter().rfind(|record| record.row == row && wanted(record))
        };
        newest(&|record| record.figures.is_some() && record.measures())
            .or_else(|| newest(&|record| record.figures.is_some()))
            .or_else(|| newest(&|_| true))
    }
}

fn cut(path: &Path, length: u64) -> Result<(), Error> {
    let cut = |file: File| {
        file.set_len(length)?;
        let mut file = file;
        file.seek(SeekFrom::End(0)).map(|_| ())
    };
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(cut).map_err(Error::io(format!("cannot repair {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(row: &str, commit: &str, quick: bool, figures: Option<Value>) -> Record {
        let settings = Settings {
            command: "sarsen bench writes".to_owned(),
            with: None,
            commit: commit.to_owned(),
            build: "optimized".to_owned(),
            quick,
        };
        let error = figures.is_none().then(|| "hey is missing".to_owned());
        Record { row: row.to_owned(), settings, machine: "m".to_owned(), took_s: 1.0, figures, error }
    }

    #[test]
    fn a_row_has_a_result_only_with_equal_settings_and_figures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let good = record("a", "c1", false, Some(json!({ "x": 1 })));
        let failed = record("b", "c1", false, None);
        let mut results = Results::open(path.clone()).unwrap();
        results.add(good.clone()).unwrap();
        results.add(failed.clone()).unwrap();
        let again = Results::open(path).unwrap();
        assert!(again.has("a", &good.settings));
        assert!(!again.has("b", &failed.settings), "a failed run is tried again");
        assert!(!again.has("c", &good.settings));
        for other in [
            Settings { commit: "c2".to_owned(), ..good.settings.clone() },
            Settings { quick: true, ..good.settings.clone() },
            Settings { with: Some("PostgreSQL 18.6".to_owned()), ..good.settings.clone() },
            Settings { command: "sarsen bench writes --runs 5".to_owned(), ..good.settings.clone() },
            Settings { build: "debug".to_owned(), ..good.settings.clone() },
        ] {
            assert!(!again.has("a", &other), "{other:?}");
        }
    }

    #[test]
    fn a_line_that_was_cut_off_is_no_result_and_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let (first, second) =
            (record("a", "c1", false, Some(json!(1))), record("b", "c1", false, Some(json!(2))));
        let line = serde_json::to_string(&second).unwrap();
        let begun = format!("{}\n{}", serde_json::to_string(&first).unwrap(), &line[..line.len() / 2]);
        std::fs::write(&path, begun).unwrap();
        let mut results = Results::open(path.clone()).unwrap();
        assert!(results.has("a", &first.settings) && !results.has("b", &second.settings));
        results.add(second.clone()).unwrap();
        assert!(Results::open(path.clone()).unwrap().has("b", &second.settings));
        std::fs::write(&path, "{}\n").unwrap();
        let error = Results::open(path).unwrap_err().to_string();
        assert!(error.contains("results.jsonl:1 is not a result"), "{error}");
    }

    #[test]
    fn a_measurement_is_shown_before_a_newer_quick_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::open(folder.path().join("results.jsonl")).unwrap();
        assert!(results.of("a").is_none());
        results.add(record("a", "c1", true, None)).unwrap();
        assert_eq!(results.of("a").unwrap().figures, None);
        results.add(record("a", "c1", false, Some(json!(1)))).unwrap();
        results.add(record("a", "c2", false, Some(json!(2)))).unwrap();
        results.add(record("a", "c3", true, Some(json!(3)))).unwrap();
        results.add(record("a", "c4", false, None)).unwrap();
        assert_eq!(results.of("a").unwrap().figures, Some(json!(2)));
    }
}
