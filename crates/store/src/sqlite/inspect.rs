//! Looks at a database file that no process uses, without changing it: is it whole, and is it ours?

use super::checksum::{self, Checked};
use super::connection::{Connection, Role};
use super::errors::Constraints;
use super::schema::{self, SchemaDifferences};
use crate::mark::{Mark, MarkKey};
use crate::{Error, Migration, Snapshot};
use rusqlite::{OpenFlags, Result as RawResult};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// Damages that are listed at most.
const DAMAGES: usize = 20;

/// What a file contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Its size.
    pub bytes: u64,
    /// The number of its last migration.
    pub schema: i64,
    /// Its version, which counts the commits.
    pub version: u64,
    /// What is wrong with it. Empty if it is whole.
    pub problems: Vec<String>,
    /// What is not wrong, but unusual: indexes that somebody added.
    pub warnings: Vec<String>,
    /// Who made it.
    pub mark: Mark,
}

/// Checks the structure of a file, the references between its rows and its schema. Fails if it cannot be read at all.
pub(crate) fn inspect(path: &Path, migrations: &[Migration], keys: &[MarkKey]) -> Result<Inspection, Error> {
    let connection = open(path)?;
    let checked = File::open(path).and_then(|file| checksum::check(&file, keys));
    let checked =
        checked.map_err(|error| Error::Open(format!("{} cannot be read: {error}", path.display())))?;
    let mark = match checked {
        Checked::Right { mark, .. } => mark,
        Checked::None => Mark::None,
        Checked::Wrong => {
            let text = format!("{} is damaged: its checksum is wrong; use another backup", path.display());
            return Err(Error::Open(text));
        }
    };
    let read = || -> RawResult<Inspection> {
        let mut problems = damages(&connection)?;
        problems.extend(dangling(&connection)?);
        let schema = newest_migration(&connection)?;
        let differences = schema::differences(&connection, migrations, schema)?;
        problems.extend(differences.problems);
        let version = connection
            .query_row("SELECT version FROM sarsen_version WHERE id = 1", [], |row| row.get::<_, i64>(0))?;
        Ok(Inspection {
            bytes: 0,
            schema,
            version: version.unsigned_abs(),
            problems,
            warnings: differences.warnings,
            mark,
        })
    };
    let mut found = read().map_err(|error| broken(path, &error))?;
    found.bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    Ok(found)
}

/// Compares the schema of a database with that of its migrations. Another process may use it: then it has a log.
pub(crate) fn compare_schema(path: &Path, migrations: &[Migration]) -> Result<SchemaDifferences, Error> {
    let compared = |connection: &rusqlite::Connection| {
        let schema = newest_migration(connection)?;
        schema::differences(connection, migrations, schema)
    };
    let found = if super::beside(path, "-wal").exists() {
        require_file(path)?;
        compared(Connection::open(path, Role::Reader, false)?.raw())
    } else {
        compared(&open(path)?)
    };
    found.map_err(|error| broken(path, &error))
}

/// Runs a query on a file that no process uses.
pub(crate) fn read<T>(path: &Path, query: impl FnOnce(&mut Snapshot<'_>) -> T) -> Result<T, Error> {
    let connection = open(path)?;
    let constraints = Constraints::read(&connection).map_err(|error| broken(path, &error))?;
    let mut connection = Connection::new(connection, constraints);
    connection.batch("BEGIN")?;
    Ok(query(&mut Snapshot::new(&mut connection, false)))
}

/// Fails if this is not a file with content that this user may read.
pub(super) fn require_file(path: &Path) -> Result<(), Error> {
    // A pipe would block: it is looked at before it is opened.
    let looked = std::fs::metadata(path);
    let readable =
        looked.and_then(|file| if file.is_file() { File::open(path)?.metadata() } else { Ok(file) });
    let what = match readable {
        Ok(file) if !file.is_file() => "is not a file; name the file of a backup".to_owned(),
        Ok(file) if file.len() == 0 => "is empty; use another backup".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => "does not exist; check the name".to_owned(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            format!("cannot be read ({error}); run the command as the user who owns it, or as root")
        }
        Err(error) => format!("cannot be read: {error}"),
    };
    Err(Error::Open(format!("{} {what}", path.display())))
}

/// Opens a file for reading, without a lock and without a log beside it.
fn open(path: &Path) -> Result<rusqlite::Connection, Error> {
    require_file(path)?;
    let problem = |text: String| Err(Error::Open(format!("{} {text}", path.display())));
    let log = super::beside(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return problem(format!(
            "has a write-ahead log beside it ({}), so a server uses it or was killed; make a backup of it and use that",
            log.display()
        ));
    }
    let Some(text) = path.to_str() else {
        return problem("has a name that is not UTF-8; rename it".to_owned());
    };
    // The characters that mean something in a URI.
    let text = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = rusqlite::Connection::open_with_flags(format!("file:{text}?immutable=1"), flags);
    let opened = opened.map_err(|error| broken(path, &error))?;
    opened.execute_batch("PRAGMA trusted_schema = OFF").map_err(|error| broken(path, &error))?;
    Ok(opened)
}

fn broken(path: &Path, error: &rusqlite::Error) -> Error {
    Error::Open(format!("{} is not a whole database of Sarsen ({error}); use another backup", path.display()))
}

/// Damages of the file's structure and of its indexes.
fn damages(connection: &rusqlite::Connection) -> RawResult<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({DAMAGES})"))?;
    let lines: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<RawResult<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").map(|line| format!("damaged: {line}")).collect())
}

fn newest_migration(connection: &rusqlite::Connection) -> RawResult<i64> {
    connection.query_row("SELECT COALESCE(MAX(number), 0) FROM sarsen_migrations", [], |row| row.get(0))
}

/// Rows that refer to a row that is not there, counted by table.
fn dangling(connection: &rusqlite::Connection) -> RawResult<Vec<String>> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        *counts.entry((row.get(0)?, row.get(2)?)).or_default() += 1;
    }
    let text = |((table, parent), count)| {
        format!("{count} rows of {table} refer to rows of {parent} that are not there")
    };
    Ok(counts.into_iter().map(text).collect())
}
