//! Backups by the clock. The names of the files have their times, so that a restart continues the schedule. A name with a
//! time that has not come yet is from a clock that was ahead: such a file is not counted and not removed.

use crate::clock::Clock;
use identity::secrets::SecretKey;
use metrics::Page;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use store::backup::{self, MarkKey};
use store::{Store, Time};
use tokio::sync::watch;

/// How often the schedule is looked at.
const EVERY: Duration = Duration::from_secs(30);
/// After a failure, the next try.
const TRY_AGAIN: Duration = Duration::from_secs(600);
/// `sarsen-20260131T235959Z.db`.
const NAME: &str = "sarsen-%Y%m%dT%H%M%SZ.db";
const NAME_LENGTH: usize = "sarsen-20260131T235959Z.db".len();
const UNFINISHED: &str = store::leftovers::END;

/// When backups are made, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The folder. It must exist.
    pub folder: PathBuf,
    /// The time from one backup to the next.
    pub every: Duration,
    /// The backups that are kept.
    pub keep: usize,
}

impl Schedule {
    /// The backups in the folder.
    pub fn found(&self, now: Time) -> std::io::Result<Found> {
        let names = backup::list(&self.folder, "", "")?;
        let times = names.iter().filter_map(|name| time_of(name));
        let (times, ahead) = times.partition(|time| *time <= now);
        Ok(Found { times, ahead })
    }
}

/// The backups in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Their times, oldest first.
    pub times: Vec<Time>,
    /// The times of those whose names are ahead of the clock, oldest first.
    pub ahead: Vec<Time>,
}

/// Counters of this process.
#[derive(Default)]
pub(crate) struct Counts {
    made: AtomicU64,
    failed: AtomicU64,
    /// In Unix seconds; 0 for none.
    last: AtomicI64,
    bytes: AtomicU64,
}

impl Counts {
    /// Adds them to a page.
    pub(crate) fn show(&self, page: &mut Page) {
        let last = self.last.load(Relaxed).unsigned_abs();
        page.counter("backups_total", "Backups by the schedule", self.made.load(Relaxed));
        page.counter("backups_failed_total", "Backups that failed", self.failed.load(Relaxed));
        page.gauge(
            "backup_last_success_timestamp_seconds",
            "Unix time of the last good backup, 0 for none",
            last,
        );
        page.gauge("backup_last_bytes", "Size of the last good backup", self.bytes.load(Relaxed));
        page.gauge(
            "backup_last_success_seconds",
            "Deprecated: use sarsen_backup_last_success_timestamp_seconds",
            last,
        );
    }
}

/// Makes the backups of one server.
pub(crate) struct Backups {
    store: Store,
    secret_key: SecretKey,
    clock: Arc<dyn Clock>,
    counts: Arc<Counts>,
    schedule: Schedule,
    not_before: Time,
}

impl Backups {
    /// Of this database and secret key. They are counted in `counts`.
    pub(crate) fn new(
        store: Store,
        secret_key: SecretKey,
        clock: Arc<dyn Clock>,
        counts: Arc<Counts>,
        schedule: Schedule,
    ) -> Backups {
        Backups { store, secret_key, clock, counts, schedule, not_before: Time::from_millis(0) }
    }

    /// Works until the server stops.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            self.turn().await;
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }

    /// Makes a backup if one is due.
    pub(crate) async fn turn(&mut self) {
        let now = self.clock.now();
        // Farther ahead than a failure has set it, if the clock was set back since.
        if now < self.not_before && self.not_before.since(now) <= TRY_AGAIN {
            return;
        }
        let (store, schedule) = (self.store.clone(), self.schedule.clone());
        let key = self.secret_key.mark_key();
        let made = tokio::task::spawn_blocking(move || make_if_due(&store, &schedule, &key, now)).await;
        let counts = &self.counts;
        match made.map_err(|error| error.to_string()).and_then(|made| made) {
            Ok(Turn::NotDue(newest)) => counts.last.store(newest.seconds(), Relaxed),
            Ok(Turn::Made(path, bytes)) => {
                tracing::info!(path = %path.display(), bytes, "a backup was made; it does not have the secret key");
                report_problems(&path, &self.secret_key);
                counts.made.fetch_add(1, Relaxed);
                counts.last.store(now.seconds(), Relaxed);
                counts.bytes.store(bytes, Relaxed);
            }
            Err(error) => {
                tracing::error!(%error, "a backup failed; the next try is in ten minutes");
                counts.failed.fetch_add(1, Relaxed);
                self.not_before = now + TRY_AGAIN;
            }
        }
    }
}

enum Turn {
    /// The time of the newest backup.
    NotDue(Time),
    Made(PathBuf, u64),
}

fn make_if_due(store: &Store, schedule: &Schedule, key: &MarkKey, now: Time) -> Result<Turn, String> {
    let folder = &schedule.folder;
    let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
    let found = schedule.found(now).map_err(unreadable)?;
    if let Some(newest) = found.times.last().filter(|newest| now.since(**newest) < schedule.every) {
        return Ok(Turn::NotDue(*newest));
    }
    let path = folder.join(name_at(now).ok_or("the clock is wrong")?);
    let bytes = store.backup(&path, key).map_err(|error| error.to_string())?;
    remove_old(schedule, now)
        .map_err(|error| format!("old backups cannot be removed: {}", unreadable(error)))?;
    Ok(Turn::Made(path, bytes))
}

/// Reports what makes a restore refuse a backup: its operator learns it now.
fn report_problems(path: &Path, key: &SecretKey) {
    match super::check_made(path, key) {
        Ok(found) => {
            for problem in found.problems {
                tracing::error!(path = %path.display(), %problem, "sarsen restore will refuse this backup");
            }
            for warning in found.warnings {
                tracing::warn!(path = %path.display(), %warning, "the schema of a backup is unusual");
            }
        }
        Err(error) => tracing::error!(path = %path.display(), %error, "a backup cannot be read"),
    }
}

/// Removes all but the newest backups, and what a killed server left unfinished. Files with other names stay.
fn remove_old(schedule: &Schedule, now: Time) -> std::io::Result<()> {
    let names = backup::list(&schedule.folder, "", "")?;
    let made: Vec<&String> =
        names.iter().filter(|name| time_of(name).is_some_and(|time| time <= now)).collect();
    let old = made.iter().take(made.len().saturating_sub(schedule.keep)).copied();
    let unfinished = names.iter().filter(|name| {
        let begin = name.get(..NAME_LENGTH).and_then(time_of);
        name.ends_with(UNFINISHED) && begin.is_some_and(|time| time < now)
    });
    for name in old.chain(unfinished) {
        backup::remove(&schedule.folder, name)?;
    }
    Ok(())
}

fn name_at(time: Time) -> Option<String> {
    let stamp = jiff::Timestamp::from_millisecond(time.millis()).ok()?;
    Some(stamp.strftime(NAME).to_string())
}

fn time_of(name: &str) -> Option<Time> {
    if name.len() != NAME_LENGTH {
        return None;
    }
    let stamp = jiff::civil::DateTime::strptime(NAME, name).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Time::from_millis(stamp.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_backup_has_its_time() {
        let time = Time::from_millis(1_769_903_999_000);
        let name = name_at(time).expect("a name");
        assert_eq!((name.as_str(), time_of(&name)), ("sarsen-20260131T235959Z.db", Some(time)));
        for other in ["sarsen.db", "sarsen-20260131T235959Z.db.17-0.sarsen-new", "sarsen-20269931T235959Z.db"]
        {
            assert_eq!(time_of(other), None, "{other}");
        }
    }
}
