//! What a run records: who sent what when, what came back, and the log that the database holds in the end.
//!
//! All times are microseconds of one monotonic clock, that of the checker's own process.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Microseconds since the run began.
pub type Micros = u64;

/// A row of the server's table. Its revision counts the commits that changed it, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowState {
    /// Its primary key.
    pub key: u32,
    /// How many commits have changed it.
    pub rev: u64,
    /// The mutation that made this state.
    pub id: String,
    /// What lists are ordered by.
    pub value: i64,
    /// The list that it is in.
    pub team: u32,
}

/// A version as a client sees it: within an epoch texts compare, and another epoch is newer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub String);

impl Version {
    /// The history that it belongs to.
    pub fn epoch(&self) -> &str {
        self.0.split_once('.').map_or("", |(epoch, _)| epoch)
    }

    /// None if the epochs differ.
    pub fn compare(&self, other: &Version) -> Option<Ordering> {
        (self.epoch() == other.epoch()).then(|| self.0.cmp(&other.0))
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Query {
    /// One row by its key, or nothing.
    Row(u32),
    /// The rows of a team, ordered by value and key.
    Team(u32),
}

/// One mutation that a writer sent, with the same `Idempotency-Key` as often as needed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// Its id, in the log if it committed.
    pub id: String,
    /// When it was first sent.
    pub started: Micros,
    /// What is known of it.
    pub outcome: Outcome,
}

/// What a writer knows of its mutation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// It is durable.
    Committed {
        /// When the answer came.
        ended: Micros,
        /// The version of the answer.
        version: Version,
        /// The revisions that it made, by key.
        revs: Vec<(u32, u64)>,
    },
    /// It failed after it had written, so nothing of it may be seen.
    Refused,
    /// No answer came.
    Unknown,
}

/// Something that a client saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// The client: one subscription through all its reconnects, or one reader.
    pub client: usize,
    /// When it arrived.
    pub at: Micros,
    /// What it was.
    pub event: Event,
}

/// What arrived, as it arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The whole value of a subscription.
    Value {
        /// Its version.
        version: Version,
        /// The version up to which it lacks nothing, where that is another one.
        settled: Option<Version>,
        /// Its digest.
        digest: String,
        /// Its rows; one or none for [`Query::Row`].
        rows: Vec<RowState>,
    },
    /// What changed in a list.
    Rows {
        /// The version after the change.
        version: Version,
        /// As for a value.
        settled: Option<Version>,
        /// The version that the change applies to.
        base: Version,
        /// The digest after the change.
        digest: String,
        /// Rows that are new or differ.
        set: Vec<RowState>,
        /// Keys of rows that are not in the list any more.
        gone: Vec<u32>,
        /// All keys in their order, if that changed.
        order: Option<Vec<u32>>,
    },
    /// What the client holds is current.
    Same {
        /// As of this version, where the event has one.
        version: Option<Version>,
        /// Nothing before this version is missing, where that is not the version itself.
        settled: Option<Version>,
    },
    /// The answer to one question.
    Answer {
        /// What was asked.
        query: Query,
        /// When it was asked.
        started: Micros,
        /// The version that the request carried.
        carried: Option<Version>,
        /// The version of the answer.
        version: Version,
        /// The version up to which it lacks nothing, where that is another one.
        settled: Option<Version>,
        /// The rows; one or none for [`Query::Row`].
        rows: Vec<RowState>,
    },
    /// All writers rest, the wait for frames is over: what the client holds now must be the newest state.
    Quiet,
}

/// A client of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Client {
    /// A subscription, by stream or by long poll.
    Watcher(Query),
    /// Asks by RPC and sends the newest version that it has seen, if `carries`.
    Reader {
        /// Whether it sends versions back.
        carries: bool,
    },
}

/// How the versions of a database are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Versions {
    /// A state holds at least the commits that were answered with its version or an earlier one, and all states of one
    /// version are the same.
    Exact,
    /// A state holds at least the commits that were answered with its version or an earlier one.
    AtLeast,
    /// They order states, but a state may lack single commits that were answered with an earlier version: PostgreSQL
    /// counts transactions in the order in which they began. Frames and answers to queries say from which version back
    /// they lack nothing (`settled`).
    Ordered,
    /// They mean nothing to clients.
    None,
}

/// The time between two restores of the database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Era {
    /// When the restore began; none for the last one.
    pub ended: Option<Micros>,
    /// The server's log at its end: every state of every row.
    pub log: Vec<RowState>,
}

/// Everything about a run that the checker judges.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct History {
    /// What versions mean.
    pub versions: Versions,
    /// Whether a read that begins after a write was answered must show it, also without a version.
    pub reads_are_fresh: bool,
    /// When servers were started, where each start begins a new epoch.
    pub epoch_starts: Vec<Micros>,
    /// The clients, by number.
    pub clients: Vec<Client>,
    /// The mutations.
    pub attempts: Vec<Attempt>,
    /// What clients saw, in order for each client.
    pub seen: Vec<Seen>,
    /// At least one.
    pub eras: Vec<Era>,
}
