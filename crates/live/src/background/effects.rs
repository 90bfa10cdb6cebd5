//! Effects outside of the database: a mail, a call of another server.
//!
//! A command queues an effect with [`queue`] in its transaction: a row in `live_effects`. The instance that has the lease of the
//! effect's reader carries it out and deletes the row, so it happens at least once: after a crash between the two, again. The rows
//! that are left are the reader's place; they are moved, checked and backed up with the rest of the database.
//!
//! Each attempt ends by the deadline of the effect's [`Lane`], which has a bounded number of places. One that fails is repeated with
//! growing pauses, until it succeeds or is given up. Effects of one subject happen one after another, in the order in
//! which their commands queued them; a subject whose effect fails holds up no other. `reader.rs` does the work.

use super::{Failure, Worker, drawn};
use crate::{Given, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::{Backoff, Key, Sql, Store, Time, Tx, args, sql};
use web::panics::caught_in;

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_effects (
    number {serial},
    reader {key} NOT NULL,
    receiver {key} NOT NULL,
    subject {key} NOT NULL,
    id {key} NOT NULL,
    args {long_text} NOT NULL,
    attempts BIGINT NOT NULL,
    queued_ms BIGINT NOT NULL,
    due_ms BIGINT NOT NULL,
    UNIQUE (reader, receiver, due_ms, number),
    UNIQUE (reader, subject, number)
) {rowid_table};";

static QUEUE: Sql =
    sql("INSERT INTO live_effects (reader, receiver, subject, id, args, attempts, queued_ms, due_ms)
     VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?6)");

/// The letters of a receiver and of a subject.
const NAME_MAX: usize = 64;
/// The bytes of an effect as JSON.
const ARGS_MAX: usize = 1024 * 1024;
/// The pause after the first failure; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// How many attempts run at a time at an instance, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// All together.
    pub places: usize,
    /// Of one [`Effect::receiver`]: one that does not answer takes no more.
    pub places_each: usize,
    /// An attempt that has not ended by then has failed.
    pub deadline: Duration,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane::DEFAULT
    }
}

impl Lane {
    /// 32 places, 4 for each receiver, 15 seconds.
    pub const DEFAULT: Lane = Lane { places: 32, places_each: 4, deadline: Duration::from_secs(15) };
}

/// An effect outside of the database that a command can [`queue`].
///
/// Its fields are kept as JSON until it has happened, and are in backups: they are no place for secrets.
pub trait Effect: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name in the database; it must stay the same while effects are queued. At most 56 letters.
    const NAME: &'static str;
    /// Its places and its deadline.
    const LANE: Lane = Lane::DEFAULT;
    /// What an attempt returns, for [`Effect::done`].
    type Outcome: Send + Sync + 'static;

    /// Who is called, as far as places go: the name of a server, an organization. At most 64 letters.
    fn receiver(&self) -> String {
        String::new()
    }

    /// Effects of one subject happen in order, one at a time. At most 64 letters; none: it has no order.
    fn subject(&self) -> Option<String> {
        None
    }

    /// Carries it out. It may happen more than once, so the receiver should know `attempt.id` again.
    fn attempt(&self, attempt: &Attempt) -> impl Future<Output = Result<Self::Outcome, Failure>> + Send;

    /// Runs in the transaction that notes that it has happened.
    fn done(&self, tx: &mut Tx<'_>, given: &Given, outcome: &Self::Outcome) -> Result<(), Problem> {
        let _ = (tx, given, outcome);
        Ok(())
    }

    /// Runs in the transaction that notes that an attempt has failed. `is_last`: there is none after it.
    fn failed(
        &self,
        tx: &mut Tx<'_>,
        given: &Given,
        failure: &Failure,
        is_last: bool,
    ) -> Result<(), Problem> {
        let _ = (tx, given, failure, is_last);
        Ok(())
    }

    /// The pause after so many attempts that failed, from 1 on, the last one with this failure. None: it is given up. What is
    /// waited is drawn between half and all of it, so that not all come back at once.
    fn pause(&self, attempts: u32, failure: &Failure) -> Option<Duration> {
        let _ = failure;
        Some(Backoff::new(PAUSE_MIN, PAUSE_MAX).after(attempts.saturating_sub(1)).peek())
    }
}

/// What an attempt can reach.
pub struct Attempt {
    /// What [`queue`] returned: the same at each attempt.
    pub id: String,
    /// How many were made before.
    pub failed: u32,
    /// When it was queued.
    pub queued: Time,
    worker: Worker,
}

impl Attempt {
    /// The database.
    pub fn store(&self) -> &Store {
        self.worker.store()
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.worker.now()
    }

    /// What was given to [`super::Work::with`] or [`crate::App::with`].
    pub fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.worker.given(self.now(), drawn()).state()
    }
}

/// Queues an effect: it is carried out soon after this command has committed, at least once. Call it after the statements that change
/// what it is about: then effects of one subject have the order of these changes. Returns its id, at most 64 characters.
pub fn queue<E: Effect>(tx: &mut Tx<'_>, given: &Given, effect: &E) -> Result<String, Problem> {
    let args = serde_json::to_string(effect).map_err(Problem::defect)?;
    let (receiver, subject) = (effect.receiver(), effect.subject().unwrap_or_default());
    for (what, text, most) in
        [("receiver", &receiver, NAME_MAX), ("subject", &subject, NAME_MAX), ("JSON", &args, ARGS_MAX)]
    {
        if text.len() > most {
            let text =
                format!("the {what} of the effect {} has {} bytes; the limit is {most}", E::NAME, text.len());
            return Err(Problem::defect(text));
        }
    }
    let id = given.id("effect");
    tx.exec(&QUEUE, args![E::NAME, &receiver, &subject, &id, &args, given.now])?;
    tx.changed(queued(E::NAME));
    Ok(id)
}

/// The key that changes with each new row of a reader.
pub(super) fn queued(name: &str) -> Key {
    Key::row("live_effects", "reader", name)
}

/// A registered effect.
#[derive(Clone)]
pub(crate) struct EffectEntry {
    pub(crate) name: &'static str,
    pub(crate) lane: Lane,
    pub(super) attempt: Arc<dyn Fn(String, Attempt) -> Attempting + Send + Sync>,
}

pub(super) type Attempting = Pin<Box<dyn Future<Output = Ended> + Send>>;
type Hook = Arc<dyn Fn(&mut Tx<'_>, &Given) -> Result<(), Problem> + Send + Sync>;

/// How an attempt ended.
pub(super) struct Ended {
    pub(super) result: Result<(), Failed>,
    /// What the effect itself notes.
    pub(super) hook: Hook,
}

pub(super) struct Failed {
    pub(super) failure: Failure,
    /// None: it is given up.
    pub(super) pause: Option<Duration>,
}

impl EffectEntry {
    pub(crate) fn of<E: Effect>() -> EffectEntry {
        let attempt =
            |args: String, attempt: Attempt| Box::pin(attempt_once::<E>(args, attempt)) as Attempting;
        EffectEntry { name: E::NAME, lane: E::LANE, attempt: Arc::new(attempt) }
    }
}

/// An attempt, with its deadline.
async fn attempt_once<E: Effect>(args: String, attempt: Attempt) -> Ended {
    let effect: Arc<E> = match serde_json::from_str(&args) {
        Ok(effect) => Arc::new(effect),
        // Another release may know how; its fields are not for the log.
        Err(_) => {
            let failure = Failure::new("unreadable", "its JSON is not that of this program's type");
            let failed = Failed { failure, pause: Some(PAUSE_MAX) };
            return Ended { result: Err(failed), hook: Arc::new(|_: &mut Tx<'_>, _: &Given| Ok(())) };
        }
    };
    let deadline = E::LANE.deadline;
    let tried = caught_in(tokio::time::timeout(deadline, effect.attempt(&attempt))).await;
    let tried = match tried {
        Ok(Ok(tried)) => tried,
        Ok(Err(_)) => Err(Failure::new("deadline", format!("no result within {deadline:?}"))),
        Err(_) => Err(Failure::new("panicked", "it panicked; the log says where")),
    };
    match tried {
        Ok(outcome) => Ended {
            result: Ok(()),
            hook: Arc::new(move |tx: &mut Tx<'_>, given: &Given| effect.done(tx, given, &outcome)),
        },
        Err(failure) => {
            let pause = effect.pause(attempt.failed.saturating_add(1), &failure);
            let (of_hook, is_last) = (failure.clone(), pause.is_none());
            let hook = move |tx: &mut Tx<'_>, given: &Given| effect.failed(tx, given, &of_hook, is_last);
            Ended { result: Err(Failed { failure, pause }), hook: Arc::new(hook) }
        }
    }
}

impl Attempt {
    pub(super) fn new(id: String, failed: u32, queued: Time, worker: Worker) -> Attempt {
        Attempt { id, failed, queued, worker }
    }
}
