//! One workload with more and more users, and the resource that ran out.

use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::report::{RunReport, milliseconds, print_result, thousands};

/// A level must be better than the best one by this factor.
const GAIN_MIN: f64 = 1.02;
const LEVELS_WITHOUT_GAIN: usize = 2;
/// A resource counts as used up at this share.
const USED_UP: f64 = 0.85;
/// A generator that waits longer for its core shares the machine with other programs.
const WAITED_MAX: f64 = 0.25;

/// The levels of a workload.
#[derive(Debug, Serialize)]
pub struct Climb {
    pub workload: String,
    pub levels: Vec<RunReport>,
    /// Index of the level with the highest rate that held.
    pub best: Option<usize>,
    /// What ended the search.
    pub ended: String,
    pub ran_out: String,
    pub advice: &'static str,
}

/// Another condition of a level.
pub(in crate::workloads) struct Held {
    pub holds: bool,
    pub otherwise: &'static str,
}

/// Doubles the users from `first` up to `most`.
pub(in crate::workloads) async fn climb(
    workload: &str,
    bound: Duration,
    first: usize,
    most: usize,
    mut measure: impl AsyncFnMut(usize) -> Result<(RunReport, Option<Held>), Error>,
) -> Result<Climb, Error> {
    let (mut levels, mut best, mut without_gain): (Vec<RunReport>, Option<usize>, usize) =
        (Vec::new(), None, 0);
    let mut users = first.min(most);
    let ended = loop {
        let (level, also) = measure(users).await?;
        let why = broken(&level, bound, also);
        print_result(&line(workload, &level, why.as_deref()));
        let rate = level.total.accepted_per_second;
        let best_rate = best.map_or(0.0, |index: usize| levels[index].total.accepted_per_second);
        levels.push(level);
        if let Some(why) = why {
            break why;
        }
        without_gain = if rate > best_rate * GAIN_MIN { 0 } else { without_gain + 1 };
        if rate > best_rate {
            best = Some(levels.len() - 1);
        }
        if without_gain >= LEVELS_WITHOUT_GAIN {
            break "more users do not raise the rate".to_owned();
        }
        if users >= most {
            break format!("{} users are the most that the bench tries", thousands(most as u64));
        }
        users = (users * 2).min(most);
    };
    let (ran_out, advice) = levels.last().map_or(("nothing".to_owned(), ""), ran_out);
    Ok(Climb { workload: workload.to_owned(), levels, best, ended, ran_out, advice })
}

impl Climb {
    pub(in crate::workloads) fn best(&self) -> Option<&RunReport> {
        self.best.map(|index| &self.levels[index])
    }
}

/// Why a level does not hold.
fn broken(level: &RunReport, bound: Duration, also: Option<Held>) -> Option<String> {
    let bound_ms = bound.as_millis();
    if level.not_accepted() > 0 {
        return Some(format!("{} requests were not accepted", thousands(level.not_accepted())));
    }
    if u128::from(level.total.latency.p99_us) > bound.as_micros() {
        return Some(format!("p99 is above {bound_ms} ms"));
    }
    also.filter(|also| !also.holds)
        .map(|also| format!("p99 of {} is above {bound_ms} ms, or a stream failed", also.otherwise))
}

/// The resource that a level used up, with what to change.
fn ran_out(level: &RunReport) -> (String, &'static str) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let servers = level.server_cores_used.unwrap_or(0.0);
    let generator = level.generator.ran_share.unwrap_or(0.0);
    let failed_by = |word: &str| {
        let rows = level.failures.iter().chain(&level.warm_up_failures);
        rows.into_iter().any(|row| row.cause.contains(word))
    };
    if failed_by("descriptors") {
        return (
            "file descriptors".to_owned(),
            "raise the limit of file descriptors (ulimit -Hn, LimitNOFILE)",
        );
    }
    if failed_by("out of ports") {
        return ("ports of this machine".to_owned(), "measure from another machine");
    }
    if servers + generator >= USED_UP * cores {
        let what = format!("CPU: server {servers:.2} and generator {generator:.2} of {cores:.0} cores");
        return (what, "run the server alone on such a machine, or use more cores");
    }
    let waited = level.generator.waited_share.unwrap_or(0.0);
    if waited >= WAITED_MAX {
        let what = format!("CPU: the generator waited for a core {:.0} % of the time", waited * 100.0);
        return (what, "stop the other programs on this machine, or use more cores");
    }
    if level.generator.bound {
        return ("the generator".to_owned(), "measure from another machine with --url");
    }
    let fsync = level.fsync.as_ref().map_or("unknown".to_owned(), |fsync| milliseconds(fsync.p50_us));
    let what = format!("the disk: a raw fsync takes {fsync} ms, server {servers:.2} of {cores:.0} cores");
    (what, "use a disk with a faster fsync (a local NVMe disk, or one with a battery-backed cache)")
}

fn line(workload: &str, level: &RunReport, why: Option<&str>) -> String {
    format!(
        "{workload}: {:>6} users {:>8} req/s  p99 {:>8} ms  {}{}\n",
        thousands(level.users as u64),
        thousands(level.total.accepted_per_second.round() as u64),
        milliseconds(level.total.latency.p99_us),
        why.unwrap_or("holds"),
        if level.generator.bound { ", GENERATOR-BOUND" } else { "" },
    )
}
