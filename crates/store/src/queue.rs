//! The queue in front of the database threads. Its limit is a waiting time, not a number of jobs.
//!
//! Predicted wait = (queued jobs × average run time + batches ahead × typical commit time) ÷ threads. A job whose
//! predicted wait exceeds three quarters of the deadline is refused at once; the last quarter is a reserve for wrong
//! predictions. An empty queue accepts every job, so one slow commit does not cause refusals after it.
//!
//! Jobs for which nobody waits have room for an eighth of the deadline, so that however many there are, those of users
//! find room after them.
//!
//! Jobs are of two classes. *Background* jobs (queries that are run again because something changed) may occupy all
//! threads but one, so that users never wait for all of them, and get every fourth turn while users keep the threads
//! busy. They do not count in the predicted wait of users; their number is limited.
//!
//! Batchable jobs are cheaper together. While one thread runs a batch, newly queued ones wait for that thread, up to a
//! number of jobs and a time; beyond these another thread takes them.

use crate::Error;
use crate::timings::Timings;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// With this many batchable jobs queued, a second thread takes a batch too.
const SECOND_BATCH_AT: usize = 32;
/// While users wait, a background job is taken after this many turns of theirs.
const TURNS_OF_USERS: u32 = 3;
/// More background jobs are refused.
const BACKGROUND_MAX: usize = 1024;
/// A thread that has run a batch for this long may be stuck, so another one takes the next batch.
const STUCK_AFTER: Duration = Duration::from_millis(20);

pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
    arrived: Condvar,
    /// Jobs of users that have not started, including those that a thread has taken.
    waiting: AtomicUsize,
    pub(crate) timings: Timings,
    batch_max: usize,
    /// Threads that take jobs from this queue.
    threads: usize,
    pub(crate) deadline: Duration,
    /// Which jobs are cheaper together.
    is_batchable: fn(&J) -> bool,
    /// Which jobs are background jobs.
    is_background: fn(&J) -> bool,
    /// When a job was queued, if its wait is measured.
    queued_at: fn(&J) -> Option<Instant>,
}

struct State<J> {
    jobs: VecDeque<J>,
    background: VecDeque<J>,
    /// Threads that run a background job.
    background_running: usize,
    /// Turns of users since the last background job, while one waits.
    turns_of_users: u32,
    closed: bool,
    /// Threads that run a batch, and when the last of them began.
    batches: usize,
    batch_started: Instant,
}

impl<J> State<J> {
    /// Whether a thread of this many takes a background job now.
    fn is_background_next(&self, threads: usize) -> bool {
        let has_room = self.background_running < (threads - 1).max(1);
        let is_due = self.jobs.is_empty() || self.turns_of_users >= TURNS_OF_USERS;
        has_room && is_due && !self.background.is_empty()
    }

    /// Whether a thread that runs a batch will soon take the queued ones.
    fn is_batch_running(&self) -> bool {
        self.batches > 0 && self.jobs.len() < SECOND_BATCH_AT && self.batch_started.elapsed() < STUCK_AFTER
    }
}

/// Jobs that a thread has taken. Dropped when they are done.
pub(crate) struct Turn<'q, J> {
    queue: &'q Queue<J>,
    kind: TurnKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TurnKind {
    Single,
    Batch,
    Background,
}

impl<J> Drop for Turn<'_, J> {
    fn drop(&mut self) {
        if self.kind == TurnKind::Single {
            return;
        }
        let mut state = self.queue.state.lock();
        match self.kind {
            TurnKind::Background => state.background_running -= 1,
            TurnKind::Batch | TurnKind::Single => state.batches -= 1,
        }
        if !state.jobs.is_empty() || !state.background.is_empty() {
            self.queue.arrived.notify_one();
        }
    }
}

impl<J> Queue<J> {
    pub(crate) fn new(batch_max: usize, threads: usize, deadline: Duration) -> Queue<J> {
        Queue {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                background: VecDeque::new(),
                background_running: 0,
                turns_of_users: 0,
                closed: false,
                batches: 0,
                batch_started: Instant::now(),
            }),
            arrived: Condvar::new(),
            waiting: AtomicUsize::new(0),
            timings: Timings::default(),
            batch_max: batch_max.max(1),
            threads: threads.max(1),
            deadline,
            is_batchable: |_| false,
            is_background: |_| false,
            queued_at: |_| None,
        }
    }

    /// Makes jobs of this kind batchable.
    pub(crate) fn batching(self, is_batchable: fn(&J) -> bool) -> Queue<J> {
        Queue { is_batchable, ..self }
    }

    /// Makes jobs of this kind background jobs.
    pub(crate) fn with_background(self, is_background: fn(&J) -> bool) -> Queue<J> {
        Queue { is_background, ..self }
    }

    /// Measures how long jobs wait.
    pub(crate) fn with_waits(self, queued_at: fn(&J) -> Option<Instant>) -> Queue<J> {
        Queue { queued_at, ..self }
    }

    /// Appends a job, or returns it with the reason for the refusal.
    pub(crate) fn push(&self, job: J) -> Result<(), (J, Error)> {
        if (self.is_background)(&job) {
            return self.push_background(job);
        }
        self.push_within(job, self.deadline * 3 / 4)
    }

    /// The same for a job for which nobody waits.
    pub(crate) fn push_later(&self, job: J) -> Result<(), (J, Error)> {
        self.push_within(job, self.deadline / 8)
    }

    fn push_within(&self, job: J, longest_wait: Duration) -> Result<(), (J, Error)> {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting > 0 {
            let predicted = self.predicted_wait(waiting);
            if predicted > longest_wait {
                let retry_after = predicted.saturating_sub(self.deadline / 2).max(Duration::from_millis(100));
                return Err((job, Error::Overloaded { retry_after }));
            }
        }
        let mut state = self.state.lock();
        if state.closed {
            return Err((job, Error::Stopped));
        }
        let batchable = (self.is_batchable)(&job);
        state.jobs.push_back(job);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The first job that is left to a running batch wakes a thread that checks whether the batch is stuck.
        let is_left = batchable && state.jobs.len() > 1 && state.is_batch_running();
        drop(state);
        if !is_left {
            self.arrived.notify_one();
        }
        Ok(())
    }

    fn push_background(&self, job: J) -> Result<(), (J, Error)> {
        let mut state = self.state.lock();
        if state.closed {
            return Err((job, Error::Stopped));
        }
        if state.background.len() >= BACKGROUND_MAX {
            return Err((job, Error::Overloaded { retry_after: self.deadline }));
        }
        state.background.push_back(job);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The time from now to the end of a new job's commit.
    fn predicted_wait(&self, waiting: usize) -> Duration {
        let batches = waiting / self.batch_max + 1;
        let runs = self.timings.run_ns.load(Ordering::Relaxed).saturating_mul(waiting as u64);
        let commits = self.timings.commit_ns.load(Ordering::Relaxed).saturating_mul(batches as u64);
        Duration::from_nanos(runs.saturating_add(commits) / self.threads as u64)
    }

    /// Blocks until there are jobs, and moves up to `most` of them into `into`. Returns `false` when closed and empty.
    pub(crate) fn take(&self, into: &mut VecDeque<J>, most: usize) -> bool {
        let mut state = self.state.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return false;
            }
            self.arrived.wait(&mut state);
        }
        let count = state.jobs.len().min(most);
        into.extend(state.jobs.drain(..count));
        true
    }

    /// Moves up to `most` queued jobs of any class into `into`, without blocking.
    pub(crate) fn take_more(&self, into: &mut VecDeque<J>, most: usize) {
        let mut state = self.state.lock();
        let count = state.jobs.len().min(most);
        into.extend(state.jobs.drain(..count));
        let count = state.background.len().min(most - count);
        into.extend(state.background.drain(..count));
    }

    /// Blocks until there is a single job, a background job, or a batch of up to `most`. Returns `None` when closed and
    /// empty.
    pub(crate) fn take_turn(&self, into: &mut VecDeque<J>, most: usize) -> Option<Turn<'_, J>> {
        let mut state = self.state.lock();
        loop {
            if state.is_background_next(self.threads)
                && let Some(job) = state.background.pop_front()
            {
                state.background_running += 1;
                state.turns_of_users = 0;
                into.push_back(job);
                return Some(Turn { queue: self, kind: TurnKind::Background });
            }
            let batched =
                state.jobs.iter().take(most.max(1)).take_while(|job| (self.is_batchable)(job)).count();
            if batched > 0 && (state.closed || !state.is_batch_running()) {
                state.batches += 1;
                state.turns_of_users += u32::from(!state.background.is_empty());
                state.batch_started = Instant::now();
                into.extend(state.jobs.drain(..batched));
                self.wake_for_others(&state);
                return Some(Turn { queue: self, kind: TurnKind::Batch });
            }
            let single = state.jobs.iter().position(|job| !(self.is_batchable)(job));
            if let Some(job) = single.and_then(|place| state.jobs.remove(place)) {
                state.turns_of_users += u32::from(!state.background.is_empty());
                into.push_back(job);
                self.wake_for_others(&state);
                return Some(Turn { queue: self, kind: TurnKind::Single });
            }
            if state.closed {
                return None;
            }
            if state.jobs.is_empty() {
                self.arrived.wait(&mut state);
            } else {
                // The batch that they are left to may be stuck.
                self.arrived.wait_for(&mut state, STUCK_AFTER);
            }
        }
    }

    /// Jobs were left by the thread that was woken for one of them: another one looks after them, also if only to see
    /// whether the batch that they are left to is stuck.
    fn wake_for_others(&self, state: &State<J>) {
        if !state.jobs.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// A taken job was started or dropped.
    pub(crate) fn started(&self, job: &J) {
        if !(self.is_background)(job) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if let Some(at) = (self.queued_at)(job) {
                self.timings.waits.observe(at.elapsed());
            }
        }
    }

    /// Accepts no more jobs. Queued ones are still run.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.arrived.notify_all();
    }

    pub(crate) fn depth(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_with(commit: Duration, waiting: usize) -> Queue<u32> {
        let queue = Queue::new(8, 1, Duration::from_secs(1));
        queue.timings.record_commit(commit);
        for job in 0..waiting {
            queue.push(job as u32).map_err(|(_, error)| error).expect("admitted");
        }
        queue
    }

    #[test]
    fn a_job_that_cannot_start_in_time_is_refused() {
        let queue = queue_with(Duration::from_millis(20), 8 * 37 - 1);
        assert!(queue.push(1).is_ok());
        let (_, refused) = queue.push(2).expect_err("750 ms are queued");
        assert!(matches!(refused, Error::Overloaded { .. }), "{refused:?}");
    }

    #[test]
    fn jobs_for_which_nobody_waits_leave_room_for_others() {
        let queue = queue_with(Duration::from_millis(20), 0);
        let accepted = (0..1000).filter(|job| queue.push_later(*job).is_ok()).count();
        assert_eq!(accepted, 8 * 6, "six batches take 120 of 125 ms");
        let accepted = (0..1000).filter(|job| queue.push(*job).is_ok()).count();
        assert_eq!(accepted, 8 * 31, "37 batches take 740 of 750 ms");
    }

    #[test]
    fn an_empty_queue_accepts_a_job_after_any_commit_time() {
        assert!(queue_with(Duration::from_secs(30), 0).push(1).is_ok());
    }

    #[test]
    fn one_slow_commit_causes_no_refusals() {
        let queue = queue_with(Duration::from_millis(1), 0);
        queue.timings.record_commit(Duration::from_millis(1));
        queue.timings.record_commit(Duration::from_secs(5));
        for job in 0..100 {
            assert!(queue.push(job).is_ok());
        }
    }

    #[test]
    fn one_slow_job_causes_no_refusals_but_many_do() {
        let queue = queue_with(Duration::from_millis(1), 0);
        queue.timings.record_run(1, Duration::from_secs(1));
        for job in 0..100 {
            assert!(queue.push(job).is_ok());
        }
        for _ in 0..100 {
            queue.timings.record_run(1, Duration::from_secs(1));
        }
        assert!(queue.push(100).is_err());
    }

    #[test]
    fn several_threads_divide_the_wait() {
        let queue = Queue::new(1, 4, Duration::from_secs(1));
        queue.timings.record_commit(Duration::from_millis(20));
        for job in 0..149 {
            assert!(queue.push(job).is_ok(), "{job}");
        }
        assert!(queue.push(149).is_ok() && queue.push(150).is_err(), "4 × 37.5 take 750 ms");
    }

    #[test]
    fn a_closed_queue_runs_queued_jobs_and_refuses_new_ones() {
        let queue = queue_with(Duration::from_millis(1), 3);
        queue.close();
        assert!(matches!(queue.push(9), Err((9, Error::Stopped))));
        let mut taken = VecDeque::new();
        assert!(queue.take(&mut taken, 10));
        assert_eq!(taken.len(), 3);
        assert!(!queue.take(&mut taken, 10));
    }

    #[test]
    fn batchable_jobs_wait_for_a_running_batch() {
        let queue: Queue<u32> = Queue::new(8, 4, Duration::from_secs(1)).batching(|job| *job < 100);
        let push = |jobs: &[u32]| {
            for job in jobs {
                queue.push(*job).map_err(|(_, error)| error).expect("admitted");
            }
        };
        let take = || {
            let mut taken = VecDeque::new();
            let turn = queue.take_turn(&mut taken, SECOND_BATCH_AT);
            (turn, Vec::from(taken))
        };
        push(&[1, 2, 100, 3]);
        let (first, jobs) = take();
        assert_eq!(jobs, [1, 2]);
        push(&[4, 5]);
        assert_eq!(take().1, [100], "other jobs do not wait");
        assert!(queue.state.lock().is_batch_running());
        push(&[6; SECOND_BATCH_AT - 3]);
        assert_eq!(take().1.len(), SECOND_BATCH_AT, "enough for a second batch");
        push(&[11, 12]);
        drop(first);
        assert_eq!(take().1, [11, 12], "no batch is running any more");

        push(&[13]);
        let (stuck, _) = take();
        push(&[14]);
        queue.state.lock().batch_started = Instant::now() - STUCK_AFTER;
        assert_eq!(take().1, [14], "the running batch takes too long");
        push(&[15]);
        queue.close();
        assert_eq!(take().1, [15]);
        drop(stuck);
        assert!(take().0.is_none());
    }

    /// Jobs from 100 on are background jobs.
    fn queue_with_background(threads: usize, jobs: impl IntoIterator<Item = u32>) -> Queue<u32> {
        let queue = Queue::new(1, threads, Duration::from_secs(1)).with_background(|job| *job >= 100);
        for job in jobs {
            queue.push(job).map_err(|(_, error)| error).expect("admitted");
        }
        queue
    }

    fn take(queue: &Queue<u32>) -> (u32, Turn<'_, u32>) {
        let mut taken = VecDeque::new();
        let turn = queue.take_turn(&mut taken, 1).expect("a job");
        (taken[0], turn)
    }

    #[test]
    fn background_jobs_leave_one_thread_to_users() {
        let queue = queue_with_background(3, [100, 101, 102]);
        let (first, second) = (take(&queue), take(&queue));
        assert_eq!((first.0, second.0), (100, 101));
        assert!(!queue.state.lock().is_background_next(3), "the third thread is for users");
        queue.push(1).map_err(|(_, error)| error).expect("admitted");
        assert_eq!(take(&queue).0, 1);
        drop(first);
        assert_eq!(take(&queue).0, 102);
    }

    #[test]
    fn neither_class_starves_the_other() {
        for threads in [1, 2] {
            let queue = queue_with_background(threads, (100..110).chain(0..30));
            let order: Vec<u32> = (0..40).map(|_| take(&queue).0).collect();
            let place = |job| order.iter().position(|taken| *taken == job).expect("taken");
            assert!(place(0) < 3 && place(29) < 40, "{order:?}");
            let background: Vec<usize> = (100..110).map(place).collect();
            assert!(background.windows(2).all(|pair| pair[1] - pair[0] <= 4), "every fourth turn: {order:?}");
        }
    }

    #[test]
    fn background_jobs_refuse_no_user_and_have_a_bound_of_their_own() {
        let queue = queue_with_background(2, (0..BACKGROUND_MAX as u32).map(|job| 100 + job));
        queue.timings.record_run(1, Duration::from_secs(1));
        assert!(queue.push(1).is_ok() && queue.depth() == 1);
        assert!(matches!(queue.push(5_000), Err((5_000, Error::Overloaded { .. }))));
        let (job, turn) = take(&queue);
        queue.started(&job);
        drop(turn);
        let next = take(&queue).0;
        queue.started(&next);
        assert_eq!((job, next, queue.depth()), (1, 100, 0), "only users count");
    }

    #[test]
    fn jobs_left_to_a_stuck_batch_are_taken_by_another_thread() {
        let queue: Queue<u32> = Queue::new(8, 2, Duration::from_secs(1)).batching(|_| true);
        let push = |job| queue.push(job).map_err(|(_, error)| error).expect("admitted");
        push(1);
        let mut taken = VecDeque::new();
        let stuck = queue.take_turn(&mut taken, 16);
        assert!(stuck.is_some());
        std::thread::scope(|scope| {
            let (fetched, is_fetched) = std::sync::mpsc::channel();
            let queue = &queue;
            scope.spawn(move || {
                let mut taken = VecDeque::new();
                let _turn = queue.take_turn(&mut taken, 16);
                // The test may have given up.
                let _ = fetched.send(taken);
            });
            push(2);
            let fetched = is_fetched.recv_timeout(Duration::from_secs(10));
            queue.close();
            assert_eq!(fetched.expect("another thread takes it"), [2]);
        });
    }
}
