//! The presence of an instance: a small write every few seconds while it serves. It shows whether writes are possible
//! (`/readyz`), and to `sarsen move` that the database is in use. The clock of the database server is looked at too.
//!
//! A file has one process, which locks it. There a write is tried when `/readyz` is asked.

use crate::clock::Clock;
use identity::leases;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Store, Time, Tx};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use web::log_interval::LogInterval;

const EVERY: Duration = Duration::from_secs(2);
/// An instance that was killed counts as serving for this long.
const LEASE: Duration = Duration::from_secs(15);
/// An instance is not ready when no write has succeeded for this long.
const UNWRITTEN_MAX: Duration = Duration::from_secs(10);
/// The shutdown does not wait longer for the database.
const END_MAX: Duration = Duration::from_secs(2);
/// The clock of the database server is read once in so many turns.
const CLOCK_TURNS: u32 = 15;
/// A larger difference between the clocks of two machines shortens codes and the grace time of refresh tokens.
const SKEW_MAX_MS: i64 = 2000;

/// The presence of one instance.
pub(crate) struct Presence {
    store: Store,
    clock: Arc<dyn Clock>,
    /// The id of the instance.
    instance: String,
    tries: Tries,
}

/// Whether writes are possible, as far as it was tried.
#[derive(Default)]
struct Tries {
    state: Mutex<State>,
    /// A try has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// When the first try began that no success has followed.
    unwritten_since: Option<Time>,
    is_writing: bool,
    has_written: bool,
    /// The database refused the last try: its disk is full or read-only.
    is_refused: bool,
}

impl Tries {
    /// False if a try is under way.
    fn begin(&self, now: Time) -> bool {
        let mut state = self.state.lock();
        if state.is_writing {
            return false;
        }
        state.is_writing = true;
        state.unwritten_since.get_or_insert(now);
        true
    }

    fn end(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        state.is_writing = false;
        state.is_refused = outcome == Outcome::Refused;
        if outcome == Outcome::Written {
            state.unwritten_since = None;
            state.has_written = true;
        }
        drop(state);
        self.ended.notify_waiters();
    }

    fn problem(&self, now: Time) -> Option<&'static str> {
        let state = self.state.lock();
        if state.is_refused {
            return Some(
                "The database refuses writes: its disk is full, read-only or fails. The log says which.",
            );
        }
        if !state.has_written {
            return Some("The database has accepted no write since the start. Try again.");
        }
        let is_late = state.unwritten_since.is_some_and(|since| now.since(since) >= UNWRITTEN_MAX);
        is_late.then_some("The database has accepted no write for 10 seconds. Try again.")
    }
}

/// How a try ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written,
    /// The next one is likely to be refused as well.
    Refused,
    Failed,
}

impl Outcome {
    /// A database server may be away for a moment; what a file refuses it refuses until somebody mends it.
    fn of(written: &identity::Result<()>, is_shared: bool) -> Outcome {
        match written {
            Ok(()) => Outcome::Written,
            Err(identity::Error::Store(store::Error::Unavailable { .. })) if !is_shared => Outcome::Refused,
            Err(_) => Outcome::Failed,
        }
    }
}

impl Presence {
    /// Of the instance with this id.
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, instance: String) -> Presence {
        Presence { store, clock, instance, tries: Tries::default() }
    }

    /// Waits for the end of a try that is under way or begins after this call.
    pub(crate) fn ended(&self) -> Notified<'_> {
        self.tries.ended.notified()
    }

    /// Whether a write has succeeded since the start.
    pub(crate) fn has_written(&self) -> bool {
        self.tries.state.lock().has_written
    }

    /// Why writes are not possible: none has succeeded yet, the last one was refused, or none has succeeded for ten
    /// seconds.
    pub(crate) fn problem(&self, now: Time) -> Option<&'static str> {
        self.tries.problem(now)
    }

    /// Runs until the server stops.
    pub(crate) async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        static SKEWED: LogInterval = LogInterval::every(Duration::from_secs(600));
        let now = self.clock.now();
        let forgotten = self.store.write("presence.forget", move |tx| leases::forget_ended(tx, now - LEASE));
        if let Err(error) = forgotten.await {
            tracing::debug!(%error, "instances that were killed are forgotten at the next start");
        }
        for turn in 0_u32.. {
            // What fails shows at `/readyz`, and is tried again.
            if let Err(error) = self.renew().await {
                tracing::debug!(%error, "the presence of this instance was not written");
            }
            if turn.is_multiple_of(CLOCK_TURNS)
                && let Ok(Some(skew_ms)) = self.clock_skew_ms().await
                && skew_ms.abs() > SKEW_MAX_MS
                && SKEWED.due(Instant::now()).is_some()
            {
                tracing::warn!(
                    skew_ms,
                    "the clocks of this machine and of the database server differ; synchronize both (NTP)"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }

    /// Writes that this instance serves, unless that is being tried.
    pub(crate) async fn renew(self: &Arc<Self>) -> identity::Result<()> {
        let (instance, now) = (self.instance.clone(), self.clock.now());
        if !self.tries.begin(now) {
            return Ok(());
        }
        // In a task of its own: a caller that goes away leaves no try that never ends.
        let trying = self.clone();
        let tried = tokio::spawn(async move {
            let write = move |tx: &mut Tx<'_>| leases::serve(tx, &instance, now, now + LEASE);
            let written = trying.store.write("presence.renew", write).await;
            trying.tries.end(Outcome::of(&written, trying.store.is_shared()));
            written
        });
        tried.await.unwrap_or_else(|error| Err(identity::Error::Internal(format!("the presence: {error}"))))
    }

    /// Removes the presence of this instance, if the database answers soon.
    pub(crate) async fn end(&self) {
        let instance = self.instance.clone();
        let ended = self.store.write("presence.end", move |tx| leases::end_serving(tx, &instance));
        if !matches!(tokio::time::timeout(END_MAX, ended).await, Ok(Ok(()))) {
            tracing::warn!(
                "the database counts this instance as serving for {} more seconds",
                LEASE.as_secs()
            );
        }
    }

    /// How far the clock of the database server is ahead of ours, less what the question took; none for a file.
    pub(crate) async fn clock_skew_ms(&self) -> identity::Result<Option<i64>> {
        let before = self.clock.now();
        let there = self.store.read(|snapshot| Ok::<_, identity::Error>(snapshot.server_time()?)).await?;
        let after = self.clock.now();
        Ok(there.map(|there| match there.millis() {
            there if there > after.millis() => there - after.millis(),
            there => (there - before.millis()).min(0),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    #[test]
    fn ten_seconds_without_a_write_are_noticed_whether_it_fails_or_hangs() {
        let presence = Tries::default();
        let can_write = |time| presence.problem(time).is_none();
        assert!(presence.begin(at(90)) && !can_write(at(90)), "none has succeeded");
        presence.end(Outcome::Written);
        assert!(presence.begin(at(100)));
        assert!(!presence.begin(at(105)), "one try at a time");
        assert!(can_write(at(109)) && !can_write(at(110)), "it hangs");
        presence.end(Outcome::Failed);
        assert!(presence.begin(at(110)) && !can_write(at(110)), "it failed");
        presence.end(Outcome::Written);
        assert!(can_write(at(200)));
    }

    #[test]
    fn what_a_full_disk_refuses_is_known_at_once() {
        let presence = Tries::default();
        let full = || store::Error::Unavailable { what: "full".to_owned(), advice: "free some".to_owned() };
        for (error, is_ready) in [(full(), false), (store::Error::Stopped, true)] {
            assert!(presence.begin(at(100)));
            presence.end(Outcome::Written);
            assert!(presence.begin(at(101)));
            presence.end(Outcome::of(&Err(identity::Error::Store(error)), false));
            assert_eq!(presence.problem(at(101)).is_none(), is_ready);
        }
        assert!(
            matches!(Outcome::of(&Err(identity::Error::Store(full())), true), Outcome::Failed),
            "a server"
        );
    }
}
