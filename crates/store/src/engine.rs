//! What the core and the back ends share: queues, feed, counters, and two traits.
//!
//! The core calls a back end only through [`Database`] and [`Backend`]. This file names no back end, and a back end
//! names nothing above this file; only `open.rs` names the back ends. `xtask/src/tidy/layers.rs` checks that.

use crate::cache_memory::CacheMemory;
use crate::changes::Feed;
use crate::job::{Command, Query};
use crate::key_index::{Owner, OwnerId};
use crate::mark::MarkKey;
use crate::queue::Queue;
use crate::recheck::Rechecks;
use crate::replies::Replies;
use crate::stats::Stats;
use crate::version::Epoch;
use crate::watch::Watches;
use crate::{Error, Options, Snapshot, Sql};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A query on a database that is not open.
pub(crate) type Look = Box<dyn FnOnce(&mut Snapshot<'_>) + Send>;

/// A kind of database: what can be done with a URL before a store is open.
pub(crate) trait Database {
    /// Opens the database, runs its migrations and starts its threads.
    fn open(&self, options: Options) -> Result<Opened, Error>;

    /// See [`crate::look`].
    fn look(&self, options: &Options, query: Look) -> Result<(), Error>;

    /// See [`crate::rehearse_open`].
    fn rehearse_open(&self, options: &Options) -> Result<Option<&'static str>, Error>;

    /// Parses a URL. The error does not repeat the URL, which may contain a password.
    #[cfg(feature = "testing")]
    fn check_url(&self, url: &str) -> Result<(), Error>;

    /// See [`crate::fault_injection::hold_transaction`].
    #[cfg(feature = "fault-injection")]
    fn hold_transaction(&self, url: &str) -> Result<Undo, Error>;

    /// See [`crate::fault_injection::end_sessions`].
    #[cfg(feature = "fault-injection")]
    fn end_sessions(&self, _url: &str) -> Result<(), Error> {
        Err(Error::Open("SQLite has no connections to end; give the URL of a server".to_owned()))
    }

    /// See [`crate::fault_injection::pause_replay`].
    #[cfg(feature = "fault-injection")]
    fn pause_replay(&self, _url: &str) -> Result<Undo, Error> {
        Err(Error::Open("only a standby of PostgreSQL can pause its replay; give its URL".to_owned()))
    }
}

/// An open back end and what it shares with the handle.
pub(crate) type Opened = (Arc<Shared>, Box<dyn Backend>);

/// Ends an injected fault.
#[cfg(feature = "fault-injection")]
pub(crate) type Undo = Box<dyn FnOnce() -> Result<(), Error>>;

/// An open back end: its threads, and the reads that it can run on the calling thread.
pub(crate) trait Backend: Send + Sync {
    /// Runs a point read on the calling thread. Returns `false` if this database needs another thread for it.
    fn inline(&self, read: &mut dyn FnMut(&mut Snapshot<'_>)) -> Result<bool, Error>;

    /// Prepares a statement without running it.
    fn prepare(&self, sql: &Sql) -> Result<(), Error>;

    /// The query plan of a statement; `None` if the database has no such text.
    fn explain(&self, sql: &Sql) -> Result<Option<String>, Error>;

    /// The queue for lists that a replica may answer; `None` if no replica is in use.
    fn replica_queue(&self) -> Option<&Queue<Box<dyn Query>>> {
        None
    }

    /// For each replica, how long ago it was last seen to keep up.
    fn replica_lags(&self) -> Vec<Duration> {
        Vec::new()
    }

    /// Bytes that are free where the file is; `None` if this machine has no file.
    fn disk_free(&self) -> Option<u64> {
        None
    }

    /// Copies the database to a new file. Returns its size.
    fn backup(&self, _target: &Path, _key: &MarkKey) -> Result<u64, Error> {
        Err(Error::Open(
            "only a SQLite database is backed up here; use the tool of the database server".to_owned(),
        ))
    }

    /// Closes the queues, finishes the jobs in them and waits for the threads to end.
    fn close(&self);
}

/// What the handle and the database threads share.
pub(crate) struct Shared {
    pub(crate) commands: Queue<Box<dyn Command>>,
    pub(crate) queries: Queue<Box<dyn Query>>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) stats: Stats,
    pub(crate) options: Options,
    pub(crate) replies: Replies,
    /// Watches of keys.
    pub(crate) watches: Arc<Watches>,
    pub(crate) watches_owner: OwnerId,
    /// Caches whose declarations are checked.
    pub(crate) rechecks: Rechecks,
    /// What all caches share.
    pub(crate) cache_memory: Arc<CacheMemory>,
}

impl Shared {
    /// For a back end in which `writers` threads run commands and commit up to `batch_max` of them at once. `number` is
    /// that of the state at the start.
    pub(crate) fn new(
        options: Options,
        epoch: Epoch,
        number: u64,
        writers: usize,
        batch_max: usize,
    ) -> Shared {
        let deadline = options.writer.deadline;
        let feed = Arc::new(Feed::new(epoch, number, options.following.clock.clone()));
        let watches = Arc::new(Watches::default());
        let owner: Arc<dyn Owner> = watches.clone();
        Shared {
            commands: Queue::<Box<dyn Command>>::new(batch_max, writers, deadline)
                .batching(|job| job.is_batchable())
                .with_waits(|job| job.queued_at()),
            queries: Queue::<Box<dyn Query>>::new(1, options.readers, deadline)
                .batching(|query| query.is_point())
                .with_background(|query| query.is_background())
                .with_waits(|query| query.queued_at()),
            watches_owner: feed.index.add_owner(Arc::downgrade(&owner)),
            watches,
            feed,
            cache_memory: Arc::new(CacheMemory::new(options.cache_memory)),
            stats: Stats::default(),
            options,
            replies: Replies::default(),
            rechecks: Rechecks::default(),
        }
    }
}
