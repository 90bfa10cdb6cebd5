//! Counts the probes of `revocation` while they are made.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::report::{BrokenRow, ProbeRow};
use crate::error::Error;
use crate::report::{Quantiles, milliseconds, thousands};

const HISTOGRAM_US_MAX: u64 = 60_000_000;
/// Distinct reasons; more are counted together.
const REASONS_MAX: usize = 20;

/// The kinds of change. Each invalidates other cache keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Token,
    Sessions,
    Account,
    Organization,
    Plan,
}

impl Change {
    pub const ALL: [Change; 5] =
        [Change::Token, Change::Sessions, Change::Account, Change::Organization, Change::Plan];

    pub fn label(self) -> &'static str {
        match self {
            Change::Token => "token revoked",
            Change::Sessions => "sessions ended",
            Change::Account => "account suspended",
            Change::Organization => "organization suspended",
            Change::Plan => "plan changed",
        }
    }
}

/// The probe of one acknowledged change.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Requests after the acknowledgement.
    pub requests: u64,
    /// `None`: the change never took effect.
    pub seen: Option<Seen>,
}

/// When the other instance applied the change.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// From the acknowledgement to the end of the first answer with the change.
    pub after: Duration,
    /// To the start of the last request that was answered without the change; zero if there was none.
    pub accepted_until: Duration,
}

/// Counts of probes.
pub(super) struct ProbeCounts {
    changes: [Counted; Change::ALL.len()],
    /// Probes that were skipped, because the previous one of the same prober was still running.
    missed: u64,
    /// Probes that failed, by change and reason.
    broken: BTreeMap<(Change, String), u64>,
}

#[derive(Clone)]
struct Counted {
    after_us: Histogram<u64>,
    accepted_until_us: Histogram<u64>,
    never: u64,
    asked: u64,
}

impl Counted {
    fn new() -> Counted {
        Counted { after_us: histogram(), accepted_until_us: histogram(), never: 0, asked: 0 }
    }

    fn add(&mut self, other: &Counted) {
        // Both histograms have the same bounds, so adding cannot fail.
        let _ = self.after_us.add(&other.after_us);
        let _ = self.accepted_until_us.add(&other.accepted_until_us);
        self.never += other.never;
        self.asked += other.asked;
    }

    fn row(&self, change: &'static str) -> ProbeRow {
        let in_force = self.after_us.len();
        ProbeRow {
            change,
            count: in_force + self.never,
            never: self.never,
            questions: self.asked,
            in_force_after: (in_force > 0).then(|| Quantiles::of(&self.after_us)),
            accepted_until: (in_force > 0).then(|| Quantiles::of(&self.accepted_until_us)),
        }
    }
}

impl ProbeCounts {
    pub fn new() -> ProbeCounts {
        ProbeCounts { changes: Change::ALL.map(|_| Counted::new()), missed: 0, broken: BTreeMap::new() }
    }

    pub fn note(&mut self, change: Change, probe: Result<Probe, Error>) {
        match probe {
            Ok(probe) => {
                let counted = &mut self.changes[change as usize];
                counted.asked += probe.requests;
                match probe.seen {
                    Some(seen) => {
                        counted.after_us.saturating_record(whole_us(seen.after));
                        counted.accepted_until_us.saturating_record(whole_us(seen.accepted_until));
                    }
                    None => counted.never += 1,
                }
            }
            Err(error) => {
                let full = self.broken.len() >= REASONS_MAX;
                let reason = if full { "other reasons".to_owned() } else { error.to_string() };
                *self.broken.entry((change, reason)).or_default() += 1;
            }
        }
    }

    pub fn miss(&mut self) {
        self.missed += 1;
    }

    pub fn missed(&self) -> u64 {
        self.missed
    }

    pub fn total(&self) -> ProbeRow {
        let mut total = Counted::new();
        self.changes.iter().for_each(|counted| total.add(counted));
        total.row("all")
    }

    /// The text of the live line.
    pub fn live(&self) -> String {
        let total = self.total();
        let broken: u64 = self.broken.values().sum();
        let after = total.in_force_after.map_or_else(String::new, |after| {
            let [p50, p99, max] = [after.p50_us, after.p99_us, after.max_us].map(milliseconds);
            format!("  in force after p50 {p50} p99 {p99} max {max} ms")
        });
        format!("        probes {}{after}  never {}  failed {broken}", thousands(total.count), total.never)
    }

    pub fn rows(&self) -> Vec<ProbeRow> {
        Change::ALL.map(|change| self.changes[change as usize].row(change.label())).into()
    }

    pub fn broken(&self) -> Vec<BrokenRow> {
        let row = |((change, reason), count): (&(Change, String), &u64)| BrokenRow {
            change: change.label(),
            reason: reason.clone(),
            count: *count,
        };
        self.broken.iter().map(row).collect()
    }
}

fn whole_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "constant bounds that the crate accepts; a test makes one")]
    Histogram::new_with_bounds(1, HISTOGRAM_US_MAX, 3).expect("constant bounds are valid")
}
