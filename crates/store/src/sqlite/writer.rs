//! The one writer of a SQLite file: group commit without a timer.
//!
//! It takes what is queued now, runs it inside one transaction (commands in savepoints of their own), commits,
//! publishes what changed, answers each caller, and takes what has been queued meanwhile. A lone
//! command commits at once; a thousand share one flush.
//!
//! A savepoint copies each page that the command changes. Hot commands hardly ever fail and have none; when one does
//! fail, the whole batch is undone and run again, each in its savepoint.

use super::checkpoint::Checkpointer;
use super::connection::{Connection, Role};
use crate::cause::Cause;
use crate::engine::Shared;
use crate::job::Command;
use crate::planted::{self, Bug, is_planted};
use crate::threads::again_after_panics;
use crate::tx::Connection as _;
use crate::{Error, Key, Snapshot, Tx, Value};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// With this many commands waiting, a commit needs no more company.
const BATCH_LARGE_ENOUGH: usize = 128;
/// A commit waits no longer than this for company.
const BATCH_WAIT_MAX: Duration = Duration::from_millis(2);
/// After this many lost transactions in one batch its commands run one by one.
const LOST_MAX: usize = 2;

/// How often the log is told that commands fail.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

type Job = Box<dyn Command>;

pub(super) struct Writer {
    path: PathBuf,
    connection: Connection,
    shared: Arc<Shared>,
    checkpointer: Arc<Checkpointer>,
    /// The number of the last commit.
    number: u64,
    /// When the log was last told that commands fail, and how often they did since.
    complained_at: Option<Instant>,
    complaints: u64,
}

/// What became of the commands that ran in one transaction.
#[derive(Default)]
struct Batch {
    /// Every command has a savepoint, the hot ones too.
    savepoints: bool,
    /// To be answered after the commit; the error replaces what the command returned.
    ran: Vec<(Job, Option<Error>)>,
    changed: Vec<Key>,
    cause: Cause,
    wrote: bool,
    /// While declarations are checked.
    tables_written: Vec<String>,
    kept: u64,
}

/// Why an attempt at a batch ended.
enum BatchEnd {
    /// Ready to commit.
    Complete,
    /// This command failed without a savepoint that could undo it.
    NeedsSavepoints(Job),
    /// The database dropped the transaction while this command ran.
    Lost(Job, Option<Error>),
    /// It could not even begin.
    Refused(Error),
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        mut connection: Connection,
        shared: Arc<Shared>,
        checkpointer: Arc<Checkpointer>,
        number: u64,
    ) -> Result<Writer, Error> {
        checkpointer.watch(&mut connection)?;
        Ok(Writer { path, connection, shared, checkpointer, number, complained_at: None, complaints: 0 })
    }

    /// Serves commands until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut waiting: VecDeque<Job> = VecDeque::new();
        let mut is_first = true;
        again_after_panics(|| {
            if !std::mem::take(&mut is_first) {
                self.roll_back();
                self.reopen();
                // Perhaps it was committed and not published.
                self.shared.feed.publish(vec![Key::everything()]);
            }
            self.serve_queue(&mut waiting);
        });
        self.checkpointer.at_close(&mut self.connection);
    }

    fn serve_queue(&mut self, waiting: &mut VecDeque<Job>) {
        let shared = self.shared.clone();
        let most = shared.options.writer.batch_max;
        loop {
            // A thread that waits for the processor may be about to queue a command for this batch, and while
            // the last batch's callers have not received their results, the next batch can wait. Without
            // such threads this costs nothing: a lone command still commits at once.
            if shared.commands.depth() < BATCH_LARGE_ENOUGH {
                shared.replies.wait_until_taken(BATCH_WAIT_MAX);
                std::thread::yield_now();
            }
            if waiting.is_empty() {
                if !shared.commands.take(waiting, most) {
                    break;
                }
            } else {
                let room = most.saturating_sub(waiting.len());
                shared.commands.take_more(waiting, room);
            }
            if let Some(error) = self.checkpointer.refusal(&mut self.connection) {
                self.refuse_all(waiting, &error);
            } else {
                self.serve(waiting);
                self.checkpointer.between_commits(&mut self.connection);
            }
        }
    }

    /// Runs and commits a batch; again without the offender when a command took the transaction down.
    fn serve(&mut self, waiting: &mut VecDeque<Job>) {
        let mut again: VecDeque<Job> = VecDeque::new();
        let (mut lost, mut savepoints) = (0, false);
        loop {
            let mut batch = Batch { savepoints, ..Batch::default() };
            let one_by_one = lost >= LOST_MAX;
            match self.run_batch(&mut batch, &mut again, waiting, one_by_one) {
                BatchEnd::Complete => self.commit(batch),
                BatchEnd::NeedsSavepoints(failed) => {
                    savepoints = true;
                    self.roll_back();
                    let all = batch.ran.into_iter().map(|(job, _)| job).chain([failed]);
                    again = all.chain(again).collect();
                }
                BatchEnd::Lost(offender, error) => {
                    lost += 1;
                    self.shared.stats.failed.fetch_add(1, Relaxed);
                    offender.reply(error);
                    self.roll_back();
                    let mates = batch.ran.into_iter().map(|(job, _)| job);
                    again = mates.chain(again).collect();
                }
                BatchEnd::Refused(error) => {
                    self.complain(&error, "commands cannot begin");
                    self.shared.stats.failed.fetch_add(again.len() as u64, Relaxed);
                    again.drain(..).for_each(|job| job.reply(Some(error.clone())));
                    self.refuse_all(waiting, &error);
                    self.reopen();
                }
            }
            if again.is_empty() {
                return;
            }
        }
    }

    fn run_batch(
        &mut self,
        batch: &mut Batch,
        again: &mut VecDeque<Job>,
        waiting: &mut VecDeque<Job>,
        one_by_one: bool,
    ) -> BatchEnd {
        if let Err(error) = self.connection.run("BEGIN IMMEDIATE") {
            return BatchEnd::Refused(error);
        }
        let began = Instant::now();
        let end = loop {
            let job = match again.pop_front() {
                Some(job) => job,
                None if one_by_one && !batch.ran.is_empty() => break BatchEnd::Complete,
                None => match next(waiting, &self.shared) {
                    Some(job) => job,
                    None => break BatchEnd::Complete,
                },
            };
            if let Some(end) = self.run_command(job, batch) {
                break end;
            }
            if one_by_one || began.elapsed() >= self.shared.options.writer.batch_time {
                break BatchEnd::Complete;
            }
        };
        self.connection.no_limit();
        let jobs =
            batch.ran.len() + usize::from(matches!(end, BatchEnd::Lost(..) | BatchEnd::NeedsSavepoints(_)));
        if jobs > 0 {
            self.shared.commands.timings.record_run(jobs, began.elapsed());
        }
        end
    }

    /// Runs one command. `Some` when the transaction did not survive it, or must not.
    fn run_command(&mut self, mut job: Job, batch: &mut Batch) -> Option<BatchEnd> {
        self.connection.limit(self.shared.options.writer.command_time);
        let savepoints = batch.savepoints || !job.is_batchable();
        if savepoints && let Err(error) = self.connection.run("SAVEPOINT command") {
            return Some(BatchEnd::Lost(job, Some(error)));
        }
        let options = &self.shared.options;
        let mut tx = Tx::new(&mut self.connection, options.check);
        let ran = job.run(&mut tx);
        let has_written = tx.has_written();
        let keep = tx.finish(ran, job.name(), options.watched);
        // What follows must not be interrupted for the command's sake.
        self.connection.no_limit();
        if !self.connection.in_transaction() {
            let error = match keep {
                // It swallowed the error that cost everybody the transaction.
                Ok(Some(_)) => Some(Error::Database("the transaction was lost".to_owned())),
                Ok(None) => None,
                Err(error) => Some(error),
            };
            return Some(BatchEnd::Lost(job, error));
        }
        let ended = match &keep {
            Ok(Some(_)) if savepoints => self.connection.run("RELEASE command"),
            Ok(Some(_)) => Ok(()),
            // It was refused before it wrote anything, so there is nothing to undo.
            _ if !savepoints && !has_written => Ok(()),
            _ if !savepoints => return Some(BatchEnd::NeedsSavepoints(job)),
            _ => self
                .connection
                .run("ROLLBACK TO command")
                .and_then(|()| self.connection.run("RELEASE command")),
        };
        if let Err(error) = ended {
            return Some(BatchEnd::Lost(job, Some(error)));
        }
        match keep {
            Ok(Some(done)) => {
                batch.changed.extend(done.changed);
                batch.cause = batch.cause.and(done.cause);
                batch.wrote |= done.wrote;
                batch.tables_written.extend(done.tables_written);
                batch.kept += 1;
                batch.ran.push((job, None));
            }
            Ok(None) => batch.ran.push((job, None)),
            Err(error) => batch.ran.push((job, Some(error))),
        }
        None
    }

    /// Commits, publishes, replies: in this order.
    fn commit(&mut self, mut batch: Batch) {
        let shared = self.shared.clone();
        let stats = &shared.stats;
        let began = Instant::now();
        let number = self.number + u64::from(batch.wrote);
        // A reader may see the commit before it is published.
        shared.feed.note_shown(number);
        let is_early = batch.wrote && is_planted(Bug::PublishBeforeCommit);
        if is_early {
            shared.feed.publish(batch.changed.clone());
            planted::wait();
        }
        let committed = self.flush(batch.wrote, number);
        let took = began.elapsed();
        match committed {
            Ok(()) => {
                if batch.wrote {
                    self.number = number;
                    shared.commands.timings.record_commit(took);
                    stats.committed(took);
                    batch.changed.sort_unstable();
                    batch.changed.dedup();
                    let changed = std::mem::take(&mut batch.changed);
                    if !is_early {
                        batch.cause.publish(|| shared.feed.publish(changed));
                    }
                    self.check_caches(&mut batch);
                }
                stats.commands.fetch_add(batch.kept, Relaxed);
                stats.failed.fetch_add(batch.ran.len() as u64 - batch.kept, Relaxed);
                shared.replies.send(batch.ran);
            }
            Err(error) => {
                self.complain(&error, "a commit failed");
                stats.commits_failed.fetch_add(1, Relaxed);
                stats.failed.fetch_add(batch.ran.len() as u64, Relaxed);
                self.reopen();
                // An error of a command itself may be due to a row of another one, which is lost now.
                for (job, _) in batch.ran {
                    job.reply(Some(error.clone()));
                }
            }
        }
    }

    /// Replaces the results of the commands by an error if they made a cached result wrong without a key of it. For
    /// tests: the commit stays.
    fn check_caches(&mut self, batch: &mut Batch) {
        let mut snapshot = Snapshot::new(&mut self.connection, false);
        let Err(error) = self.shared.rechecks.run(&mut snapshot, &batch.tables_written) else { return };
        let commands: Vec<&str> = batch.ran.iter().map(|(job, _)| job.name()).collect();
        tracing::error!(%error, ?commands, "a command or a cached query did not declare a key");
        batch.ran.iter_mut().for_each(|(_, own)| *own = Some(error.clone()));
    }

    /// Returns when the transaction is on disk.
    fn flush(&mut self, wrote: bool, number: u64) -> Result<(), Error> {
        if wrote {
            self.shared.options.writer.delay_commit();
            let update = "UPDATE sarsen_version SET version = ?1 WHERE id = 1";
            self.connection.execute(update, &[Value::Int(number as i64)])?;
        }
        self.connection.commit()
    }

    /// Leaves no transaction behind, whether or not SQLite has dropped it already.
    fn roll_back(&mut self) {
        if self.connection.in_transaction()
            && let Err(error) = self.connection.run("ROLLBACK")
        {
            tracing::error!(%error, "a transaction cannot be rolled back");
            self.reopen();
        }
    }

    /// A connection whose commit failed is not trusted any more.
    fn reopen(&mut self) {
        let opened = Connection::open(&self.path, Role::Writer, self.shared.options.check)
            .and_then(|mut connection| self.checkpointer.watch(&mut connection).map(|()| connection));
        match opened {
            Ok(connection) => self.connection = connection.of(&self.shared),
            // The old one goes on, without its transaction; the next command asks the disk again.
            Err(error) => {
                tracing::error!(%error, "the database cannot be opened again");
                if self.connection.in_transaction()
                    && let Err(error) = self.connection.run("ROLLBACK")
                {
                    tracing::error!(%error, "a failed transaction cannot be rolled back");
                }
            }
        }
    }

    /// Logs why commands fail, once a second: a full disk fails a thousand commits a second, and may be where the log is.
    fn complain(&mut self, error: &Error, what: &str) {
        self.complaints += 1;
        let is_due = self.complained_at.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY);
        if is_due {
            self.complained_at = Some(Instant::now());
            tracing::error!(%error, times = std::mem::take(&mut self.complaints), "{what}");
        }
    }

    fn refuse_all(&self, waiting: &mut VecDeque<Job>, error: &Error) {
        while let Some(job) = next(waiting, &self.shared) {
            self.shared.stats.failed.fetch_add(1, Relaxed);
            job.reply(Some(error.clone()));
        }
    }
}

/// The next command that somebody still waits for.
fn next(waiting: &mut VecDeque<Job>, shared: &Shared) -> Option<Job> {
    loop {
        let job = waiting.pop_front()?;
        shared.commands.started(&job);
        if job.start() {
            return Some(job);
        }
    }
}
