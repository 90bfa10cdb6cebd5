//! A thread that runs commands: each in a transaction of its own, again when another was in the way. Hot ones that
//! have gathered share one, for what it costs is mostly its beginning and its end; when that one fails, each is run
//! by itself.
//!
//! Several of these take from one queue. The server keeps them apart, each in its own way (`purpose.rs` of the
//! back ends): of two that cannot both be right, or that wait for each other, one fails and is run again here.

use super::log::{Log, Outcome, outcome};
use super::{Link, Purpose, Session as _, Trouble};
use crate::job::Command;
use crate::store::Shared;
use crate::threads::pause;
use crate::tx::Done;
use crate::{Error, Tx};
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
const PAUSE: Duration = Duration::from_millis(1);
/// … up to this.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Hot commands in one transaction, at most.
const HOT_MAX: usize = 64;

type Job = Box<dyn Command>;

/// Who runs now: one that has lost several times, or any number of others. Held while a command runs
/// and commits; nobody waits for it with a transaction open.
pub(super) type Turns = RwLock<()>;

pub(super) struct Worker<L: Log> {
    link: Link<L::Session>,
    shared: Arc<Shared>,
    log: L,
    turns: Arc<Turns>,
}

/// Why an attempt at a command ended.
enum End {
    /// Durable.
    Kept,
    /// Undone, by the command itself or because of this error.
    Failed(Option<Error>),
    /// Undone; it may be begun again. The error is for its caller, should this have been the last try.
    Again(Error),
}

impl<L: Log> Worker<L> {
    pub(super) fn new(link: Link<L::Session>, shared: Arc<Shared>, log: L, turns: Arc<Turns>) -> Worker<L> {
        Worker { link, shared, log, turns }
    }

    /// Serves commands until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let shared = self.shared.clone();
        self.link.warm_up();
        let mut taken: VecDeque<Job> = VecDeque::new();
        let most = HOT_MAX.min(shared.options.writer.batch_max);
        while let Some(turn) = shared.commands.take_turn(&mut taken, most) {
            let started = taken.drain(..).filter(|job| {
                shared.commands.started();
                job.start()
            });
            let mut jobs: Vec<Job> = started.collect();
            if jobs.len() < 2 || !self.serve_together(&mut jobs) {
                jobs.into_iter().for_each(|job| self.serve(job));
            }
            drop(turn);
            self.log.tidy_up(&mut self.link);
        }
    }

    /// Runs commands in one transaction and answers them; false when they must be run one by one.
    fn serve_together(&mut self, jobs: &mut Vec<Job>) -> bool {
        let (shared, turns) = (self.shared.clone(), self.turns.clone());
        let began = Instant::now();
        let end = {
            let _beside_others = turns.read();
            match self.run_together(jobs, began + shared.commands.deadline) {
                Some(done) => self.commit(done),
                None => self.undone(),
            }
        };
        let error = match end {
            End::Kept => None,
            End::Failed(Some(Error::OutcomeUnknown)) => Some(Error::OutcomeUnknown),
            End::Failed(_) | End::Again(_) => return false,
        };
        let count = jobs.len();
        let counter = if error.is_none() { &shared.stats.commands } else { &shared.stats.failed };
        counter.fetch_add(count as u64, Relaxed);
        shared.commands.pace.ran(count, began.elapsed());
        jobs.drain(..).for_each(|job| job.answer(error.clone()));
        true
    }

    /// What all of the commands did; none when one of them must not be kept.
    fn run_together(&mut self, jobs: &mut [Job], until: Instant) -> Option<Done> {
        let connection = self.link.begin(Purpose::Command, until).ok()?;
        let options = &self.shared.options;
        let mut all = Done { changed: Vec::new(), wrote: false };
        for job in jobs {
            let mut tx = Tx::new(connection, options.check);
            let ran = job.run(&mut tx);
            let done = tx.finish(ran, job.name(), options.watched).ok()??;
            if connection.trouble().is_some() {
                return None;
            }
            all.changed.extend(done.changed);
            all.wrote |= done.wrote;
        }
        Some(all)
    }

    /// Runs a command until it is done, or its time or number of tries is up.
    fn serve(&mut self, mut job: Job) {
        let (shared, turns) = (self.shared.clone(), self.turns.clone());
        let began = Instant::now();
        let until = began + shared.commands.deadline;
        let mut wait = PAUSE;
        let (mut tries, mut collisions) = (1, 0);
        let error = loop {
            let end = if collisions < COLLISIONS_MAX {
                let _beside_others = turns.read();
                self.attempt(&mut job, until)
            } else {
                let _alone = turns.write();
                self.attempt(&mut job, until)
            };
            match end {
                End::Kept => {
                    shared.stats.commands.fetch_add(1, Relaxed);
                    break None;
                }
                End::Again(error) if tries < TRIES_MAX && Instant::now() + wait < until => {
                    shared.stats.retried.fetch_add(1, Relaxed);
                    tries += 1;
                    collisions += u32::from(matches!(error, Error::Overloaded { .. }));
                    pause(wait);
                    wait = (wait * 2).min(PAUSE_MAX);
                }
                End::Failed(error) => {
                    shared.stats.failed.fetch_add(1, Relaxed);
                    break error;
                }
                End::Again(error) => {
                    shared.stats.failed.fetch_add(1, Relaxed);
                    break Some(error);
                }
            }
        };
        // A server that is away says nothing about how long commands take.
        if !matches!(error, Some(Error::Unavailable { .. } | Error::OutcomeUnknown)) {
            shared.commands.pace.ran(1, began.elapsed());
        }
        job.answer(error);
    }

    fn attempt(&mut self, job: &mut Job, until: Instant) -> End {
        let connection = match self.link.begin(Purpose::Command, until) {
            Ok(connection) => connection,
            Err(error) => return End::Failed(Some(error)),
        };
        let options = &self.shared.options;
        let mut tx = Tx::new(connection, options.check);
        let ran = job.run(&mut tx);
        let keep = tx.finish(ran, job.name(), options.watched);
        // What the connection met counts, whatever the command made of it.
        let met = connection.trouble();
        match (met, keep) {
            (Some((Trouble::Again | Trouble::Lost, _)), _) => self.undone(),
            (_, Ok(Some(done))) => self.commit(done),
            (_, Ok(None)) => {
                self.link.roll_back();
                self.shows_what_it_saw();
                End::Failed(None)
            }
            (_, Err(error)) => {
                self.link.roll_back();
                End::Failed(Some(error))
            }
        }
    }

    /// Commits and publishes, in this order; the caller is answered afterwards.
    fn commit(&mut self, mut done: Done) -> End {
        let began = Instant::now();
        done.changed.sort_unstable();
        done.changed.dedup();
        let delay = self.shared.options.writer.commit_delay;
        let connection = match self.link.current() {
            Ok(connection) => connection,
            Err(error) => return End::Failed(Some(error)),
        };
        if !done.wrote {
            if connection.commit().is_err() {
                return self.undone();
            }
            self.shows_what_it_saw();
            return End::Kept;
        }
        let Ok(entry) = self.log.write(connection, &done.changed) else { return self.undone() };
        pause(delay);
        if connection.commit().is_err() {
            let met = self.link.roll_back();
            let became = match &met {
                Some((Trouble::Again, _)) => Outcome::Aborted,
                _ => outcome(&self.log, &mut self.link, &entry),
            };
            match became {
                Outcome::Committed => {}
                Outcome::Aborted => return undone_by(met),
                Outcome::Unknown => {
                    // It may have happened: what is cached must be read again.
                    self.log.perhaps_committed(&entry, done.changed);
                    return End::Failed(Some(Error::OutcomeUnknown));
                }
            }
        }
        self.shared.stats.committed(began.elapsed());
        self.log.committed(&entry, done.changed);
        End::Kept
    }

    /// A command that leaves nothing answers by what it read, which may be newer than all that was shown before: a
    /// name that another instance has just taken. One that writes has a version of its own, after all that it saw.
    fn shows_what_it_saw(&mut self) {
        if let Some(version) = self.link.current().ok().and_then(|connection| connection.newest()) {
            self.shared.feed.shows(version);
        }
    }

    /// Undoes the open transaction.
    fn undone(&mut self) -> End {
        undone_by(self.link.roll_back())
    }
}

/// A transaction that met another one, or lost its connection, may run again.
fn undone_by(met: Option<(Trouble, Error)>) -> End {
    match met {
        Some((Trouble::Again | Trouble::Lost, error)) => End::Again(error),
        Some((Trouble::Failed, error)) => End::Failed(Some(error)),
        None => End::Failed(Some(Error::Database("the transaction was lost".to_owned()))),
    }
}
