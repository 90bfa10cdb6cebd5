//! Records the result of every request.
//!
//! Promises: a request counts if it was in flight at any time of the measured window, so that a request that hangs cannot
//! hide at the edges. A request that ended before the window is warm-up; its failures are reported separately. Rates count
//! requests that ended inside the window. A timeout is also a latency, so that a stalled server shows in the percentiles;
//! other failures are not.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::outcome::{Cause, RequestKind, Verdict};

/// Longer latencies are recorded as this, in microseconds.
const LATENCY_US_MAX: u64 = 120_000_000;

/// Counts of causes, by kind of request.
pub type Failures = BTreeMap<(RequestKind, Cause), u64>;

/// One kind of request over the measured window. Latencies in microseconds.
pub struct KindRecord {
    /// Accepted answers and timeouts.
    pub latency_us: Histogram<u64>,
    pub refused_latency_us: Histogram<u64>,
    pub accepted: u64,
    pub refused: u64,
    pub failed: u64,
    /// Of these, requests that ended inside the window.
    pub ended_within: u64,
    /// Of the accepted ones, requests that ended inside the window.
    pub accepted_within: u64,
}

/// Requests that ended in the last second, with any result.
pub struct Second {
    pub latency_us: Histogram<u64>,
    pub accepted: u64,
    pub refused: u64,
    pub failed: u64,
}

pub struct Recorder {
    window: (Instant, Instant),
    kinds: Vec<KindRecord>,
    failures: Failures,
    refusals: Failures,
    warm_up_failures: Failures,
    second: Second,
    /// Answers to the measured mix, with the warm-up: the divisor of the CPU time of the server.
    answered: u64,
}

impl Recorder {
    /// Records for the window `from..to`.
    pub fn new(from: Instant, to: Instant) -> Recorder {
        Recorder {
            window: (from, to),
            kinds: RequestKind::ALL.iter().map(|_| KindRecord::new()).collect(),
            failures: Failures::new(),
            refusals: Failures::new(),
            warm_up_failures: Failures::new(),
            second: Second::new(),
            answered: 0,
        }
    }

    /// Records a request with this start (scheduled in an open loop) and end.
    pub fn record(&mut self, kind: RequestKind, started: Instant, ended: Instant, verdict: &Verdict) {
        let latency = ended.saturating_duration_since(started);
        if kind.is_measured() {
            self.second.record(latency, verdict);
            self.answered += u64::from(!matches!(verdict, Verdict::Failed(cause) if !cause.is_answer()));
        }
        let (from, to) = self.window;
        if ended < from {
            if let Verdict::Failed(cause) | Verdict::Refused { cause, .. } = verdict {
                *self.warm_up_failures.entry((kind, cause.clone())).or_default() += 1;
            }
            return;
        }
        if started >= to {
            return;
        }
        self.kinds[kind as usize].record(latency, verdict, ended < to);
        match verdict {
            Verdict::Accepted => {}
            Verdict::Failed(cause) => *self.failures.entry((kind, cause.clone())).or_default() += 1,
            Verdict::Refused { cause, .. } => *self.refusals.entry((kind, cause.clone())).or_default() += 1,
        }
    }

    pub fn kind(&self, kind: RequestKind) -> &KindRecord {
        &self.kinds[kind as usize]
    }

    /// All kinds of the measured mix together.
    pub fn total(&self) -> KindRecord {
        self.sum(RequestKind::is_measured)
    }

    /// The kinds that `belongs` accepts, together.
    pub fn sum(&self, belongs: impl Fn(RequestKind) -> bool) -> KindRecord {
        let mut sum = KindRecord::new();
        for kind in RequestKind::ALL.into_iter().filter(|kind| belongs(*kind)) {
            sum.add(self.kind(kind));
        }
        sum
    }

    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// 429 and 503 with `Retry-After`.
    pub fn refusals(&self) -> &Failures {
        &self.refusals
    }

    pub fn warm_up_failures(&self) -> &Failures {
        &self.warm_up_failures
    }

    /// Answers to the measured mix from the start of the run.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns the counts since the last call, and resets them.
    pub fn take_second(&mut self) -> Second {
        std::mem::replace(&mut self.second, Second::new())
    }
}

impl KindRecord {
    fn new() -> KindRecord {
        KindRecord {
            latency_us: histogram(3),
            refused_latency_us: histogram(3),
            accepted: 0,
            refused: 0,
            failed: 0,
            ended_within: 0,
            accepted_within: 0,
        }
    }

    /// All requests, with any result.
    pub fn count(&self) -> u64 {
        self.accepted + self.refused + self.failed
    }

    fn record(&mut self, latency: Duration, verdict: &Verdict, within: bool) {
        let latency_us = whole_us(latency);
        self.ended_within += u64::from(within);
        self.accepted_within += u64::from(within && *verdict == Verdict::Accepted);
        match verdict {
            Verdict::Accepted => {
                self.accepted += 1;
                self.latency_us.saturating_record(latency_us);
            }
            Verdict::Refused { .. } => {
                self.refused += 1;
                self.refused_latency_us.saturating_record(latency_us);
            }
            Verdict::Failed(cause) => {
                self.failed += 1;
                if cause.is_wait() {
                    self.latency_us.saturating_record(latency_us);
                }
            }
        }
    }

    fn add(&mut self, other: &KindRecord) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.failed += other.failed;
        self.ended_within += other.ended_within;
        self.accepted_within += other.accepted_within;
        // Both histograms have the same bounds, so adding cannot fail.
        let _ = self.latency_us.add(&other.latency_us);
        let _ = self.refused_latency_us.add(&other.refused_latency_us);
    }
}

impl Second {
    fn new() -> Second {
        Second { latency_us: histogram(2), accepted: 0, refused: 0, failed: 0 }
    }

    fn record(&mut self, latency: Duration, verdict: &Verdict) {
        self.latency_us.saturating_record(whole_us(latency));
        match verdict {
            Verdict::Accepted => self.accepted += 1,
            Verdict::Refused { .. } => self.refused += 1,
            Verdict::Failed(_) => self.failed += 1,
        }
    }
}

fn whole_us(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1)
}

fn histogram(significant_digits: u8) -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "constant bounds that the crate accepts; a test makes one")]
    Histogram::new_with_bounds(1, LATENCY_US_MAX, significant_digits).expect("constant bounds are valid")
}
