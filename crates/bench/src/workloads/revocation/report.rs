//! The results of `revocation`, as JSON and as a table.

use std::fmt::Write as _;

use serde::Serialize;

use super::counts::ProbeCounts;
use super::probe::EFFECT_TIME_MAX;
use crate::error::Error;
use crate::report::{Quantiles, RunReport, milliseconds, render, thousands};

/// The bound on staleness.
const BOUND_MS: u64 = 250;
/// Above one skipped probe in this many, the run decides nothing.
const MISSED_ONE_IN: u64 = 100;

/// The JSON of `sarsen bench revocation`.
#[derive(Serialize)]
pub struct RevocationReport {
    pub instances: usize,
    pub probers: usize,
    pub probe_rate_per_second: f64,
    /// The faults of the database during the run.
    pub disturbed_by: Vec<&'static str>,
    /// Scheduled operations of W1 a second.
    pub rate_per_second: f64,
    /// The origin of that rate.
    pub rate_from: String,
    pub bound_p99_ms: u64,
    /// Held by the upper bound, missed by the lower one. `None`: undecided, because the bound is between the two, too many
    /// probes were skipped, or the generator was the bottleneck.
    pub bound_held: Option<bool>,
    /// A change that is not in force after this counts as `never`.
    pub patience_ms: u64,
    pub total: ProbeRow,
    pub changes: Vec<ProbeRow>,
    /// Probes that were skipped, because the previous one of the same prober was still running.
    pub missed: u64,
    pub broken: Vec<BrokenRow>,
    /// The closed-loop run of the rate, if there was one.
    pub ceiling: Option<RunReport>,
    /// W1 during the run.
    pub load: RunReport,
}

#[derive(Debug, Clone, Serialize)]
pub struct ProbeRow {
    pub change: &'static str,
    /// Acknowledged changes.
    pub count: u64,
    /// Of these, changes that were not in force at the time limit.
    pub never: u64,
    pub questions: u64,
    /// To the end of the first answer with the change: an upper bound.
    pub in_force_after: Option<Quantiles>,
    /// To the start of the last request that was answered without the change: a lower bound.
    pub accepted_until: Option<Quantiles>,
}

/// Probes that failed, for a reason other than revocation.
#[derive(Debug, Clone, Serialize)]
pub struct BrokenRow {
    pub change: &'static str,
    pub reason: String,
    pub count: u64,
}

/// The parameters of a run.
pub(super) struct Setting {
    pub instances: usize,
    pub probers: usize,
    pub probe_rate_per_second: f64,
    pub disturbed_by: Vec<&'static str>,
    pub rate_per_second: f64,
    pub rate_from: String,
    pub ceiling: Option<RunReport>,
}

impl RevocationReport {
    pub(super) fn new(setting: Setting, counts: &ProbeCounts, load: RunReport) -> RevocationReport {
        let total = counts.total();
        RevocationReport {
            instances: setting.instances,
            probers: setting.probers,
            probe_rate_per_second: setting.probe_rate_per_second,
            disturbed_by: setting.disturbed_by,
            rate_per_second: setting.rate_per_second,
            rate_from: setting.rate_from,
            bound_p99_ms: BOUND_MS,
            bound_held: is_held(&total, counts.missed(), load.generator.bound),
            patience_ms: EFFECT_TIME_MAX.as_millis() as u64,
            total,
            changes: counts.rows(),
            missed: counts.missed(),
            broken: counts.broken(),
            ceiling: setting.ceiling,
            load,
        }
    }

    /// An error when a change never took effect, or when no probe succeeded.
    pub(super) fn verdict(&self) -> Result<(), Error> {
        let (count, never) = (self.total.count, self.total.never);
        if never > 0 {
            let seconds = EFFECT_TIME_MAX.as_secs();
            return Err(Error::Broken(format!(
                "{never} of {count} changes were not in force after {seconds} s"
            )));
        }
        if count == 0 {
            let reason = self.broken.first().map_or("the run was too short", |row| row.reason.as_str());
            return Err(Error::Broken(format!("no probe succeeded: {reason}")));
        }
        Ok(())
    }

    pub(super) fn render(&self) -> String {
        let mut text = render(&self.load);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\nrevocation over {} instances: {} changes/s by {} probers; W1 at {} operations/s ({})",
            self.instances,
            self.probe_rate_per_second,
            self.probers,
            thousands(self.rate_per_second.round() as u64),
            self.rate_from
        );
        for fault in &self.disturbed_by {
            let _ = writeln!(text, "fault      {fault}");
        }
        let _ = writeln!(
            text,
            "{:<24}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}",
            "in force after", "probes", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "never"
        );
        for row in self.changes.iter().chain([&self.total]) {
            let (count, after) = (thousands(row.count), columns(row.in_force_after));
            let _ = writeln!(text, "{:<24}{count:>8}{after}{:>8}", row.change, thousands(row.never));
        }
        let _ =
            writeln!(text, "{:<32}{}", "stale answer to a request after", columns(self.total.accepted_until));
        if self.missed > 0 {
            let _ = writeln!(
                text,
                "skipped: {} probes, because the previous one of the same prober was still running",
                thousands(self.missed)
            );
        }
        for row in &self.broken {
            let _ = writeln!(text, "failed: {:>6}  {:<24}{}", thousands(row.count), row.change, row.reason);
        }
        let held = match self.bound_held {
            Some(true) => "held",
            Some(false) => "MISSED",
            None if self.load.generator.bound => "undecided, the generator was the bottleneck",
            None => "undecided, answers were too slow or probes were skipped",
        };
        let _ = writeln!(text, "bound      p99 <= {} ms, none never: {held}", self.bound_p99_ms);
        text
    }
}

/// Skipped probes fall into the worst moments, so only few are allowed.
fn is_held(total: &ProbeRow, missed: u64, generator_bound: bool) -> Option<bool> {
    let few_missed = missed * MISSED_ONE_IN <= total.count;
    let is_in_time = |quantiles: Option<Quantiles>| quantiles.is_some_and(|of| of.p99_us <= BOUND_MS * 1000);
    match (is_in_time(total.in_force_after), is_in_time(total.accepted_until)) {
        _ if total.never > 0 => Some(false),
        _ if generator_bound || total.count == 0 => None,
        (true, _) if few_missed => Some(true),
        (_, true) => None,
        (_, false) => Some(false),
    }
}

fn columns(quantiles: Option<Quantiles>) -> String {
    let of = |Quantiles { p50_us, p90_us, p99_us, p99_9_us, max_us, .. }: Quantiles| {
        [p50_us, p90_us, p99_us, p99_9_us, max_us].map(|us| format!("{:>10}", milliseconds(us))).concat()
    };
    quantiles.map_or_else(|| format!("{:>50}", "-"), of)
}
