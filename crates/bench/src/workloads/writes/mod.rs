//! `writes` (W3): `POST /requests` on the back end `request_log`, one durable insert a request, in closed loop with more
//! and more connections.

mod hey;

pub use hey::{HeyLevel, HeySummary};

use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use self::hey::ensure_hey;
use crate::cli::WritesArgs;
use crate::error::Error;
use crate::http::{RequestDraft, Response, Target};
use crate::json_scan::string_field;
use crate::launcher::Launcher;
use crate::load::{Plan, VirtualUser, Workload, measure};
use crate::machine::ensure_descriptors;
use crate::measure::{Cause, FsyncCost, RequestKind, Verdict, measure_fsync};
use crate::report::{RunReport, milliseconds, print_result, progress, thousands, write_json};
use crate::subprocess::Outcome;
use crate::workloads::back_end::{Site, running};
use crate::workloads::floor::TIMEOUT;
use crate::workloads::servers::ServerUnderTest;

const NAME: &str = "request_log";
/// Shares of the peak that levels must reach.
const MIDDLE: (std::ops::RangeInclusive<usize>, f64) = (16..=512, 0.8);
const MANY: (usize, f64) = (1_024, 0.9);
/// A request may take this many times the CPU time of the same insert through the store alone.
const BESIDE_STORE: f64 = 2.5;
/// p99.99 may be longer than the longest raw fsync by this.
const STALL_MAX: Duration = Duration::from_millis(250);

/// The JSON of `sarsen bench writes`.
#[derive(Serialize)]
pub struct WritesReport {
    pub levels: Vec<RunReport>,
    /// The same inserts through the store alone, with `--beside-store`.
    pub store_alone: Vec<StoreAlone>,
    /// The raw fsync before and after the levels, if the bench started the server.
    pub fsync: Vec<FsyncCost>,
    /// The best rate of accepted writes.
    pub peak_per_second: f64,
    pub bars: Vec<Bar>,
}

/// What `sarsen-bench-tools store-writes` printed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoreAlone {
    pub writers: usize,
    pub inserts_per_second: f64,
    pub cpu_us_per_insert: f64,
}

/// A bar, and whether the run held it.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    pub what: String,
    pub held: bool,
}

pub struct WritesLoad {
    request: Vec<u8>,
}

impl WritesLoad {
    pub fn new(target: &Target) -> WritesLoad {
        WritesLoad { request: RequestDraft::post_empty("/requests").encode(&target.host) }
    }
}

impl Workload for WritesLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let judge = |response: &Response<'_>| match Verdict::by_statuses(response, &[200, 201]) {
            Verdict::Accepted if string_field(response.body, "uid").is_none_or(<[u8]>::is_empty) => {
                Verdict::Failed(Cause::BadBody("no uid"))
            }
            verdict => verdict,
        };
        user.send(RequestKind::Insert, &self.request, intended, judge).await
    }
}

/// `sarsen bench writes`.
pub async fn writes(args: &WritesArgs, launcher: &Launcher) -> Result<(), Error> {
    ensure_descriptors(args.connections.iter().copied().max().unwrap_or(1))?;
    if let Some(program) = &args.hey {
        return by_hey(args, program, launcher).await;
    }
    if !args.back_end.url.is_empty() {
        let under_test = running(NAME, &args.back_end)?;
        return finish(args, run_levels(args, &under_test).await, Vec::new(), Vec::new());
    }
    let site = Site::open(&args.back_end, &args.common, launcher, false).await?;
    let database = site.database(NAME, &args.common)?;
    let under_test = site.start(NAME, &args.back_end, &database).await?;
    let levels = run_levels(args, &under_test).await;
    under_test.stop().await?;
    let store_alone = if args.beside_store { store_alone(args, launcher, &site).await? } else { Vec::new() };
    let fsync = vec![site.test_bed.fsync().clone(), measure_fsync(site.test_bed.folder())?];
    finish(args, levels, store_alone, fsync)
}

/// The JSON of `sarsen bench writes --hey`.
#[derive(Serialize)]
pub struct HeyReport {
    pub server: String,
    pub hey: Vec<HeyLevel>,
}

async fn by_hey(args: &WritesArgs, program: &Path, launcher: &Launcher) -> Result<(), Error> {
    ensure_hey(program)?;
    let site;
    let under_test = if args.back_end.url.is_empty() {
        site = Site::open(&args.back_end, &args.common, launcher, false).await?;
        let database = site.database(NAME, &args.common)?;
        site.start(NAME, &args.back_end, &database).await?
    } else {
        running(NAME, &args.back_end)?
    };
    let levels = hey::run_levels(args, program, &under_test).await?;
    let report = HeyReport { server: under_test.monitored.name.clone(), hey: levels };
    under_test.stop().await?;
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

/// Each level again, without a server.
async fn store_alone(
    args: &WritesArgs,
    launcher: &Launcher,
    site: &Site<'_>,
) -> Result<Vec<StoreAlone>, Error> {
    let tools = launcher.for_tools()?;
    let mut found = Vec::new();
    for connections in &args.connections {
        // An empty table each time, as fast as the first level of the server.
        let database = site.database(&format!("store_alone_{connections}"), &args.common)?;
        let arguments = [
            "store-writes".to_owned(),
            format!("--database={}", database.url),
            format!("--writers={connections}"),
            format!("--seconds={}", args.duration.as_secs().max(1)),
            format!("--warmup={}", args.warmup.as_secs()),
        ];
        progress(&format!("inserting through the store alone, {connections} writers"));
        let finished = tools.run("store-writes", &arguments, |_| false).await?;
        let json = match finished.outcome {
            Outcome::Completed(json) => json,
            Outcome::Killed(line) => return Err(Error::set_up("store-writes", line)),
        };
        let alone = serde_json::from_value(json)
            .map_err(|error| Error::set_up("store-writes", format!("unexpected JSON: {error}")))?;
        found.push(alone);
    }
    Ok(found)
}

async fn run_levels(args: &WritesArgs, under_test: &ServerUnderTest) -> Vec<RunReport> {
    print_result(&heading(&under_test.monitored.name, args.duration));
    let mut levels = Vec::new();
    for connections in &args.connections {
        let plan = Plan {
            users: *connections,
            think: Duration::ZERO,
            rate: None,
            warm_up: args.warmup,
            duration: args.duration,
            timeout: TIMEOUT,
            seed: args.common.seed,
        };
        let load = Rc::new(WritesLoad::new(under_test.first()));
        let level = measure("writes", &under_test.targets, &under_test.monitored, &plan, load).await;
        print_result(&row(&level));
        levels.push(level);
    }
    levels
}

fn finish(
    args: &WritesArgs,
    levels: Vec<RunReport>,
    store_alone: Vec<StoreAlone>,
    fsync: Vec<FsyncCost>,
) -> Result<(), Error> {
    let report = WritesReport::new(levels, store_alone, fsync);
    print_result(&report.render());
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

impl WritesReport {
    fn new(levels: Vec<RunReport>, store_alone: Vec<StoreAlone>, fsync: Vec<FsyncCost>) -> WritesReport {
        let peak_per_second = levels.iter().map(rate).fold(0.0, f64::max);
        let mut bars = bars(&levels, &fsync, peak_per_second);
        bars.extend(beside_store(&levels, &store_alone));
        WritesReport { levels, store_alone, fsync, peak_per_second, bars }
    }

    fn render(&self) -> String {
        let mut text =
            format!("\npeak {} durable inserts/s\n", thousands(self.peak_per_second.round() as u64));
        // Writing to a String cannot fail.
        for Bar { what, held } in &self.bars {
            let _ = writeln!(text, "{}: {what}", if *held { "held" } else { "MISSED" });
        }
        for level in &self.levels {
            for cause in level.failures.iter().chain(&level.refusals) {
                let _ = writeln!(
                    text,
                    "{} connections: {} × {}",
                    level.users,
                    thousands(cause.count),
                    cause.cause
                );
            }
        }
        if self.fsync.iter().any(|fsync| fsync.in_memory) {
            text.push_str("IN MEMORY: writes are not durable; choose another --data-dir\n");
        }
        text
    }
}

fn rate(level: &RunReport) -> f64 {
    level.total.accepted_per_second
}

/// Bars of levels that were not measured are left out.
fn bars(levels: &[RunReport], fsync: &[FsyncCost], peak_per_second: f64) -> Vec<Bar> {
    let mut bars = Vec::new();
    let failed: u64 = levels.iter().map(RunReport::not_accepted).sum();
    bars.push(Bar { what: format!("no failure and no refusal ({})", thousands(failed)), held: failed == 0 });
    let lowest = |wanted: &dyn Fn(usize) -> bool| {
        let rates = levels.iter().filter(|level| wanted(level.users)).map(rate);
        rates
            .min_by(f64::total_cmp)
            .map(|rate| if peak_per_second > 0.0 { rate / peak_per_second } else { 0.0 })
    };
    let ((middle, middle_min), (many, many_min)) = (MIDDLE, MANY);
    if let Some(share) = lowest(&|users| middle.contains(&users)) {
        let what = format!(
            "16 to 512 connections reach {:.0} % of the peak (at least {:.0} %)",
            share * 100.0,
            middle_min * 100.0
        );
        bars.push(Bar { what, held: share >= middle_min });
    }
    if let Some(share) = lowest(&|users| users == many) {
        let what = format!(
            "1,024 connections reach {:.0} % of the peak (at least {:.0} %)",
            share * 100.0,
            many_min * 100.0
        );
        bars.push(Bar { what, held: share >= many_min });
    }
    let longest_fsync_us = fsync.iter().map(|fsync| fsync.max_us).max();
    let slowest_us = levels.iter().map(|level| level.total.latency.p99_99_us).max();
    if let (Some(fsync_us), Some(slowest_us)) = (longest_fsync_us, slowest_us) {
        let bound_us = fsync_us + STALL_MAX.as_micros() as u64;
        let what = format!(
            "p99.99 is at most {} ms (at most 250 ms and the longest raw fsync, {} ms)",
            milliseconds(slowest_us),
            milliseconds(fsync_us)
        );
        bars.push(Bar { what, held: slowest_us <= bound_us });
    }
    bars
}

/// One bar a level: the CPU time of a request by that of an insert.
fn beside_store(levels: &[RunReport], store_alone: &[StoreAlone]) -> Vec<Bar> {
    let compared = levels.iter().zip(store_alone).filter_map(|(level, alone)| {
        let (request, insert) = (level.server_cpu_us_per_request?, alone.cpu_us_per_insert);
        let ratio = request / insert;
        let what = format!(
            "{} connections: {request:.1} µs of CPU a request are {ratio:.2} times the {insert:.1} µs of the store alone, \
             which made {} inserts/s (at most {BESIDE_STORE})",
            thousands(level.users as u64),
            thousands(alone.inserts_per_second.round() as u64),
        );
        Some(Bar { what, held: ratio <= BESIDE_STORE })
    });
    compared.collect()
}

fn heading(server: &str, duration: Duration) -> String {
    format!(
        "\nwrites on {server}: POST /requests, closed loop, {:.0} s a level, times in ms\n{:>11} | {:>8} | {:>8} | \
         {:>8} {:>8} {:>8} | {:>8} | {:>6} | {:>10} | {:>7}\n",
        duration.as_secs_f64(),
        "connections",
        "req/s",
        "average",
        "p50",
        "p99",
        "p99.99",
        "slowest",
        "failed",
        "CPU µs/req",
        "steal %"
    )
}

fn row(level: &RunReport) -> String {
    let latency = &level.total.latency;
    let optional = |value: Option<f64>, decimals: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
    };
    format!(
        "{:>11} | {:>8} | {:>8} | {:>8} {:>8} {:>8} | {:>8} | {:>6} | {:>10} | {:>7}{}\n",
        thousands(level.users as u64),
        thousands(rate(level).round() as u64),
        milliseconds(latency.mean_us.round() as u64),
        milliseconds(latency.p50_us),
        milliseconds(latency.p99_us),
        milliseconds(latency.p99_99_us),
        milliseconds(latency.max_us),
        thousands(level.not_accepted()),
        optional(level.server_cpu_us_per_request, 1),
        optional(level.steal_percent, 1),
        if level.generator.bound { "  GENERATOR-BOUND" } else { "" },
    )
}
