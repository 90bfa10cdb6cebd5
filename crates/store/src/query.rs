//! Reads that say which state they show, for results that are sent, compared or watched later.

use crate::job::{Plan, QueryKind};
use crate::{Error, Key, Position, Snapshot, Store, Version};
use std::time::Duration;

/// How a query is run. The default reads the primary's newest state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    not_older_than: Option<Version>,
    from_replica: bool,
    background: bool,
    point: bool,
}

/// A result and the state that it shows.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// The result.
    pub value: T,
    /// The version of the snapshot. The snapshot includes everything that it can include; on PostgreSQL single commits
    /// just before it may be missing.
    pub version: Version,
    /// The snapshot includes every commit before this version: it is the same, except on PostgreSQL while commits overlap.
    /// A result with `settled` at or after [`Store::acknowledged`] shows what was acknowledged then.
    pub settled: Version,
    /// When the snapshot had been taken, for [`Store::has_published`].
    pub taken: Duration,
    /// Everything that this process had published up to here is in the snapshot. What is published later may be.
    pub seen: Position,
    /// What the result depends on, as the query declared it ([`Snapshot::depends`]).
    pub keys: Vec<Key>,
}

impl Read {
    /// The result must not be older than this version of any instance.
    #[must_use]
    pub fn not_older_than(self, version: Version) -> Read {
        Read { not_older_than: Some(version), ..self }
    }

    /// A replica may answer, if it has reached everything that this process has published. Without one that has, the
    /// primary answers.
    #[must_use]
    pub fn from_replica(self) -> Read {
        Read { from_replica: true, ..self }
    }

    /// The query is one or two look-ups by a unique key. With SQLite it runs on the calling thread.
    #[must_use]
    pub fn point(self) -> Read {
        Read { point: true, ..self }
    }

    /// Nobody waits for the result, as when a live query runs again. Such queries leave one reader thread to users, get
    /// every fourth turn while users keep all threads busy, and may wait for ten seconds.
    #[must_use]
    pub fn in_background(self) -> Read {
        Read { background: true, ..self }
    }
}

impl Store {
    /// The one of two versions that asks more of a read ([`Read::not_older_than`]). A version of another history asks for the
    /// primary's newest state, because nothing else is known to be as new.
    pub fn stronger(&self, one: Version, other: Version) -> Version {
        let feed = &self.inner.shared.feed;
        if feed.needed(other) > feed.needed(one) { other } else { one }
    }

    /// Runs a query in one snapshot and returns its result with the version of the snapshot. The query may run more than
    /// once.
    pub async fn query<T, E, F>(&self, read: Read, mut query: F) -> Result<Answer<T>, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: FnMut(&mut Snapshot<'_>) -> Result<T, E> + Send + 'static,
    {
        let feed = &self.inner.shared.feed;
        // Noted before the snapshot, for a connection that has no epoch of its own. If another one begins meanwhile, a client
        // replaces this answer by any of that.
        let (seen, epoch) = (feed.readable(), feed.epoch());
        let needed = read.not_older_than.map_or(0, |version| feed.needed(version));
        let (kind, needed) = match read.from_replica {
            true => (QueryKind::List, needed.max(feed.snapshot_end())),
            false => (QueryKind::Scan, needed),
        };
        let clock = self.inner.shared.options.following.clock.clone();
        let run = move |snapshot: &mut Snapshot<'_>| {
            let numbers = snapshot.version_number()?.zip(snapshot.settled_number()?);
            let of_connection = snapshot.epoch();
            let taken = clock.now();
            Ok::<_, E>((snapshot.recorded(&mut query)?, numbers, of_connection, taken))
        };
        let ((value, keys), numbers, of_connection, taken) = match read.point {
            true => self.point(run).await?,
            false => self.queue(run, Plan { kind, needed, background: read.background }).await?,
        };
        let epoch = of_connection.unwrap_or(epoch);
        let (number, settled) = numbers.unwrap_or((seen.0, seen.0));
        let (version, settled) = (Version { epoch, number }, Version { epoch, number: settled });
        Ok(Answer { value, version, settled, taken, seen, keys })
    }
}
