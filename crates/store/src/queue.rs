//! Where jobs wait for a database thread: bounded in time, not in number.
//!
//! Predicted wait = jobs waiting × average run time + batches ahead × typical commit time, shared by
//! the threads that serve the queue. A job whose predicted wait exceeds three quarters of the deadline
//! is refused at once (the last quarter is for predictions that are too low); an empty queue always
//! admits, so one slow commit refuses nobody after it.
//!
//! Jobs that are cheaper together are left to the thread that serves some of them already, so that more of them
//! gather; other threads join in when many wait, or when that thread takes long.

use crate::Error;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// So many jobs that are cheaper together are worth another thread.
const SECOND_BATCH_AT: usize = 16;
/// Who has served some for this long may be stuck.
const STUCK_AFTER: Duration = Duration::from_millis(20);

pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
    arrived: Condvar,
    /// Jobs that wait, including those that a database thread has taken but not started.
    waiting: AtomicUsize,
    pub(crate) timings: Timings,
    batch_max: usize,
    /// Threads that serve this queue.
    threads: usize,
    pub(crate) deadline: Duration,
    /// Which jobs are cheaper together.
    is_batchable: fn(&J) -> bool,
}

struct State<J> {
    jobs: VecDeque<J>,
    closed: bool,
    /// Threads that serve jobs which have gathered, and when the last of them began.
    batches: usize,
    batch_started: Instant,
}

impl<J> State<J> {
    /// Whether a thread will soon come for what gathers.
    fn is_batch_running(&self) -> bool {
        self.batches > 0 && self.jobs.len() < SECOND_BATCH_AT && self.batch_started.elapsed() < STUCK_AFTER
    }
}

/// What a thread has taken; to be dropped when it is served.
pub(crate) struct Turn<'q, J> {
    /// None when the job was a single one.
    batch_of: Option<&'q Queue<J>>,
}

impl<J> Drop for Turn<'_, J> {
    fn drop(&mut self) {
        let Some(queue) = self.batch_of else { return };
        let mut state = queue.state.lock();
        state.batches -= 1;
        if !state.jobs.is_empty() {
            queue.arrived.notify_one();
        }
    }
}

impl<J> Queue<J> {
    pub(crate) fn new(batch_max: usize, threads: usize, deadline: Duration) -> Queue<J> {
        Queue {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
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
        }
    }

    /// The same, where jobs of this kind are cheaper together.
    pub(crate) fn batching(self, is_batchable: fn(&J) -> bool) -> Queue<J> {
        Queue { is_batchable, ..self }
    }

    /// Puts a job at the end, or gives it back with the reason.
    pub(crate) fn push(&self, job: J) -> Result<(), (J, Error)> {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting > 0 {
            let predicted = self.predicted_wait(waiting);
            if predicted > self.deadline * 3 / 4 {
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
        // The first that is left to another thread wakes one that looks whether it is fetched.
        let is_left = batchable && state.jobs.len() > 1 && state.is_batch_running();
        drop(state);
        if !is_left {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// What a job that came now would wait before its own commit has ended.
    fn predicted_wait(&self, waiting: usize) -> Duration {
        let batches = waiting / self.batch_max + 1;
        let runs = self.timings.run_ns.load(Ordering::Relaxed).saturating_mul(waiting as u64);
        let commits = self.timings.commit_ns.load(Ordering::Relaxed).saturating_mul(batches as u64);
        Duration::from_nanos(runs.saturating_add(commits) / self.threads as u64)
    }

    /// Waits for jobs and moves at most `most` of them into `into`. False when closed and empty.
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

    /// Moves what is there now, without waiting.
    pub(crate) fn take_more(&self, into: &mut VecDeque<J>, most: usize) {
        let mut state = self.state.lock();
        let count = state.jobs.len().min(most);
        into.extend(state.jobs.drain(..count));
    }

    /// Waits for a job, or for at most `most` that are cheaper together. None when closed and empty.
    pub(crate) fn take_turn(&self, into: &mut VecDeque<J>, most: usize) -> Option<Turn<'_, J>> {
        let mut state = self.state.lock();
        loop {
            let batched =
                state.jobs.iter().take(most.max(1)).take_while(|job| (self.is_batchable)(job)).count();
            if batched > 0 && (state.closed || !state.is_batch_running()) {
                state.batches += 1;
                state.batch_started = Instant::now();
                into.extend(state.jobs.drain(..batched));
                return Some(Turn { batch_of: Some(self) });
            }
            let single = state.jobs.iter().position(|job| !(self.is_batchable)(job));
            if let Some(job) = single.and_then(|place| state.jobs.remove(place)) {
                into.push_back(job);
                return Some(Turn { batch_of: None });
            }
            if state.closed {
                return None;
            }
            if state.jobs.is_empty() {
                self.arrived.wait(&mut state);
            } else {
                // Whoever they are left to may be stuck.
                self.arrived.wait_for(&mut state, STUCK_AFTER);
            }
        }
    }

    /// One taken job was started or dropped.
    pub(crate) fn started(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// No more jobs come in; those that wait are still served.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.arrived.notify_all();
    }

    pub(crate) fn depth(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A job that takes longer than this is believed only when the average says so too.
const SLOW_NS: u64 = 1_000_000;

/// How long things take here: the average run of a job, the median of the last commits.
#[derive(Default)]
pub(crate) struct Timings {
    run_ns: AtomicU64,
    commit_ns: AtomicU64,
    last_commits: Mutex<VecDeque<u64>>,
}

impl Timings {
    /// Notes that `jobs` ran for `run` in all. A sixteenth of the news goes into the average, and news
    /// that are far from it count as less: one slow job is not a slow database.
    pub(crate) fn record_run(&self, jobs: usize, run: Duration) {
        let average = self.run_ns.load(Ordering::Relaxed);
        let each = (run.as_nanos() as u64 / jobs.max(1) as u64).min(average.saturating_mul(8).max(SLOW_NS));
        let next = average - average / 16 + each / 16;
        self.run_ns.store(next, Ordering::Relaxed);
    }

    /// Notes a commit. The median of fifteen forgets a single slow one.
    pub(crate) fn record_commit(&self, took: Duration) {
        let mut last = self.last_commits.lock();
        if last.len() == 15 {
            last.pop_front();
        }
        last.push_back(took.as_nanos() as u64);
        let mut sorted: Vec<u64> = last.iter().copied().collect();
        sorted.sort_unstable();
        self.commit_ns.store(sorted[sorted.len() / 2], Ordering::Relaxed);
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
    fn a_queue_refuses_what_it_cannot_start_in_time() {
        let queue = queue_with(Duration::from_millis(20), 8 * 37 - 1);
        assert!(queue.push(1).is_ok());
        let (_, refused) = queue.push(2).expect_err("750 ms are full");
        assert!(matches!(refused, Error::Overloaded { .. }), "{refused:?}");
    }

    #[test]
    fn an_empty_queue_admits_whatever_the_last_commit_took() {
        assert!(queue_with(Duration::from_secs(30), 0).push(1).is_ok());
    }

    #[test]
    fn one_slow_commit_is_forgotten() {
        let queue = queue_with(Duration::from_millis(1), 0);
        queue.timings.record_commit(Duration::from_millis(1));
        queue.timings.record_commit(Duration::from_secs(5));
        for job in 0..100 {
            assert!(queue.push(job).is_ok());
        }
    }

    #[test]
    fn one_slow_job_is_not_a_slow_database_but_many_are() {
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
    fn several_threads_share_the_wait() {
        let queue = Queue::new(1, 4, Duration::from_secs(1));
        queue.timings.record_commit(Duration::from_millis(20));
        for job in 0..149 {
            assert!(queue.push(job).is_ok(), "{job}");
        }
        assert!(queue.push(149).is_ok() && queue.push(150).is_err(), "4 × 37.5 take 750 ms");
    }

    #[test]
    fn a_closed_queue_serves_what_waits_and_takes_no_more() {
        let queue = queue_with(Duration::from_millis(1), 3);
        queue.close();
        assert!(matches!(queue.push(9), Err((9, Error::Stopped))));
        let mut taken = VecDeque::new();
        assert!(queue.take(&mut taken, 10));
        assert_eq!(taken.len(), 3);
        assert!(!queue.take(&mut taken, 10));
    }

    #[test]
    fn what_is_cheaper_together_is_left_to_who_is_at_it() {
        let queue: Queue<u32> = Queue::new(8, 4, Duration::from_secs(1)).batching(|job| *job < 100);
        let push = |jobs: &[u32]| {
            for job in jobs {
                queue.push(*job).map_err(|(_, error)| error).expect("admitted");
            }
        };
        let take = || {
            let mut taken = VecDeque::new();
            let turn = queue.take_turn(&mut taken, 16);
            (turn, Vec::from(taken))
        };
        push(&[1, 2, 100, 3]);
        let (first, jobs) = take();
        assert_eq!(jobs, [1, 2]);
        push(&[4, 5]);
        assert_eq!(take().1, [100], "others need not wait");
        assert!(queue.state.lock().is_batch_running());
        push(&[6; SECOND_BATCH_AT - 3]);
        assert_eq!(take().1.len(), SECOND_BATCH_AT, "there are many");
        push(&[11, 12]);
        drop(first);
        assert_eq!(take().1, [11, 12], "nobody is at it any more");

        push(&[13]);
        let (stuck, _) = take();
        push(&[14]);
        queue.state.lock().batch_started = Instant::now() - STUCK_AFTER;
        assert_eq!(take().1, [14], "it takes long");
        push(&[15]);
        queue.close();
        assert_eq!(take().1, [15]);
        drop(stuck);
        assert!(take().0.is_none());
    }

    #[test]
    fn what_was_left_to_a_thread_that_is_stuck_is_fetched_though_nothing_else_comes() {
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
                // When the test has given up, nobody hears.
                let _ = fetched.send(taken);
            });
            push(2);
            let fetched = is_fetched.recv_timeout(Duration::from_secs(10));
            queue.close();
            assert_eq!(fetched.expect("somebody else comes for it"), [2]);
        });
    }
}
