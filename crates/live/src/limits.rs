//! What one client, and all together, may take of an app.

use std::time::Duration;

/// What one client, and all together, may take. All of them are settings.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Streams of this process. Callers without a token have at most half of them.
    pub streams_max: usize,
    /// Streams of one user.
    pub streams_per_caller_max: usize,
    /// Streams without a token from one network (an IPv4 address, or a /64 of IPv6).
    pub streams_per_network_max: usize,
    /// Subscriptions of one stream.
    pub subscriptions_max: usize,
    /// Subscriptions of all streams of one user, or of one network without a token; of IPv6 the /48.
    pub subscriptions_per_caller_max: usize,
    /// Bytes of one answer of a live query.
    pub frame_bytes_max: usize,
    /// Bytes of the answers that one user's live queries have, or those of one network without a token. An answer that several
    /// of its streams watch counts once. As many bytes may wait in the answers of calls that the caller has not read.
    pub answer_bytes_per_caller_max: usize,
    /// Bytes of all answers that are kept, and of the arguments that lead to them. Above it, live queries that nobody
    /// watches yet are refused, and calls of queries with long answers; above half of it those of callers without a token,
    /// where callers may have one.
    pub answer_bytes_max: usize,
    /// Runs of live queries at a time. Of them an eighth may be queries that are no points; two where a server keeps the
    /// database.
    pub runs_max: usize,
    /// Calls of one user, or of one network without a token, in ten seconds. No limit unless it is set.
    pub calls_per_caller_max: usize,
    /// Mutations with an `Idempotency-Key` of one user, or of one network without a token, in a quarter of an hour: the answer of
    /// each is kept for a day.
    pub keyed_calls_per_caller_max: usize,
    /// Bytes of the body of a request. JSON may have a value, and a form a field, for every 16 of them.
    pub body_bytes_max: usize,
    /// How often a stream without changes sends a comment.
    pub heartbeat: Duration,
    /// How long a long poll is held.
    pub poll_time: Duration,
    /// Clients come back within this time when the server stops.
    pub return_time: Duration,
    /// A command that runs longer is named in the log and counted.
    pub slow_command: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 20_000,
            streams_per_caller_max: 100,
            streams_per_network_max: 1_000,
            subscriptions_max: 500,
            subscriptions_per_caller_max: 10_000,
            frame_bytes_max: 1024 * 1024,
            answer_bytes_per_caller_max: 64 * 1024 * 1024,
            answer_bytes_max: 512 * 1024 * 1024,
            runs_max: 64,
            calls_per_caller_max: usize::MAX,
            keyed_calls_per_caller_max: 10_000,
            body_bytes_max: 256 * 1024,
            heartbeat: Duration::from_secs(15),
            poll_time: Duration::from_secs(25),
            return_time: Duration::from_secs(5),
            slow_command: Duration::from_millis(100),
        }
    }
}
