//! What a database is, without opening it: for `sarsen doctor`, which must not migrate it, and for a server, which must not
//! migrate one that it cannot serve.

use identity::organizations::{self, PLATFORM};
use identity::secrets::SecretKey;
use identity::{Error, Result, audit, database_move, leases, schema, settings};
use std::time::Duration;
use store::{Error as StoreError, Options, Snapshot, Time};

/// No lease ends later than this after it was taken or renewed.
const LEASE_MAX: Duration = Duration::from_secs(90);
/// A clock this much behind is told. Less may be that of another instance.
const BEHIND_MIN: Duration = Duration::from_secs(60);

/// A database that has tables of Sarsen.
pub struct Looked {
    /// The number of its last migration.
    pub schema: i64,
    /// Why this program cannot serve it.
    pub problem: Option<Error>,
    /// The latest moment that is noted in it.
    pub latest: Option<Time>,
}

/// Connects to a database and looks. A file must not be in use. `None` is a database without tables.
pub fn look(options: &Options, key: Option<SecretKey>) -> std::result::Result<Option<Looked>, StoreError> {
    let found = store::look(options, move |snapshot| looked(snapshot, key.as_ref()))?;
    found.transpose()
}

fn looked(snapshot: &mut Snapshot<'_>, key: Option<&SecretKey>) -> std::result::Result<Looked, StoreError> {
    let schema = store::schema_version(snapshot)?;
    let problem = match require_servable(snapshot, schema, key) {
        Err(Error::Store(error)) if !matches!(error, StoreError::NewerSchema { .. }) => return Err(error),
        servable => servable.err(),
    };
    // Another schema may lack the tables.
    let latest = if schema == newest_schema() { latest(snapshot).ok().flatten() } else { None };
    Ok(Looked { schema, problem, latest })
}

fn newest_schema() -> i64 {
    schema::MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// The latest moment that is noted in a database, as far as a few rows show it: leases of the programs that serve it, and what
/// the owners of the server did.
pub(crate) fn latest(snapshot: &mut Snapshot<'_>) -> Result<Option<Time>> {
    let lease = leases::latest_end(snapshot)?.map(|ends_at| ends_at - LEASE_MAX);
    let done = match organizations::find(snapshot, PLATFORM) {
        Ok(platform) => audit::newest(snapshot, &platform.id)?,
        Err(Error::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(lease.max(done))
}

/// What to say about a clock that shows `now` when a database has noted a later moment.
pub fn clock_behind(latest: Option<Time>, now: Time) -> Option<String> {
    let behind = latest?.since(now);
    (behind > BEHIND_MIN).then(|| {
        format!(
            "the clock is at least {} behind what the database has noted; set it, and run NTP, because codes and tokens end by it",
            rough(behind)
        )
    })
}

fn rough(span: Duration) -> String {
    let minutes = span.as_secs() / 60;
    match minutes {
        0..120 => format!("{minutes} minutes"),
        120..2880 => format!("{} hours", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    }
}

fn require_servable(snapshot: &mut Snapshot<'_>, found: i64, key: Option<&SecretKey>) -> Result<()> {
    let known = newest_schema();
    if found > known {
        return Err(StoreError::NewerSchema { found, known }.into());
    }
    key.map_or(Ok(()), |key| settings::check(snapshot, key))?;
    database_move::check_finished(snapshot)
}
