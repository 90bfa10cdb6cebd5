//! The report as text for a terminal.

use std::fmt::Write as _;

use super::run_report::{CauseRow, KindRow, Quantiles, RunReport};
use crate::measure::MemoryUse;

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The whole report of one run; ends with a newline.
pub fn render(report: &RunReport) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n{}", headline(report));
    if report.generator.bound {
        let _ = writeln!(
            text,
            "GENERATOR-BOUND: the generator was the bottleneck; the run does not measure the server."
        );
    }
    if report.arrivals == "open" {
        let _ = writeln!(text, "latency counts from the scheduled start");
    }
    requests(&mut text, report);
    causes(&mut text, "failures", &report.failures);
    causes(&mut text, "refusals (429 or 503 with Retry-After)", &report.refusals);
    if !report.warm_up_failures.is_empty() {
        causes(&mut text, "during warm-up (not counted above)", &report.warm_up_failures);
    }
    surroundings(&mut text, report);
    metrics(&mut text, report);
    text
}

fn headline(report: &RunReport) -> String {
    let RunReport { workload, server, users, think_ms, duration_s, warm_up_s, .. } = report;
    let load = match report.intended_per_second {
        Some(rate) => format!(
            "open loop, {} operations/s over at most {} connections",
            thousands(rate.round() as u64),
            thousands(*users as u64)
        ),
        None => format!("closed loop, {} users, think time {think_ms} ms", thousands(*users as u64)),
    };
    format!("{workload} on {server}: {load}, {duration_s:.0} s after {warm_up_s:.0} s of warm-up")
}

fn requests(text: &mut String, report: &RunReport) {
    let _ = writeln!(
        text,
        "{:<28}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>9}",
        "request", "count", "req/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "refused", "failed"
    );
    for row in report.kinds.iter().filter(|row| row.measured) {
        request(text, row);
    }
    if report.kinds.iter().filter(|row| row.measured).count() != 1 {
        request(text, &report.total);
    }
    if let Some(quantiles) = &report.total.refused_latency {
        let _ = writeln!(text, "{:<50}{}", "  latency of refusals", quantile_columns(quantiles));
    }
    for row in report.kinds.iter().filter(|row| !row.measured) {
        let _ = writeln!(text, "outside the mix:");
        request(text, row);
    }
    let _ = writeln!(text, "operations/s {}", thousands(report.operations_per_second.round() as u64));
}

fn request(text: &mut String, row: &KindRow) {
    let _ = writeln!(
        text,
        "{:<28}{:>12}{:>10}{}{:>9}{:>9}",
        row.request,
        thousands(row.count),
        thousands(row.per_second.round() as u64),
        quantile_columns(&row.latency),
        thousands(row.refused),
        thousands(row.failed)
    );
}

fn quantile_columns(quantiles: &Quantiles) -> String {
    let Quantiles { p50_us, p90_us, p99_us, p99_9_us, max_us, .. } = *quantiles;
    [p50_us, p90_us, p99_us, p99_9_us, max_us].map(|us| format!("{:>10}", milliseconds(us))).concat()
}

fn causes(text: &mut String, title: &str, rows: &[CauseRow]) {
    if rows.is_empty() {
        let _ = writeln!(text, "{title}: none");
        return;
    }
    let _ = writeln!(text, "{title}:");
    for row in rows {
        let _ = writeln!(text, "{:>12}  {:<28}{}", thousands(row.count), row.request, row.cause);
    }
}

fn surroundings(text: &mut String, report: &RunReport) {
    if let (Some(cpu_us), Some(cores)) = (report.server_cpu_us_per_request, report.server_cores_used) {
        let whose = if report.servers.len() > 1 { "servers   " } else { "server    " };
        let cpu = format!("CPU {cpu_us:.1} µs/request ({cores:.2} cores)");
        let _ = writeln!(text, "{whose} {cpu}{}", memory(report.server_memory));
    }
    if report.servers.len() > 1 {
        for (number, server) in report.servers.iter().enumerate() {
            let cores = server.cores_used.map_or("unknown".to_owned(), |cores| format!("{cores:.2}"));
            let _ = writeln!(
                text,
                "  {:<9}process {}: {cores} cores{}",
                number + 1,
                server.pid,
                memory(server.memory)
            );
        }
    }
    let steal = report.steal_percent.map_or("unknown".to_owned(), |percent| format!("{percent:.2} %"));
    let _ = write!(text, "machine    CPU steal {steal}");
    if let Some(fsync) = &report.fsync {
        let (p50, tail) = (milliseconds(fsync.p50_us), milliseconds(fsync.p99_9_us));
        let _ = write!(text, ", raw fsync p50 {p50} ms, p99.9 {tail} ms");
        if fsync.in_memory {
            text.push_str(" IN MEMORY: writes are not durable; choose another --data-dir");
        }
    }
    let generator = &report.generator;
    let _ = write!(text, "\ngenerator  lag p99 {:.2} ms", generator.lag_p99_us / 1000.0);
    if let (Some(ran), Some(waited)) = (generator.ran_share, generator.waited_share) {
        let (ran, waited) = (ran * 100.0, waited * 100.0);
        let _ = write!(text, ", ran {ran:.0} % and waited for its core {waited:.0} % of the time");
    }
    if !report.absolute_latencies_count {
        text.push_str(" (CPU steal or lag is too high: compare these latencies, do not quote them)");
    }
    text.push('\n');
}

fn memory(memory: Option<MemoryUse>) -> String {
    let show = |memory: MemoryUse| {
        let (resident, peak) = (memory.resident_bytes as f64, memory.peak_bytes as f64);
        format!(", resident {:.1} MiB, peak {:.1} MiB", resident / MEBIBYTE, peak / MEBIBYTE)
    };
    memory.map_or_else(String::new, show)
}

fn metrics(text: &mut String, report: &RunReport) {
    if report.store_metrics.is_empty() {
        return;
    }
    let whose = if report.servers.len() > 1 { "the first server's" } else { "the server's" };
    let _ = writeln!(text, "{whose} store, before and after:");
    for row in &report.store_metrics {
        let before = row.before.map_or("-".to_owned(), |value| value.to_string());
        let _ = writeln!(text, "  {:<56}{:>16}{:>16}", row.name, before, row.after);
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds as milliseconds, with four significant digits.
pub(crate) fn milliseconds(us: u64) -> String {
    let ms = us as f64 / 1000.0;
    match us {
        0..10_000 => format!("{ms:.3}"),
        10_000..100_000 => format!("{ms:.2}"),
        _ => format!("{ms:.1}"),
    }
}
