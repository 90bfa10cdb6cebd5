//! The ceiling of W1: the highest rate with p99 ≤ 1 s and no failure, found with increasing users.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use super::{Mix, SsoLoad};
use crate::error::Error;
use crate::load::{Plan, measure};
use crate::machine::ensure_descriptors;
use crate::report::{RunReport, milliseconds, print_result, progress, render, thousands};
use crate::setup::Accounts;
use crate::workloads::servers::ServerUnderTest;

const USERS_FIRST: usize = 16;
const P99_US_MAX: u64 = 1_000_000;
/// The longest time of a level, whatever `--duration` is.
const LEVEL_DURATION_MAX: Duration = Duration::from_secs(30);
/// A level must be better than the best one by this factor.
const GAIN_MIN: f64 = 1.02;
/// The search ends after this many levels without gain.
const LEVELS_WITHOUT_GAIN: usize = 3;

/// All levels that were run.
#[derive(Serialize)]
pub struct CeilingReport {
    pub levels: Vec<RunReport>,
    /// Index of the level with the highest rate that held.
    pub best: Option<usize>,
}

impl CeilingReport {
    pub fn best(&self) -> Option<&RunReport> {
        self.best.map(|index| &self.levels[index])
    }
}

/// Doubles the users, up to those of `plan`, until a level does not hold or gains nothing.
pub async fn find_ceiling(
    under_test: &ServerUnderTest,
    accounts: &Accounts,
    mix: Mix,
    plan: &Plan,
) -> Result<CeilingReport, Error> {
    let mut report = CeilingReport { levels: Vec::new(), best: None };
    let mut users = USERS_FIRST.min(plan.users);
    let mut without_gain = 0;
    loop {
        ensure_descriptors(users)?;
        progress(&format!("ceiling: {} users", thousands(users as u64)));
        let level_plan = Plan { users, duration: plan.duration.min(LEVEL_DURATION_MAX), ..plan.clone() };
        let load = Rc::new(SsoLoad::new(accounts.clone(), users, mix));
        let level =
            measure("sso ceiling", &under_test.targets, &under_test.monitored, &level_plan, load).await;
        let holds = holds(&level);
        print_result(&line(&level, holds));
        let gains = report.add(level, holds);
        without_gain = if gains { 0 } else { without_gain + 1 };
        if !holds || without_gain >= LEVELS_WITHOUT_GAIN || users >= plan.users {
            break;
        }
        users = (users * 2).min(plan.users);
    }
    print_result(&summary(&report));
    Ok(report)
}

impl CeilingReport {
    /// Records a level. True if it holds and is better than the others.
    fn add(&mut self, level: RunReport, holds: bool) -> bool {
        let best_rate = self.best().map_or(0.0, |best| best.total.per_second);
        let rate = level.total.per_second;
        self.levels.push(level);
        if holds && rate > best_rate {
            self.best = Some(self.levels.len() - 1);
        }
        holds && rate > best_rate * GAIN_MIN
    }
}

fn holds(level: &RunReport) -> bool {
    level.total.latency.p99_us <= P99_US_MAX && level.not_accepted() == 0 && level.total.count > 0
}

fn line(level: &RunReport, holds: bool) -> String {
    format!(
        "{:>7} users {:>9} req/s  p50 {:>8}  p99 {:>8} ms  not accepted {:>6}  {}{}\n",
        thousands(level.users as u64),
        thousands(level.total.per_second.round() as u64),
        milliseconds(level.total.latency.p50_us),
        milliseconds(level.total.latency.p99_us),
        thousands(level.not_accepted()),
        if holds { "holds" } else { "does not hold" },
        if level.generator.bound { ", GENERATOR-BOUND" } else { "" },
    )
}

fn summary(report: &CeilingReport) -> String {
    let Some(best) = report.best() else { return "\nno level held p99 <= 1 s without failures\n".to_owned() };
    let rate = thousands(best.total.per_second.round() as u64);
    let bound = if report.levels.iter().any(|level| level.generator.bound) {
        " (at least: the generator was the bottleneck of a level)"
    } else {
        ""
    };
    format!("{}ceiling of {}: {rate} req/s at {} users{bound}\n", render(best), best.server, best.users)
}
