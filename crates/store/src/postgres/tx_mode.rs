//! The settings that a transaction has, by what it is for.
//!
//! The server makes commands behave as if they ran one after another (SERIALIZABLE): of two that cannot both
//! be right, one fails.
//!
//! Commits are flushed: each session says `synchronous_commit = on`, and `off` for housekeeping. A server or a pooler may
//! forbid that (`may_set_commit`, asked at each connect). Then its own setting holds, and one that is off is refused.

use super::epochs::origin;
use crate::remote::TxMode;
use std::time::Duration;

/// A command may run this long. Ten times what it may on SQLite: here each statement is a journey, and
/// a slow command holds up one of several connections, not everybody.
const COMMAND_LIMIT: Duration = Duration::from_secs(1);
/// A query may run this long, as on SQLite.
pub(super) const QUERY_LIMIT: Duration = Duration::from_secs(5);

/// Fails where sessions must not say how commits are flushed, and changes nothing.
pub(super) const MAY_SET_COMMIT: &str = "BEGIN; SET LOCAL synchronous_commit = on; ROLLBACK";
/// `off` there means that what was acknowledged may be lost.
pub(super) const COMMIT_SETTING: &str = "SHOW synchronous_commit";

/// The current snapshot.
pub(super) const SNAPSHOT: &str = "SELECT CAST(pg_current_snapshot() AS TEXT)";

/// The settings of a transaction. A lock is waited for a little less long than a command may run, so that it is told
/// apart from slowness. A program that falls silent in a transaction loses it, and its locks, after 10 s.
fn settings(mode: TxMode, may_set_commit: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let [statement, lock, silence] = match mode {
        TxMode::Command | TxMode::Batch => ["1000", "900", "10000"],
        TxMode::Query | TxMode::Replica => ["5000", "0", "10000"],
        TxMode::Log => ["5000", "500", "10000"],
        TxMode::Schema => ["0", "30000", "0"],
    };
    let flushes = may_set_commit.then_some(("synchronous_commit", "on"));
    flushes.into_iter().chain([
        ("statement_timeout", statement),
        ("lock_timeout", lock),
        ("idle_in_transaction_session_timeout", silence),
    ])
}

/// Makes the settings of all transactions on a session: these statements cost more than the BEGIN itself.
pub(super) fn set_for_session(mode: TxMode, may_set_commit: bool) -> String {
    let all = settings(mode, may_set_commit).chain(scans(mode));
    all.map(|(name, value)| format!("SET {name} = {value};")).collect()
}

/// A command that finds its rows by reading a whole table collides with every other one that writes there, so the planner
/// uses an index wherever there is one, also on small tables; and row by row, for a bitmap of them counts as a read of
/// their pages.
fn scans(mode: TxMode) -> [(&'static str, &'static str); 2] {
    let scans = if matches!(mode, TxMode::Command | TxMode::Batch) { "off" } else { "on" };
    [("enable_seqscan", scans), ("enable_bitmapscan", scans)]
}

/// Begins a transaction on a session that has its settings, in one journey to the server. A query begins with what it
/// can see.
pub(super) fn begin(mode: TxMode, may_set_commit: bool) -> &'static str {
    match mode {
        TxMode::Command => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        // Two batches that change the same rows in another order wait for each other, and the server notices that only
        // after a second.
        TxMode::Batch => "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL lock_timeout = 50",
        // Asked after the snapshot was taken: a server that is a primary then was one at the snapshot.
        TxMode::Query | TxMode::Replica => {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
             SELECT CAST(pg_current_snapshot() AS TEXT), pg_is_in_recovery()"
        }
        // Old entries that come back after a crash are deleted again. Never set for the session: behind a pooler that is not
        // named as one it would stay on a connection of the server, and the commands of others would not be flushed.
        TxMode::Log if may_set_commit => {
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off"
        }
        TxMode::Log | TxMode::Schema => "BEGIN ISOLATION LEVEL READ COMMITTED",
    }
}

/// The same with settings that end with the transaction, where nothing may live on a session. A query that `is_versioned`
/// also begins with where the ids come from that it can see.
pub(super) fn begin_with_settings(mode: TxMode, may_set_commit: bool, is_versioned: bool) -> String {
    let begin = begin(mode, may_set_commit);
    let (begin, rest) = begin.split_once(';').unwrap_or((begin, ""));
    let origin = if is_versioned && mode == TxMode::Query { concat!(", ", origin!()) } else { "" };
    let all = settings(mode, may_set_commit).chain(scans(mode));
    let local = all.map(|(name, value)| format!("SET LOCAL {name} = {value};"));
    [begin, ";"]
        .into_iter()
        .map(String::from)
        .chain(local)
        .chain([rest.to_owned(), origin.to_owned()])
        .collect()
}

pub(super) fn limit(mode: TxMode) -> Option<Duration> {
    match mode {
        TxMode::Command | TxMode::Batch => Some(COMMAND_LIMIT),
        TxMode::Query | TxMode::Replica | TxMode::Log => Some(QUERY_LIMIT),
        TxMode::Schema => None,
    }
}
