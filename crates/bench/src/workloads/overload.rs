//! `overload`: durable writes at a multiple of the capacity of the writer. Commits are made slow, so that any machine can be
//! overloaded. It measures the latency of refusals and the memory.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use super::floor::TIMEOUT;
use super::servers::TestBed;
use super::sso::{Mix, SsoLoad};
use crate::cli::OverloadArgs;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::load::{Plan, measure};
use crate::machine::ensure_descriptors;
use crate::report::SecondRow;
use crate::report::{RunReport, milliseconds, print_result, progress, render, thousands, write_json};
use crate::setup::{Population, populate};

const DELAY_VARIABLE: &str = "SARSEN_TEST_COMMIT_DELAY_MS";
const BATCH_VARIABLE: &str = "SARSEN_TEST_BATCH_MAX";
const TENANTS_MAX: usize = 20;
/// Enough users to fill every batch while the capacity is measured, and few enough to avoid refusals.
const CAPACITY_USERS_PER_BATCH: usize = 3;
const CAPACITY_DURATION_MAX: Duration = Duration::from_secs(5);
const CAPACITY_WARM_UP_MAX: Duration = Duration::from_secs(2);
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The JSON of `sarsen bench overload`. Rates are device codes a second.
#[derive(Serialize)]
pub struct OverloadReport {
    pub commit_delay_ms: u64,
    pub batch_max: usize,
    pub capacity_per_second: f64,
    pub factor: f64,
    /// Accepted writes under overload, as a share of the capacity.
    pub goodput_share: f64,
    pub timeouts: u64,
    pub resident_bytes: MemoryOverTime,
    pub capacity: RunReport,
    pub overload: RunReport,
}

/// Resident memory of the server during the overload, in bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryOverTime {
    pub first: Option<u64>,
    pub middle: Option<u64>,
    pub last: Option<u64>,
    pub peak: Option<u64>,
}

/// `sarsen bench overload`.
pub async fn overload(args: &OverloadArgs, launcher: &Launcher) -> Result<(), Error> {
    launcher.for_tools()?;
    ensure_descriptors(args.users)?;
    let test_bed = TestBed::open(&args.common, launcher, args.common.pin)?;
    let delay_ms = args.inject_commit_delay.as_millis() as u64;
    let limits = [(DELAY_VARIABLE, delay_ms.to_string()), (BATCH_VARIABLE, args.batch_max.to_string())];
    let (under_test, credentials) = test_bed.demo_with_limits(&limits).await?;
    let accounts = args.accounts as usize;
    let population = Population { tenants: TENANTS_MAX.min(accounts), accounts };
    let accounts = populate(under_test.first(), &credentials, population).await?;

    let capacity_plan = Plan {
        users: args.batch_max * CAPACITY_USERS_PER_BATCH,
        think: Duration::ZERO,
        rate: None,
        warm_up: args.time.warmup.min(CAPACITY_WARM_UP_MAX),
        duration: args.time.duration.min(CAPACITY_DURATION_MAX),
        timeout: TIMEOUT,
        seed: args.common.seed,
    };
    progress("measuring the capacity of the writer");
    let load = Rc::new(SsoLoad::new(accounts.clone(), capacity_plan.users, Mix::DeviceCodeOnly));
    let (targets, monitored) = (&under_test.targets, &under_test.monitored);
    let capacity = measure("overload: capacity", targets, monitored, &capacity_plan, load).await;
    let capacity_per_second = capacity.total.accepted_per_second;
    if capacity_per_second <= 0.0 {
        print_result(&render(&capacity));
        return Err(Error::set_up("measuring the capacity of the writer", "no device code was accepted"));
    }

    let rate = capacity_per_second * args.factor;
    let plan = Plan {
        users: args.users,
        rate: Some(rate),
        warm_up: args.time.warmup,
        duration: args.time.duration,
        ..capacity_plan
    };
    let load = Rc::new(SsoLoad::new(accounts, plan.users, Mix::DeviceCodeOnly));
    let overload = measure("overload", targets, monitored, &plan, load).await;
    let report = OverloadReport::new(args, delay_ms, capacity, overload);
    print_result(&report.render());
    if let Some(path) = &args.common.json {
        write_json(path, &report)?;
    }
    under_test.stop().await
}

impl OverloadReport {
    fn new(
        args: &OverloadArgs,
        commit_delay_ms: u64,
        capacity: RunReport,
        overload: RunReport,
    ) -> OverloadReport {
        let capacity_per_second = capacity.total.accepted_per_second;
        let timeouts = overload.failures.iter().filter(|row| row.is_wait).map(|row| row.count).sum();
        OverloadReport {
            commit_delay_ms,
            batch_max: args.batch_max,
            capacity_per_second,
            factor: args.factor,
            goodput_share: overload.total.accepted_per_second / capacity_per_second,
            timeouts,
            resident_bytes: MemoryOverTime::of(&overload.seconds),
            capacity,
            overload,
        }
    }

    fn render(&self) -> String {
        let mebibytes = |bytes: Option<u64>| {
            bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} MiB", bytes as f64 / MEBIBYTE))
        };
        let memory = self.resident_bytes;
        let refusals = match &self.overload.total.refused_latency {
            Some(quantiles) => format!("p99 {} ms", milliseconds(quantiles.p99_us)),
            None => "none".to_owned(),
        };
        format!(
            "{}\ncommits delayed by {} ms, at most {} commands a batch\n\
             capacity   {} writes/s (closed loop); load {} times that\n\
             accepted   {:.0} % of the capacity, p99 {} ms from the scheduled start\n\
             refusals   {} (503 or 429 with Retry-After), {refusals}\n\
             timeouts   {}; other failures {}\n\
             memory     first {}, middle {}, last {}, peak {}\n",
            render(&self.overload),
            self.commit_delay_ms,
            self.batch_max,
            thousands(self.capacity_per_second.round() as u64),
            self.factor,
            self.goodput_share * 100.0,
            milliseconds(self.overload.total.latency.p99_us),
            thousands(self.overload.total.refused),
            thousands(self.timeouts),
            thousands(self.overload.total.failed - self.timeouts),
            mebibytes(memory.first),
            mebibytes(memory.middle),
            mebibytes(memory.last),
            mebibytes(memory.peak),
        )
    }
}

impl MemoryOverTime {
    fn of(seconds: &[SecondRow]) -> MemoryOverTime {
        let resident: Vec<u64> = seconds.iter().filter_map(|second| second.server_resident_bytes).collect();
        MemoryOverTime {
            first: resident.first().copied(),
            middle: resident.get(resident.len() / 2).copied(),
            last: resident.last().copied(),
            peak: resident.iter().max().copied(),
        }
    }
}
