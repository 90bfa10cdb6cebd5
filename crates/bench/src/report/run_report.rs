//! The report of one run, as in the JSON file. Names have units.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::second_row::SecondRow;
use crate::load::Outcome;
use crate::measure::{FsyncCost, KindRecord, MemoryUse, ProcessUse, Recorder, RequestKind};

/// The generator, or a pinned server, is saturated at this share of its cores.
const BUSY_MAX: f64 = 0.95;
/// Absolute latencies count only below these.
const LAG_P99_US_MAX: f64 = 1_000.0;
const STEAL_PERCENT_MAX: f64 = 1.0;

#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    pub workload: String,
    pub server: String,
    /// `closed` or `open`.
    pub arrivals: &'static str,
    /// Scheduled operations a second of an open loop.
    pub intended_per_second: Option<f64>,
    pub users: usize,
    pub think_ms: u64,
    pub warm_up_s: f64,
    pub duration_s: f64,
    /// An operation is one or more requests.
    pub operations_per_second: f64,
    pub total: KindRow,
    pub kinds: Vec<KindRow>,
    /// When the mix hashes passwords: the requests that do, and all others.
    pub by_hashing: Option<ByHashing>,
    pub failures: Vec<CauseRow>,
    pub refusals: Vec<CauseRow>,
    pub warm_up_failures: Vec<CauseRow>,
    /// Of all server processes together.
    pub server_cpu_us_per_request: Option<f64>,
    /// Mean number of cores that the server's processes kept busy.
    pub server_cores_used: Option<f64>,
    /// At the end of the window. The peak is that of the window where the system can reset it.
    pub server_memory: Option<MemoryUse>,
    /// Each server process.
    pub servers: Vec<ServerRow>,
    pub steal_percent: Option<f64>,
    /// Mean number of cores of the machine that ran anything: also database servers, and the kernel's part of the network.
    pub machine_cores_used: Option<f64>,
    pub fsync: Option<FsyncCost>,
    pub generator: GeneratorReport,
    /// CPU steal and generator lag were low enough for absolute latencies.
    pub absolute_latencies_count: bool,
    pub store_metrics: Vec<MetricRow>,
    pub seconds: Vec<SecondRow>,
}

/// One server process over the measured window.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ServerRow {
    pub pid: u32,
    pub cores_used: Option<f64>,
    pub memory: Option<MemoryUse>,
}

#[derive(Debug, Clone, Serialize)]
pub struct KindRow {
    pub request: String,
    /// Whether it is part of the mix and of the total.
    pub measured: bool,
    /// Requests that were in flight at any time of the window.
    pub count: u64,
    /// Requests that ended inside the window, with any result.
    pub per_second: f64,
    pub accepted_per_second: f64,
    pub accepted: u64,
    pub refused: u64,
    pub failed: u64,
    /// Of accepted requests and timeouts.
    pub latency: Quantiles,
    pub refused_latency: Option<Quantiles>,
}

/// Latencies of the requests that wait for a password hash, and of the others.
#[derive(Debug, Clone, Serialize)]
pub struct ByHashing {
    pub hashing: KindRow,
    pub others: KindRow,
}

/// In microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Quantiles {
    pub mean_us: f64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub p99_9_us: u64,
    pub p99_99_us: u64,
    pub max_us: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct CauseRow {
    pub request: &'static str,
    pub cause: String,
    /// The client waited until its time limit.
    pub is_wait: bool,
    pub count: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct GeneratorReport {
    pub lag_p99_us: f64,
    /// Share of the window in which the generator's thread ran.
    pub ran_share: Option<f64>,
    /// Share of the window in which it waited for its core.
    pub waited_share: Option<f64>,
    /// The generator was the bottleneck, so the run does not measure the server. It is not the bottleneck when a pinned
    /// server is saturated too.
    pub bound: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct MetricRow {
    pub name: String,
    pub before: Option<f64>,
    pub after: f64,
}

impl RunReport {
    pub(crate) fn new(title: &str, outcome: Outcome<'_>) -> RunReport {
        let Outcome { monitored, plan, recorder, opened, closed, .. } = &outcome;
        let seconds = closed.at.saturating_duration_since(opened.at).as_secs_f64().max(f64::EPSILON);
        let duration_s = plan.duration.as_secs_f64();
        let total = KindRow::new("all".to_owned(), true, &recorder.total(), duration_s);
        let servers = ProcessUse::sum(&closed.servers);
        let cpu_s = servers.cpu_since(&ProcessUse::sum(&opened.servers)).map(|cpu| cpu.as_secs_f64());
        let answered = closed.answered.saturating_sub(opened.answered);
        let steal_percent = closed.machine.zip(opened.machine).map(|(b, a)| b.steal_percent_since(&a));
        let server_cores_used = cpu_s.map(|s| s / seconds);
        let generator = generator_report(&outcome, &total, server_cores_used);
        RunReport {
            workload: title.to_owned(),
            server: monitored.name.clone(),
            arrivals: if plan.rate.is_some() { "open" } else { "closed" },
            intended_per_second: plan.rate,
            users: plan.users,
            think_ms: plan.think.as_millis() as u64,
            warm_up_s: plan.warm_up.as_secs_f64(),
            duration_s,
            operations_per_second: outcome.operations as f64 / duration_s,
            total,
            kinds: kind_rows(&outcome, duration_s),
            by_hashing: ByHashing::of(recorder, duration_s),
            failures: cause_rows(recorder.failures()),
            refusals: cause_rows(recorder.refusals()),
            warm_up_failures: cause_rows(recorder.warm_up_failures()),
            server_cpu_us_per_request: cpu_s.filter(|_| answered > 0).map(|s| s * 1e6 / answered as f64),
            server_cores_used,
            server_memory: servers.memory,
            servers: server_rows(&outcome, seconds),
            steal_percent,
            machine_cores_used: closed.machine.zip(opened.machine).map(|(b, a)| b.cores_busy_since(&a)),
            fsync: monitored.fsync.clone(),
            absolute_latencies_count: generator.lag_p99_us < LAG_P99_US_MAX
                && steal_percent.is_some_and(|percent| percent < STEAL_PERCENT_MAX),
            generator,
            store_metrics: metric_rows(&outcome),
            seconds: outcome.seconds,
        }
    }

    /// Requests of the mix that were not accepted, refusals included.
    pub fn not_accepted(&self) -> u64 {
        self.total.refused + self.total.failed
    }
}

fn generator_report(
    outcome: &Outcome<'_>,
    total: &KindRow,
    server_cores_used: Option<f64>,
) -> GeneratorReport {
    let shares = outcome.closed.generator.zip(outcome.opened.generator).map(|(b, a)| b.shares_since(&a));
    let lag_p99_us = outcome.lag_p99_us;
    let saturated = shares.is_some_and(|(ran, waited)| ran + waited >= BUSY_MAX);
    let server_saturated = outcome
        .monitored
        .cores
        .zip(server_cores_used)
        .is_some_and(|(cores, used)| used >= BUSY_MAX * cores as f64);
    // Most of the measured latency is lag of the generator.
    let blurred = lag_p99_us >= LAG_P99_US_MAX && lag_p99_us * 2.0 > total.latency.p99_us as f64;
    GeneratorReport {
        lag_p99_us,
        ran_share: shares.map(|(ran, _)| ran),
        waited_share: shares.map(|(_, waited)| waited),
        bound: (saturated && !server_saturated) || blurred,
    }
}

fn server_rows(outcome: &Outcome<'_>, seconds: f64) -> Vec<ServerRow> {
    let uses = outcome.closed.servers.iter().zip(&outcome.opened.servers);
    let row = |(pid, (closed, opened)): (&u32, (&ProcessUse, &ProcessUse))| ServerRow {
        pid: *pid,
        cores_used: closed.cpu_since(opened).map(|cpu| cpu.as_secs_f64() / seconds),
        memory: closed.memory,
    };
    outcome.monitored.pids.iter().zip(uses).map(row).collect()
}

fn kind_rows(outcome: &Outcome<'_>, duration_s: f64) -> Vec<KindRow> {
    RequestKind::ALL
        .into_iter()
        .map(|kind| (kind, outcome.recorder.kind(kind)))
        .filter(|(_, record)| record.count() > 0)
        .map(|(kind, record)| KindRow::new(kind.label().to_owned(), kind.is_measured(), record, duration_s))
        .collect()
}

fn cause_rows(failures: &BTreeMap<(RequestKind, crate::measure::Cause), u64>) -> Vec<CauseRow> {
    let mut rows: Vec<CauseRow> = failures
        .iter()
        .map(|((kind, cause), count)| CauseRow {
            request: kind.label(),
            cause: cause.to_string(),
            is_wait: cause.is_wait(),
            count: *count,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
}

fn metric_rows(outcome: &Outcome<'_>) -> Vec<MetricRow> {
    let before = &outcome.metrics_before;
    let row = |(name, after): (&String, &f64)| MetricRow {
        name: name.clone(),
        before: before.get(name).copied(),
        after: *after,
    };
    outcome.metrics_after.iter().map(row).collect()
}

impl ByHashing {
    /// `None` when no request of the run hashed.
    fn of(recorder: &Recorder, duration_s: f64) -> Option<ByHashing> {
        let sum = |hashes: bool| recorder.sum(|kind| kind.is_measured() && kind.hashes() == hashes);
        let hashing = sum(true);
        (hashing.count() > 0).then(|| ByHashing {
            hashing: KindRow::new("hashing".to_owned(), true, &hashing, duration_s),
            others: KindRow::new("others".to_owned(), true, &sum(false), duration_s),
        })
    }
}

impl KindRow {
    fn new(request: String, measured: bool, record: &KindRecord, duration_s: f64) -> KindRow {
        KindRow {
            request,
            measured,
            count: record.count(),
            per_second: record.ended_within as f64 / duration_s,
            accepted_per_second: record.accepted_within as f64 / duration_s,
            accepted: record.accepted,
            refused: record.refused,
            failed: record.failed,
            latency: Quantiles::of(&record.latency_us),
            refused_latency: (record.refused > 0).then(|| Quantiles::of(&record.refused_latency_us)),
        }
    }
}

impl Quantiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Quantiles {
        Quantiles {
            mean_us: histogram.mean(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p95_us: histogram.value_at_quantile(0.95),
            p99_us: histogram.value_at_quantile(0.99),
            p99_9_us: histogram.value_at_quantile(0.999),
            p99_99_us: histogram.value_at_quantile(0.999_9),
            max_us: histogram.max(),
        }
    }
}
