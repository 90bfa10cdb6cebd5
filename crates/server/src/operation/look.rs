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
    /// The latest times that are noted in it.
    pub latest: Latest,
}

/// The latest times that are noted in a database, as far as a few rows show them.
#[derive(Default)]
pub struct Latest {
    /// When a program that serves the database took or renewed its lease.
    lease: Option<Time>,
    /// When an owner of the server last did something.
    audit: Option<Time>,
}

/// The clock of this machine shows an earlier time than a database has noted.
pub struct ClockBehind {
    /// What is wrong and what to do.
    pub text: String,
    /// A lease shows it, which ends by itself. An audit entry stays, also one that was written while the clock was ahead.
    pub is_certain: bool,
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
    let latest =
        if schema == newest_schema() { latest(snapshot).unwrap_or_default() } else { Latest::default() };
    Ok(Looked { schema, problem, latest })
}

fn newest_schema() -> i64 {
    schema::MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// Reads the leases of the programs that serve a database, and what the owners of the server did.
pub(crate) fn latest(snapshot: &mut Snapshot<'_>) -> Result<Latest> {
    let lease = leases::latest_end(snapshot)?.map(|ends_at| ends_at - LEASE_MAX);
    let audit = match organizations::find(snapshot, PLATFORM) {
        Ok(platform) => audit::newest(snapshot, &platform.id)?,
        Err(Error::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(Latest { lease, audit })
}

/// What to say about a clock that shows `now` when a database has noted a later time.
pub fn clock_behind(latest: &Latest, now: Time) -> Option<ClockBehind> {
    let behind = |noted: Option<Time>| Some(noted?.since(now)).filter(|behind| *behind > BEHIND_MIN);
    let (behind, or, is_certain) = match (behind(latest.lease), behind(latest.audit)) {
        (Some(lease), _) => (lease, "", true),
        (None, Some(audit)) => (audit, ", or the clock was ahead when that was noted", false),
        (None, None) => return None,
    };
    let text = format!(
        "the clock is at least {} behind what the database has noted{or}; set it, and run NTP, because codes and tokens end by it",
        rough(behind)
    );
    Some(ClockBehind { text, is_certain })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_is_certain_about_the_clock() {
        let now = Time::from_millis(1_700_000_000_000);
        let hour = Some(now + Duration::from_secs(3600));
        let behind = |lease, audit| clock_behind(&Latest { lease, audit }, now);
        assert!(behind(None, None).is_none());
        assert!(behind(Some(now), Some(now + BEHIND_MIN)).is_none(), "that of another instance");
        let lease = behind(hour, hour).expect("behind");
        assert!(lease.is_certain && !lease.text.contains("was ahead"), "{}", lease.text);
        let audit = behind(Some(now), hour).expect("behind");
        assert!(!audit.is_certain && audit.text.contains("60 minutes behind"), "{}", audit.text);
        assert!(audit.text.contains("or the clock was ahead when that was noted"), "{}", audit.text);
    }
}
