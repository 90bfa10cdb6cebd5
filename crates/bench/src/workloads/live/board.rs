//! What writers and watchers see of the counters: the last value of each watcher, and the time from the start of a write to
//! its arrival at each watcher.
//!
//! An increment is known by the value that it made. Its value may reach a watcher before its writer has the answer, so
//! arrivals are kept until the start of the write is known. One event may carry several increments; each counts.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use hdrhistogram::Histogram;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::http::Event;
use crate::measure::Cause;

/// Increments that are kept over all counters, so that memory is bounded.
const KEPT: usize = 262_144;
const KEPT_PER_COUNTER_MIN: usize = 1_024;
const LATENCY_US_MAX: u64 = 120_000_000;

/// The state of all counters and watchers of a run.
pub struct Board {
    counters: RefCell<Vec<Counter>>,
    /// Increments that are kept of each counter.
    kept: usize,
    watchers: RefCell<Vec<Watcher>>,
    /// Events count if they arrive in it.
    window: Cell<Option<(Instant, Instant)>>,
    counts: RefCell<Counts>,
}

struct Counter {
    at_start: u64,
    /// Increments that the server accepted, in the whole run.
    accepted: u64,
    /// The value of `history[0]`.
    first: u64,
    history: VecDeque<Write>,
}

#[derive(Default)]
struct Write {
    /// Known as soon as the writer has the answer.
    begun: Option<Instant>,
    /// Arrivals before that.
    arrivals: Vec<Instant>,
}

struct Watcher {
    counter: usize,
    value: Option<u64>,
}

/// What arrived on the streams in a window.
#[derive(Clone)]
pub struct Counts {
    /// Events with a value.
    pub frames: u64,
    /// All bytes of the streams, with heartbeats and the framing of HTTP.
    pub bytes: u64,
    /// One entry for each increment and watcher.
    pub latency_us: Histogram<u64>,
    /// Streams that ended or failed, also outside the window.
    pub failures: BTreeMap<String, u64>,
}

/// How a counter and its watchers stand at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub at_start: u64,
    pub accepted: u64,
    pub watchers: usize,
    /// Watchers that hold another value than the one asked for, or none.
    pub behind: usize,
}

/// An answer or an event with a counter.
#[derive(Deserialize)]
pub struct WithCounter {
    pub value: CounterValue,
}

#[derive(Deserialize)]
pub struct CounterValue {
    pub value: u64,
}

impl Board {
    /// `at_start`: the value of each counter.
    pub fn new(at_start: &[u64]) -> Board {
        let counter = |value: &u64| Counter {
            at_start: *value,
            accepted: 0,
            first: *value + 1,
            history: VecDeque::new(),
        };
        Board {
            counters: RefCell::new(at_start.iter().map(counter).collect()),
            kept: (KEPT / at_start.len().max(1)).max(KEPT_PER_COUNTER_MIN),
            watchers: RefCell::new(Vec::new()),
            window: Cell::new(None),
            counts: RefCell::new(Counts::new()),
        }
    }

    /// Adds a watcher of `counter`; returns its number.
    pub fn add_watcher(&self, counter: usize) -> usize {
        let mut watchers = self.watchers.borrow_mut();
        watchers.push(Watcher { counter, value: None });
        watchers.len() - 1
    }

    /// Watchers that have no value yet.
    pub fn without_value(&self) -> usize {
        self.watchers.borrow().iter().filter(|watcher| watcher.value.is_none()).count()
    }

    /// From now on events between `from` and `to` count.
    pub fn open_window(&self, from: Instant, to: Instant) {
        self.window.set(Some((from, to)));
    }

    /// The counts of the window, which is closed.
    pub fn take_counts(&self) -> Counts {
        self.window.set(None);
        self.counts.replace(Counts::new())
    }

    /// A server accepted an increment that made `value`.
    pub fn accepted(&self, counter: usize, value: u64, begun: Instant) {
        let mut counters = self.counters.borrow_mut();
        let Some(counter) = counters.get_mut(counter) else { return };
        counter.accepted += 1;
        let arrivals = match counter.write(value, self.kept) {
            Some(write) => {
                write.begun = Some(begun);
                std::mem::take(&mut write.arrivals)
            }
            None => return,
        };
        drop(counters);
        for arrival in arrivals {
            self.record(begun, arrival);
        }
    }

    /// An event arrived at a watcher.
    pub fn event(&self, watcher: usize, event: Event<'_>) {
        match &*event.name {
            "value" => match serde_json::from_str::<WithCounter>(&event.data) {
                Ok(frame) => self.frame(watcher, frame.value.value, Instant::now()),
                Err(_) => self.failed("an event without a value"),
            },
            "error" => {
                let problem: Value = serde_json::from_str(&event.data).unwrap_or_default();
                let code = problem["problem"]["code"].as_str().unwrap_or("without a code");
                self.failed(&format!("event: error {code}"));
            }
            // Nothing has changed, or the stream begins or ends.
            _ => {}
        }
    }

    /// A watcher received `value`.
    pub fn frame(&self, watcher: usize, value: u64, now: Instant) {
        let (number, before) = {
            let mut watchers = self.watchers.borrow_mut();
            let Some(watcher) = watchers.get_mut(watcher) else { return };
            (watcher.counter, watcher.value.replace(value))
        };
        if self.is_open(now) {
            self.counts.borrow_mut().frames += 1;
        }
        let Some(before) = before else { return };
        if value < before {
            self.failed("a value went back");
        }
        let mut counters = self.counters.borrow_mut();
        let Some(counter) = counters.get_mut(number) else { return };
        for increment in before.max(counter.first.saturating_sub(1)) + 1..=value {
            let Some(write) = counter.write(increment, self.kept) else { continue };
            match write.begun {
                Some(begun) => self.record(begun, now),
                None => write.arrivals.push(now),
            }
        }
    }

    /// Bytes arrived on a stream.
    pub fn received(&self, bytes: usize) {
        if self.is_open(Instant::now()) {
            self.counts.borrow_mut().bytes += bytes as u64;
        }
    }

    /// A stream ended.
    pub fn ended(&self, cause: &Cause) {
        self.failed(&format!("stream: {cause}"));
    }

    /// How the watchers of `counter` stand to `value`.
    pub fn standing(&self, counter: usize, value: u64) -> Option<Standing> {
        let watchers = self.watchers.borrow();
        let of_counter = watchers.iter().filter(|watcher| watcher.counter == counter);
        let (mut count, mut behind) = (0, 0);
        for watcher in of_counter {
            count += 1;
            behind += usize::from(watcher.value != Some(value));
        }
        let counters = self.counters.borrow();
        let Counter { at_start, accepted, .. } = *counters.get(counter)?;
        Some(Standing { at_start, accepted, watchers: count, behind })
    }

    fn failed(&self, what: &str) {
        *self.counts.borrow_mut().failures.entry(what.to_owned()).or_default() += 1;
    }

    fn is_open(&self, now: Instant) -> bool {
        self.window.get().is_some_and(|(from, to)| (from..to).contains(&now))
    }

    fn record(&self, begun: Instant, arrival: Instant) {
        if self.is_open(arrival) {
            let us = arrival.saturating_duration_since(begun).as_micros();
            let us = u64::try_from(us).unwrap_or(u64::MAX).max(1);
            self.counts.borrow_mut().latency_us.saturating_record(us);
        }
    }
}

impl Counter {
    /// The increment that made `value`; `None` if it is no longer kept.
    fn write(&mut self, value: u64, kept: usize) -> Option<&mut Write> {
        let mut index = usize::try_from(value.checked_sub(self.first)?).ok()?;
        if index >= self.history.len() + kept {
            // Others have written meanwhile.
            self.history.clear();
            self.first = value;
            index = 0;
        }
        while self.history.len() <= index {
            self.history.push_back(Write::default());
        }
        while self.history.len() > kept && index > 0 {
            self.history.pop_front();
            self.first += 1;
            index -= 1;
        }
        self.history.get_mut(index)
    }
}

impl Counts {
    fn new() -> Counts {
        #[expect(clippy::expect_used, reason = "constant bounds that the crate accepts; a test makes one")]
        let latency_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("constant bounds are valid");
        Counts { frames: 0, bytes: 0, latency_us, failures: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn board(watchers: usize) -> (Board, Instant) {
        let (board, begun) = (Board::new(&[10]), Instant::now());
        board.open_window(begun, begun + 1_000 * MS);
        for watcher in 0..watchers {
            board.add_watcher(0);
            board.frame(watcher, 10, begun);
        }
        (board, begun)
    }

    #[test]
    fn an_increment_counts_once_for_each_watcher() {
        let (board, begun) = board(2);
        board.frame(0, 11, begun + 5 * MS);
        board.accepted(0, 11, begun);
        board.frame(1, 11, begun + 9 * MS);
        let counts = board.take_counts();
        assert_eq!((counts.frames, counts.latency_us.len()), (4, 2));
        assert!(counts.latency_us.max().abs_diff(9_000) < 20 && counts.latency_us.min().abs_diff(5_000) < 20);
    }

    #[test]
    fn an_event_may_carry_several_increments() {
        let (board, begun) = board(1);
        board.accepted(0, 11, begun);
        board.accepted(0, 12, begun + 2 * MS);
        board.frame(0, 12, begun + 4 * MS);
        assert_eq!(board.take_counts().latency_us.len(), 2);
        assert_eq!(
            board.standing(0, 12),
            Some(Standing { at_start: 10, accepted: 2, watchers: 1, behind: 0 })
        );
        assert_eq!(board.standing(0, 13).map(|standing| standing.behind), Some(1));
    }

    #[test]
    fn what_arrives_outside_the_window_is_not_counted() {
        let (board, begun) = board(1);
        board.accepted(0, 11, begun);
        board.frame(0, 11, begun + 1_000 * MS);
        let counts = board.take_counts();
        assert_eq!((counts.frames, counts.latency_us.len()), (1, 0));
    }

    #[test]
    fn a_value_that_goes_back_is_a_failure() {
        let (board, begun) = board(1);
        board.frame(0, 12, begun);
        board.frame(0, 11, begun);
        assert_eq!(board.take_counts().failures, BTreeMap::from([("a value went back".to_owned(), 1)]));
    }

    #[test]
    fn memory_is_bounded() {
        let mut counter = Counter { at_start: 0, accepted: 0, first: 1, history: VecDeque::new() };
        for value in 1..=5_000 {
            assert!(counter.write(value, 100).is_some());
            assert!(counter.history.len() <= 100);
        }
        assert!(counter.write(1, 100).is_none(), "it is no longer kept");
        assert!(counter.write(1_000_000, 100).is_some());
        assert_eq!(counter.history.len(), 1);
    }
}
