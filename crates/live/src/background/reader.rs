//! The reader of an effect: finds what is due, and carries it out in the places of the effect's lane.
//!
//! One instance at a time has the lease of a reader. It goes from receiver to receiver, so that a long backlog of one keeps no other
//! waiting, and starts of each what is due and fits into its places. Of a subject only the oldest effect may start; the place that
//! carried it out goes on with the next one of the subject. An outcome is noted in a transaction that changes the row of that very
//! attempt, so an instance that has lost the lease notes nothing.

use super::effects::{Attempt, EffectEntry, Ended, Failed, queued};
use super::lease::Lease;
use super::metrics::EffectCounts;
use super::{Worker, drawn};
use crate::Problem;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Backoff, Row, Snapshot, Sql, Time, Tx, args, sql};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use web::log_interval::LogInterval;

static FIRST_RECEIVER: Sql = sql("SELECT MIN(receiver) FROM live_effects WHERE reader = ?1");
static NEXT_RECEIVER: Sql = sql("SELECT MIN(receiver) FROM live_effects WHERE reader = ?1 AND receiver > ?2");
/// With the oldest effect of the same subject.
static DUE: Sql =
    sql("SELECT e.number, e.id, e.receiver, e.subject, e.due_ms, e.attempts, e.queued_ms, e.args,
         (SELECT MIN(o.number) FROM live_effects o WHERE o.reader = e.reader AND o.subject = e.subject)
     FROM live_effects e WHERE e.reader = ?1 AND e.receiver = ?2 AND e.due_ms <= ?3
     ORDER BY e.due_ms, e.number LIMIT ?4");
static NEXT_OF_SUBJECT: Sql = sql("SELECT number, id, receiver, subject, due_ms, attempts, queued_ms, args
     FROM live_effects WHERE reader = ?1 AND subject = ?2 ORDER BY number LIMIT 1");
static POSTPONE: Sql = sql("UPDATE live_effects SET due_ms = ?3 WHERE number = ?1 AND due_ms = ?2");
static DONE: Sql = sql("DELETE FROM live_effects WHERE number = ?1 AND attempts = ?2");
static AGAIN: Sql =
    sql("UPDATE live_effects SET due_ms = ?3, attempts = attempts + 1 WHERE number = ?1 AND attempts = ?2");
static OLDEST: Sql = sql("SELECT queued_ms FROM live_effects WHERE reader = ?1 ORDER BY number LIMIT 1");
static READERS: Sql = sql("SELECT reader, COUNT(*) FROM live_effects GROUP BY reader");

/// So many rows of a receiver are read beyond those that fit into its places: some wait for others of their subject.
const SPARE: usize = 12;
/// Receivers that one look visits.
const RECEIVERS: usize = 256;
/// The longest time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// A row that waits for the one before it, and is in the way of others, is looked at again after this time. The one before it wakes
/// it earlier.
const BEHIND: Duration = Duration::from_secs(60);
/// How often an outcome is noted together with what the effect itself notes. Then without.
const TRIES_OF_HOOK: u32 = 5;
/// After an outcome that the effect itself could not note.
const PAUSE_AFTER_HOOK: Duration = Duration::from_secs(60);
/// How long a stop waits for attempts that have begun.
pub(super) const STOP_MAX: Duration = Duration::from_secs(3);

/// A row.
struct Queued {
    number: i64,
    id: String,
    receiver: String,
    subject: String,
    due: Time,
    attempts: u32,
    queued: Time,
    args: String,
}

struct Reader {
    worker: Worker,
    entry: EffectEntry,
    counts: Arc<EffectCounts>,
    attempts: Mutex<Attempts>,
    failures: LogInterval,
    stopped: watch::Receiver<bool>,
}

/// What is carried out at this instance.
#[derive(Default)]
struct Attempts {
    /// Rows, with their receivers.
    running: HashMap<i64, String>,
    /// Rows of attempts that have ended since the last look began: it may have read them as they were before.
    ended: HashSet<i64>,
}

/// Whose row it was when an outcome was to be noted.
enum Noted {
    Here,
    ByAnother,
}

/// What a look has found.
#[derive(Default)]
struct Found {
    start: Vec<Queued>,
    /// Rows that wait for others, with their times.
    behind: Vec<(i64, Time)>,
    /// There may be more as soon as a place is free.
    more: bool,
}

/// Names the effects that wait for a program that knows them. They stay: another instance, of another release, may.
pub(super) async fn warn_of_unknown(worker: &Worker, known: &[EffectEntry]) {
    let read = |snapshot: &mut Snapshot<'_>| {
        snapshot.all(&READERS, &[], |row| Ok((row.get::<String>(0)?, row.get::<i64>(1)?)))
    };
    let readers: Result<Vec<_>, store::Error> = worker.store().read(read).await;
    for (effect, waiting) in readers.into_iter().flatten() {
        if !known.iter().any(|entry| entry.name == effect) {
            tracing::warn!(
                effect,
                waiting,
                "effects are queued that this program does not know; register them with `effect`"
            );
        }
    }
}

/// Carries effects out until the server stops.
pub(super) async fn run(
    worker: Worker,
    entry: EffectEntry,
    counts: Arc<EffectCounts>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut lease = Lease::new(entry.name);
    let failures = LogInterval::second();
    let (attempts, of_attempts) = (Mutex::default(), stopped.clone());
    let reader =
        Arc::new(Reader { worker: worker.clone(), entry, counts, attempts, failures, stopped: of_attempts });
    let woken = Arc::new(Notify::new());
    let (mut running, mut watching) = (JoinSet::new(), None);
    let (mut after, mut measured) = (None, None::<Instant>);
    while !*stopped.borrow() {
        if watching.is_none() {
            let (seen, notify) = (worker.store().position(), woken.clone());
            watching = worker.store().watch(&[queued(reader.entry.name)], seen, move || notify.notify_one());
        }
        if measured.is_none_or(|at| at.elapsed() >= LOOK) {
            measured = Some(Instant::now());
            reader.measure().await;
        }
        let mut found = reader.look(&mut after).await.unwrap_or_else(|error| {
            tracing::warn!(%error, effect = reader.entry.name, "queued effects cannot be read; trying again");
            Found::default()
        });
        let has_work = !found.start.is_empty() || !running.is_empty();
        if has_work && !lease.keep(&worker).await {
            found = Found::default();
            if !running.is_empty() {
                tracing::warn!(
                    effect = reader.entry.name,
                    "another instance may carry out these effects; they end here"
                );
                running.shutdown().await;
                reader.attempts.lock().running.clear();
            }
        }
        let has_room = reader.postpone(std::mem::take(&mut found.behind)).await;
        for queued in found.start {
            if reader.begin(&queued) {
                running.spawn(reader.clone().carry_out(queued));
            }
        }
        if has_room {
            continue;
        }
        let look = tokio::time::sleep(LOOK);
        tokio::pin!(look);
        loop {
            tokio::select! {
                () = woken.notified() => break,
                () = &mut look => break,
                Some(_) = running.join_next(), if !running.is_empty() => {
                    while running.try_join_next().is_some() {}
                    if found.more {
                        break;
                    }
                }
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
    }
    // What has begun may still end well. What does not is done again.
    let ending = async { while running.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_MAX, ending).await;
    running.shutdown().await;
    lease.release(&worker).await;
}

impl Reader {
    /// Finds what may start now, from the receiver after `after` on.
    async fn look(&self, after: &mut Option<String>) -> Result<Found, store::Error> {
        let (places, running) = {
            let mut attempts = self.attempts.lock();
            attempts.ended.clear();
            (self.entry.lane.places.saturating_sub(attempts.running.len()), attempts.running.clone())
        };
        let (name, each, now) = (self.entry.name, self.entry.lane.places_each, self.worker.now());
        let from = after.clone();
        let read = move |snapshot: &mut Snapshot<'_>| {
            let (mut found, mut places) = (Found::default(), places);
            let (mut receiver, mut has_turned) = (from.clone(), from.is_none());
            for _ in 0..RECEIVERS {
                if places == 0 {
                    found.more = true;
                    break;
                }
                receiver = next_receiver(snapshot, name, receiver.as_deref())?;
                let is_last =
                    |receiver: &String| has_turned && from.as_ref().is_some_and(|from| receiver >= from);
                match &receiver {
                    None if has_turned => break,
                    None => has_turned = true,
                    Some(receiver) => {
                        places -=
                            found.of_receiver(snapshot, (name, receiver, now), &running, each.min(places))?;
                        if is_last(receiver) {
                            break;
                        }
                    }
                }
            }
            Ok::<_, store::Error>((found, receiver))
        };
        let (found, last) = self.worker.store().read(read).await?;
        *after = last;
        Ok(found)
    }

    /// Notes that an attempt begins here; false if it has begun already.
    fn begin(&self, queued: &Queued) -> bool {
        let mut attempts = self.attempts.lock();
        if attempts.ended.contains(&queued.number) || attempts.running.contains_key(&queued.number) {
            return false;
        }
        attempts.running.insert(queued.number, queued.receiver.clone());
        self.counts.running(attempts.running.len());
        true
    }

    fn end(&self, number: i64) {
        let mut attempts = self.attempts.lock();
        attempts.running.remove(&number);
        attempts.ended.insert(number);
        self.counts.running(attempts.running.len());
    }

    /// Carries an effect out, and those of its subject behind it.
    async fn carry_out(self: Arc<Self>, mut queued: Queued) {
        loop {
            let attempt =
                Attempt::new(queued.id.clone(), queued.attempts, queued.queued, self.worker.clone());
            let ended = (self.entry.attempt)(queued.args.clone(), attempt).await;
            let is_over = self.note(&queued, &ended).await;
            let next = match is_over && !queued.subject.is_empty() && !*self.stopped.borrow() {
                true => self.next_of(&queued).await,
                false => None,
            };
            // Begun before the other has ended: the place stays taken.
            let next = next.filter(|next| self.begin(next));
            self.end(queued.number);
            match next {
                Some(next) => queued = next,
                None => return,
            }
        }
    }

    /// Notes how an attempt ended. Returns whether the row is gone.
    async fn note(&self, queued: &Queued, ended: &Ended) -> bool {
        for attempt in 1.. {
            let with_hook = attempt <= TRIES_OF_HOOK;
            let problem = match self.note_once(queued, ended, with_hook).await {
                Ok(Noted::ByAnother) => return false,
                Ok(Noted::Here) if with_hook => {
                    self.count(queued, ended);
                    return !matches!(&ended.result, Err(Failed { pause: Some(_), .. }));
                }
                Ok(Noted::Here) => {
                    self.counts.failed(false);
                    return false;
                }
                Err(problem) => problem,
            };
            tracing::warn!(effect = self.entry.name, id = queued.id, code = %problem.code, why = %problem.words(),
                "the outcome of an effect could not be noted; trying again");
            tokio::time::sleep(LOOK).await;
        }
        false
    }

    async fn note_once(&self, queued: &Queued, ended: &Ended, with_hook: bool) -> Result<Noted, Problem> {
        let (number, attempts, now, random) =
            (queued.number, i64::from(queued.attempts), self.worker.now(), drawn());
        let pause = match &ended.result {
            // The effect itself must note it: it happens again rather than never.
            _ if !with_hook => Some(PAUSE_AFTER_HOOK),
            Ok(()) => None,
            Err(Failed { pause, .. }) => pause.map(|pause| Backoff::new(pause, pause).take()),
        };
        let (hook, worker) = (ended.hook.clone(), self.worker.clone());
        let note = move |tx: &mut Tx<'_>| {
            let noted = match pause {
                None => tx.exec(&DONE, args![number, attempts])?,
                Some(pause) => tx.exec(&AGAIN, args![number, attempts, now + pause])?,
            };
            // Another instance has it, after this one was thought to be gone.
            if noted == 0 {
                return Ok(Noted::ByAnother);
            }
            if with_hook {
                tx.snapshot().set_time(now);
                hook(tx, &worker.given(now, random))?;
            }
            Ok(Noted::Here)
        };
        self.worker.store().write::<_, Problem, _>(self.entry.name, note).await
    }

    fn count(&self, queued: &Queued, ended: &Ended) {
        let Err(Failed { failure, pause }) = &ended.result else { return self.counts.done() };
        self.counts.failed(pause.is_none());
        let Some(failures) = self.failures.due(Instant::now()) else { return };
        let (effect, id, attempts) = (self.entry.name, &queued.id, queued.attempts + 1);
        let (code, why) = (failure.code(), failure.why());
        match pause {
            Some(_) => tracing::warn!(
                effect,
                id,
                attempts,
                code,
                why,
                failures,
                "an effect failed and is repeated later"
            ),
            None => {
                tracing::error!(effect, id, attempts, code, why, failures, "an effect failed and is given up")
            }
        }
    }

    /// The next effect of the same subject, unless it has failed before and has its own time.
    async fn next_of(&self, queued: &Queued) -> Option<Queued> {
        let (name, subject) = (self.entry.name, queued.subject.clone());
        let read = move |snapshot: &mut Snapshot<'_>| {
            snapshot.one(&NEXT_OF_SUBJECT, args![name, &subject], Queued::read)
        };
        let next: Result<Option<Queued>, store::Error> = self.worker.store().point(read).await;
        next.ok().flatten().filter(|next| next.attempts == 0)
    }

    /// Makes room for others in front of rows that wait for another of their subject. Returns whether there is some now.
    async fn postpone(&self, behind: Vec<(i64, Time)>) -> bool {
        if behind.is_empty() {
            return false;
        }
        let later = self.worker.now() + BEHIND;
        let postpone = move |tx: &mut Tx<'_>| {
            let mut rows = behind.iter();
            rows.try_for_each(|(number, due)| tx.exec(&POSTPONE, args![*number, *due, later]).map(drop))
        };
        let postponed: Result<(), store::Error> = self.worker.store().write("live.postpone", postpone).await;
        if let Err(error) = &postponed {
            tracing::debug!(%error, effect = self.entry.name, "they stay in front");
        }
        postponed.is_ok()
    }

    /// How far behind the reader is.
    async fn measure(&self) {
        let name = self.entry.name;
        let read =
            move |snapshot: &mut Snapshot<'_>| snapshot.one(&OLDEST, args![name], |row| row.get::<Time>(0));
        let oldest: Result<Option<Time>, store::Error> = self.worker.store().read(read).await;
        if let Ok(oldest) = oldest {
            self.counts.behind(oldest.map_or(Duration::ZERO, |oldest| self.worker.now().since(oldest)));
        }
    }
}

impl Found {
    /// Adds what may start for a receiver. Returns how many.
    fn of_receiver(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        (name, receiver, now): (&'static str, &str, Time),
        running: &HashMap<i64, String>,
        most: usize,
    ) -> Result<usize, store::Error> {
        let busy = running.values().filter(|busy| *busy == receiver).count();
        let room = most.saturating_sub(busy);
        if room == 0 {
            self.more = true;
            return Ok(0);
        }
        let (page, before) = (most + busy + SPARE, self.start.len());
        let rows = snapshot.all(&DUE, args![name, receiver, now, page as i64], |row| {
            Ok((Queued::read(row)?, row.get::<i64>(8)?))
        })?;
        let is_full = rows.len() == page;
        self.more |= is_full;
        for (queued, oldest) in rows {
            if running.contains_key(&queued.number) {
                continue;
            }
            if !queued.subject.is_empty() && oldest < queued.number {
                if is_full {
                    self.behind.push((queued.number, queued.due));
                }
            } else if self.start.len() - before < room {
                self.start.push(queued);
            } else {
                self.more = true;
            }
        }
        Ok(self.start.len() - before)
    }
}

impl Queued {
    fn read(row: &Row<'_>) -> Result<Queued, store::Error> {
        Ok(Queued {
            number: row.get(0)?,
            id: row.get(1)?,
            receiver: row.get(2)?,
            subject: row.get(3)?,
            due: row.get(4)?,
            attempts: u32::try_from(row.get::<i64>(5)?).unwrap_or(u32::MAX),
            queued: row.get(6)?,
            args: row.get(7)?,
        })
    }
}

fn next_receiver(
    snapshot: &mut Snapshot<'_>,
    name: &'static str,
    after: Option<&str>,
) -> Result<Option<String>, store::Error> {
    let next = match after {
        None => snapshot.one(&FIRST_RECEIVER, args![name], |row| row.get::<Option<String>>(0))?,
        Some(after) => {
            snapshot.one(&NEXT_RECEIVER, args![name, after], |row| row.get::<Option<String>>(0))?
        }
    };
    Ok(next.flatten())
}
