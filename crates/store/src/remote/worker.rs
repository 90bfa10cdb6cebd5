//! A thread that runs commands: each in a transaction of its own, again when another was in the way. Hot ones that
//! have gathered share one, for what it costs is mostly its beginning and its end. One that is refused before it wrote
//! anything is simply left out. When the transaction fails, the one with which it failed is put off and runs by itself at
//! the end; if that is not known, the commands are run again in parts, and those of a part that fails one by one.
//!
//! Several of these take from one queue. The server keeps them apart, each in its own way (`purpose.rs` of the
//! back ends): of two that cannot both be right, or that wait for each other, one fails and is run again here.

use super::change_log::{ChangeLog, CommitOutcome, wait_for_outcome};
use super::{Failure, ReconnectingSession, Session as _, TxMode, contended};
use crate::engine::Shared;
use crate::job::Command;
use crate::threads::{again_after_panics, pause};
use crate::tx::Done;
use crate::{Backoff, Error, Tx};
use parking_lot::RwLock;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Of two commands that collide one always gets through, but where many want the same row it may be
/// another one each time. After this many collisions a command runs alone in this process.
const COLLISIONS_MAX: u32 = 3;
/// A command is run this often, at most: then only other programs can still be in its way.
const TRIES_MAX: u32 = 10;
/// The wait before the second try; each next one is twice as long …
const BACKOFF_MIN: Duration = Duration::from_millis(1);
/// … up to this.
const BACKOFF_MAX: Duration = Duration::from_millis(50);

/// Commands that share a transaction are run together this often, at most, while only other transactions are in the way.
/// From the second time on nothing else of this process runs beside them: were they parted instead, all writers of a hot row
/// would be in each other's way with many small transactions.
const TRIES_TOGETHER: u32 = 3;

/// Hot commands in one transaction, at most.
const BATCHED_MAX: usize = 64;
/// They begin within this time. The others have the next transaction.
const TOGETHER_MAX: Duration = Duration::from_millis(200);
/// When they fail together and it is not known for which of them, or for too many, so many at a time share one again: a
/// command that fails costs those of its part a transaction each, and the others an eighth of one.
const PART: usize = 8;
/// So many commands of one turn are put off because their transaction failed with them, before the others run in parts.
const PUT_OFF_MAX: usize = 8;
/// What one turn took begins within so many deadlines, or is refused: others may wait for a lock that stays taken. What
/// runs by itself at the end has one deadline more.
const DEADLINES_MAX: u32 = 2;

type Job = Box<dyn Command>;

/// Who runs now: one that has lost several times, or any number of others. Held while a command runs
/// and commits; nobody waits for it with a transaction open.
pub(super) type Exclusion = RwLock<()>;

pub(super) struct Worker<L: ChangeLog> {
    session: ReconnectingSession<L::Session>,
    shared: Arc<Shared>,
    log: L,
    exclusion: Arc<Exclusion>,
}

/// Why an attempt at a command ended.
enum Attempt {
    /// Durable.
    Committed,
    /// Undone, by the command itself or because of this error.
    Failed(Option<Error>),
    /// Undone; it may be begun again. The error is for its caller, should this have been the last try.
    Retry(Error),
}

/// How many commands ran in one transaction.
#[derive(Default)]
struct Ran {
    count: usize,
    /// Those that were refused before they wrote anything.
    refused: usize,
}

/// Why commands did not run together; none was done.
enum NotDone {
    /// There was no transaction, for this reason.
    NotBegun(Error),
    /// It failed with the command at this place.
    With(usize),
    /// Other transactions were in the way, or it failed for statements that nobody waited for.
    Undone,
}

impl<L: ChangeLog> Worker<L> {
    pub(super) fn new(
        session: ReconnectingSession<L::Session>,
        shared: Arc<Shared>,
        log: L,
        exclusion: Arc<Exclusion>,
    ) -> Worker<L> {
        Worker { session, shared, log, exclusion }
    }

    /// Serves commands until the queue is closed and empty.
    pub(super) fn run(mut self) {
        again_after_panics(|| self.serve_queue());
    }

    fn serve_queue(&mut self) {
        let shared = self.shared.clone();
        self.session.forget();
        self.session.connect_early();
        let mut taken: VecDeque<Job> = VecDeque::new();
        let most = BATCHED_MAX.min(shared.options.writer.batch_max);
        while let Some(turn) = shared.commands.take_turn(&mut taken, most) {
            let started = taken.drain(..).filter(|job| {
                shared.commands.started(job);
                job.start()
            });
            let jobs: Vec<Job> = started.collect();
            self.serve_all(jobs, Instant::now() + shared.commands.deadline * DEADLINES_MAX);
            drop(turn);
            self.log.trim(&mut self.session);
        }
    }

    /// Runs commands with as few transactions as possible, and answers them. Each begins before `until`, or within a
    /// deadline from then on, or is refused. One that fails comes last, so that the others do not wait for it.
    fn serve_all(&mut self, jobs: Vec<Job>, until: Instant) {
        let mut groups = VecDeque::from([jobs]);
        let (mut alone, mut put_off) = (Vec::new(), Vec::new());
        while let Some(mut group) = groups.pop_front() {
            if group.len() <= 1 || Instant::now() >= until {
                alone.append(&mut group);
                continue;
            }
            match self.serve_together(&mut group) {
                Ok(()) => groups.push_front(group),
                Err(NotDone::NotBegun(error)) => self.refuse(group, &error),
                Err(NotDone::With(place)) if put_off.len() < PUT_OFF_MAX => {
                    put_off.push(group.remove(place));
                    groups.push_front(group);
                }
                Err(_) if group.len() <= PART => alone.append(&mut group),
                Err(_) => {
                    while !group.is_empty() {
                        let part = group.split_off(group.len().saturating_sub(PART));
                        groups.push_front(part);
                    }
                }
            }
        }
        let until = until.max(Instant::now() + self.shared.commands.deadline);
        for job in alone.into_iter().chain(put_off) {
            if Instant::now() < until {
                self.serve(job);
            } else {
                self.refuse(vec![job], &contended());
            }
        }
    }

    fn refuse(&self, jobs: Vec<Job>, error: &Error) {
        self.shared.stats.failed.fetch_add(jobs.len() as u64, Relaxed);
        jobs.into_iter().for_each(|job| job.reply(Some(error.clone())));
    }

    /// Runs the first commands, or all of them, in one transaction, answers them and takes them away.
    fn serve_together(&mut self, jobs: &mut Vec<Job>) -> Result<(), NotDone> {
        let (shared, exclusion) = (self.shared.clone(), self.exclusion.clone());
        let began = Instant::now();
        let mut tries = 1;
        let (error, ran) = loop {
            // While one waits to be alone nobody else begins, so a slow command of another thread is not waited for.
            let alone = if tries == 1 { None } else { exclusion.try_write_for(TOGETHER_MAX) };
            let _shared = alone.is_none().then(|| exclusion.read());
            let (attempt, ran) = self.try_together(jobs, Instant::now() + shared.commands.deadline);
            drop(alone);
            match attempt {
                Attempt::Committed => break (None, ran?),
                Attempt::Failed(Some(Error::OutcomeUnknown)) => break (Some(Error::OutcomeUnknown), ran?),
                // Another transaction was in the way, once. None of these commands has failed.
                Attempt::Retry(Error::Overloaded { .. }) if tries < TRIES_TOGETHER => {
                    shared.stats.retried.fetch_add(1, Relaxed);
                    tries += 1;
                }
                Attempt::Retry(Error::Overloaded { .. }) => return Err(NotDone::Undone),
                Attempt::Failed(_) | Attempt::Retry(_) => return ran.and(Err(NotDone::Undone)),
            }
        };
        let failed = if error.is_none() { ran.refused } else { ran.count };
        shared.stats.commands.fetch_add((ran.count - failed) as u64, Relaxed);
        shared.stats.failed.fetch_add(failed as u64, Relaxed);
        shared.commands.timings.record_run(ran.count, began.elapsed());
        jobs.drain(..ran.count).for_each(|job| job.reply(error.clone()));
        Ok(())
    }

    /// One try: how the transaction ended, and what ran in it.
    fn try_together(&mut self, jobs: &mut [Job], until: Instant) -> (Attempt, Result<Ran, NotDone>) {
        match self.run_together(jobs, until) {
            Ok((done, ran)) => (self.commit(done), Ok(ran)),
            Err(NotDone::NotBegun(error)) => {
                (Attempt::Failed(Some(error.clone())), Err(NotDone::NotBegun(error)))
            }
            Err(not_done) => (self.undone(), Err(not_done)),
        }
    }

    /// What the first commands, or all of them, did.
    fn run_together(&mut self, jobs: &mut [Job], until: Instant) -> Result<(Done, Ran), NotDone> {
        let connection = self.session.begin(TxMode::Batch, until).map_err(NotDone::NotBegun)?;
        let began = Instant::now();
        let options = &self.shared.options;
        let mut all = Done::default();
        let mut ran = Ran::default();
        for (place, job) in jobs.iter_mut().enumerate() {
            let mut tx = Tx::new(connection, options.check);
            let result = job.run(&mut tx);
            let has_written = tx.has_written();
            let done = tx.finish(result, job.name(), options.watched);
            if connection.failed_unwaited() {
                return Err(NotDone::Undone);
            }
            let done = done.map_err(|_| NotDone::With(place))?;
            if connection.failure().is_some() {
                return Err(NotDone::With(place));
            }
            ran.count += 1;
            match done {
                Some(done) => {
                    all.changed.extend(done.changed);
                    all.wrote |= done.wrote;
                    all.cause = all.cause.and(done.cause);
                }
                None if has_written => return Err(NotDone::With(place)),
                None => ran.refused += 1,
            }
            if began.elapsed() > TOGETHER_MAX {
                break;
            }
        }
        Ok((all, ran))
    }

    /// Runs a command until it is done, or its time or number of tries is up.
    fn serve(&mut self, mut job: Job) {
        let (shared, exclusion) = (self.shared.clone(), self.exclusion.clone());
        let began = Instant::now();
        let until = began + shared.commands.deadline;
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let (mut tries, mut collisions) = (1, 0);
        let error = loop {
            let attempt = if collisions < COLLISIONS_MAX {
                let _shared = exclusion.read();
                self.attempt(&mut job, until)
            } else {
                let _exclusive = exclusion.write();
                self.attempt(&mut job, until)
            };
            match attempt {
                Attempt::Committed => {
                    shared.stats.commands.fetch_add(1, Relaxed);
                    break None;
                }
                Attempt::Retry(error) if tries < TRIES_MAX && Instant::now() + backoff.peek() < until => {
                    shared.stats.retried.fetch_add(1, Relaxed);
                    tries += 1;
                    collisions += u32::from(matches!(error, Error::Overloaded { .. }));
                    pause(backoff.take());
                }
                Attempt::Failed(error) => {
                    shared.stats.failed.fetch_add(1, Relaxed);
                    break error;
                }
                Attempt::Retry(error) => {
                    shared.stats.failed.fetch_add(1, Relaxed);
                    break Some(error);
                }
            }
        };
        // A server that is away says nothing about how long commands take.
        if !matches!(error, Some(Error::Unavailable { .. } | Error::OutcomeUnknown)) {
            shared.commands.timings.record_run(1, began.elapsed());
        }
        job.reply(error);
    }

    fn attempt(&mut self, job: &mut Job, until: Instant) -> Attempt {
        let connection = match self.session.begin(TxMode::Command, until) {
            Ok(connection) => connection,
            Err(error) => return Attempt::Failed(Some(error)),
        };
        let options = &self.shared.options;
        let mut tx = Tx::new(connection, options.check);
        let ran = job.run(&mut tx);
        let keep = tx.finish(ran, job.name(), options.watched);
        // What the connection met counts, whatever the command made of it.
        let failure = connection.failure();
        match (failure, keep) {
            (Some((Failure::Retryable | Failure::ConnectionLost, _)), _) => self.undone(),
            (_, Ok(Some(done))) => self.commit(done),
            (_, Ok(None)) => {
                self.session.roll_back();
                self.note_what_was_read();
                Attempt::Failed(None)
            }
            (_, Err(error)) => {
                self.session.roll_back();
                Attempt::Failed(Some(error))
            }
        }
    }

    /// Commits and publishes, in this order; the caller is answered afterwards.
    fn commit(&mut self, mut done: Done) -> Attempt {
        let began = Instant::now();
        done.changed.sort_unstable();
        done.changed.dedup();
        let connection = match self.session.current() {
            Ok(connection) => connection,
            Err(error) => return Attempt::Failed(Some(error)),
        };
        if !done.wrote {
            if connection.commit().is_err() {
                return self.undone();
            }
            self.note_what_was_read();
            return Attempt::Committed;
        }
        let Ok(entry) = self.log.write(connection, &done.changed) else { return self.undone() };
        self.shared.options.writer.delay_commit();
        if connection.commit().is_err() {
            let failure = self.session.roll_back();
            let became = match &failure {
                Some((Failure::Retryable, _)) => CommitOutcome::Aborted,
                _ => wait_for_outcome(&self.log, &mut self.session, &entry),
            };
            match became {
                CommitOutcome::Committed => {}
                CommitOutcome::Aborted => {
                    let undone = undone_by(failure);
                    // One that is tried again has not failed yet.
                    if matches!(undone, Attempt::Failed(_)) {
                        self.shared.stats.commits_failed.fetch_add(1, Relaxed);
                    }
                    return undone;
                }
                CommitOutcome::Unknown => {
                    self.shared.stats.commits_failed.fetch_add(1, Relaxed);
                    // The commit may have happened: caches must be read again.
                    done.cause.publish(|| self.log.maybe_committed(&entry, done.changed));
                    return Attempt::Failed(Some(Error::OutcomeUnknown));
                }
            }
        }
        self.shared.stats.committed(began.elapsed());
        done.cause.publish(|| self.log.committed(&entry, done.changed));
        Attempt::Committed
    }

    /// A command that leaves nothing answers by what it read, which may be newer than all that was shown before: a
    /// name that another instance has just taken. One that writes has a version of its own, after all that it saw.
    fn note_what_was_read(&mut self) {
        if let Some(version) = self.session.current().ok().and_then(|connection| connection.newest()) {
            self.shared.feed.note_shown(version);
        }
    }

    /// Undoes the open transaction.
    fn undone(&mut self) -> Attempt {
        undone_by(self.session.roll_back())
    }
}

/// A transaction that met another one, or lost its connection, may run again.
fn undone_by(failure: Option<(Failure, Error)>) -> Attempt {
    match failure {
        Some((Failure::Retryable | Failure::ConnectionLost, error)) => Attempt::Retry(error),
        Some((Failure::Fatal, error)) => Attempt::Failed(Some(error)),
        None => Attempt::Failed(Some(Error::Database("the transaction was lost".to_owned()))),
    }
}
