//! What `revocation` found, as JSON and as a table.

use std::fmt::Write as _;

use serde::Serialize;

use super::counts::ProbeCounts;
use super::probe::PATIENCE;
use crate::error::Error;
use crate::report::{Quantiles, RunReport, milliseconds, render, thousands};

/// The stated bound.
const BOUND_MS: u64 = 250;
/// More than one in so many that were not made: nothing is decided.
const MISSED_ONE_IN: u64 = 100;

/// The JSON of `sarsen bench revocation`.
#[derive(Serialize)]
pub struct RevocationReport {
    pub instances: usize,
    pub probers: usize,
    pub probe_rate_per_second: f64,
    /// What was done to the database meanwhile.
    pub disturbed_by: Vec<&'static str>,
    /// Operations of W1 a second that were started.
    pub rate_per_second: f64,
    /// How that rate was found.
    pub rate_from: String,
    pub bound_p99_ms: u64,
    /// By the bound from above; missed by the one from below. None: nobody can tell, because the bound lies between
    /// the two, too many changes were not made, or the generator was the bottleneck.
    pub bound_held: Option<bool>,
    /// A change that is not in force after this counts as one that never is.
    pub patience_ms: u64,
    pub total: ProbeRow,
    pub changes: Vec<ProbeRow>,
    /// Probes that were due and not made, because their prober was busy with the one before.
    pub missed: u64,
    pub broken: Vec<BrokenRow>,
    /// The run that the rate comes from, if there was one.
    pub ceiling: Option<RunReport>,
    /// W1 meanwhile.
    pub load: RunReport,
}

#[derive(Debug, Clone, Serialize)]
pub struct ProbeRow {
    pub change: &'static str,
    /// Acknowledged changes.
    pub count: u64,
    /// Of them, those that were not in force at the end of the patience.
    pub never: u64,
    pub questions: u64,
    /// To the end of the first answer that obeys: a bound from above.
    pub in_force_after: Option<Quantiles>,
    /// To the sending of the last question that was answered as before: a bound from below.
    pub accepted_until: Option<Quantiles>,
}

/// Probes that came to no end: they say nothing about revocation.
#[derive(Debug, Clone, Serialize)]
pub struct BrokenRow {
    pub change: &'static str,
    pub reason: String,
    pub count: u64,
}

/// What a run is told about itself.
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
            patience_ms: PATIENCE.as_millis() as u64,
            total,
            changes: counts.rows(),
            missed: counts.missed(),
            broken: counts.broken(),
            ceiling: setting.ceiling,
            load,
        }
    }

    /// Fails when a change never took effect, and when nothing was found out.
    pub(super) fn verdict(&self) -> Result<(), Error> {
        let (count, never) = (self.total.count, self.total.never);
        if never > 0 {
            let seconds = PATIENCE.as_secs();
            return Err(Error::Broken(format!(
                "{never} of {count} changes were not in force after {seconds} s"
            )));
        }
        if count == 0 {
            let reason = self.broken.first().map_or("the run was too short", |row| row.reason.as_str());
            return Err(Error::Broken(format!("no probe came to an end: {reason}")));
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
            let _ = writeln!(text, "meanwhile  {fault}");
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
            writeln!(text, "{:<32}{}", "still accepted, when sent after", columns(self.total.accepted_until));
        if self.missed > 0 {
            let _ = writeln!(
                text,
                "not made: {}, their probers were busy with the one before",
                thousands(self.missed)
            );
        }
        for row in &self.broken {
            let _ = writeln!(
                text,
                "came to no end: {:>6}  {:<24}{}",
                thousands(row.count),
                row.change,
                row.reason
            );
        }
        let held = match self.bound_held {
            Some(true) => "held",
            Some(false) => "MISSED",
            None if self.load.generator.bound => "not judged, the generator was the bottleneck",
            None => "not decided, answers took too long to tell or changes were not made",
        };
        let _ = writeln!(text, "bound      p99 <= {} ms, none never: {held}", self.bound_p99_ms);
        text
    }
}

/// Those that were not made fell into the worst moments, so there may be but few of them.
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
    let of = |Quantiles { p50_us, p90_us, p99_us, p99_9_us, max_us }: Quantiles| {
        [p50_us, p90_us, p99_us, p99_9_us, max_us].map(|us| format!("{:>10}", milliseconds(us))).concat()
    };
    quantiles.map_or_else(|| format!("{:>50}", "-"), of)
}
