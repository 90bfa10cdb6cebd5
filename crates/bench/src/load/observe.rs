//! The live view: one line a second on stderr. The report gets the same numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::run::Run;
use crate::measure::ProcessUse;
use crate::report::{SecondRow, live_line};

/// Records and shows each second until the caller drops it.
pub(super) async fn observe(run: &Run, pids: &[u32], rows: &std::cell::RefCell<Vec<SecondRow>>) {
    let mut before = ProcessUse::sum_now(pids);
    let mut failures_before: BTreeMap<String, u64> = BTreeMap::new();
    let mut second = 0_u64;
    loop {
        second += 1;
        let at = run.schedule.begin + Duration::from_secs(second);
        sleep_until(at).await;
        let now = ProcessUse::sum_now(pids);
        let row = SecondRow {
            server_resident_bytes: now.memory.map(|memory| memory.resident_bytes),
            server_cpu_ms: now.cpu_since(&before).map(|cpu| cpu.as_millis() as u64),
            ..row(run, second, at)
        };
        before = now;
        let failures = failures_by_cause(run);
        live_line(&row, &news(&failures, &failures_before));
        failures_before = failures;
        rows.borrow_mut().push(row);
    }
}

fn row(run: &Run, second: u64, at: Instant) -> SecondRow {
    let taken = run.recorder.borrow_mut().take_second();
    let quantile = |quantile| taken.latency_us.value_at_quantile(quantile);
    SecondRow {
        second,
        warm_up: at <= run.schedule.from,
        users: run.connected.get(),
        requests: taken.accepted + taken.refused + taken.failed,
        accepted: taken.accepted,
        refused: taken.refused,
        failed: taken.failed,
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        server_resident_bytes: None,
        server_cpu_ms: None,
    }
}

/// Failures and refusals by cause, from the start of the run.
fn failures_by_cause(run: &Run) -> BTreeMap<String, u64> {
    let recorder = run.recorder.borrow();
    let mut by_cause = BTreeMap::new();
    for failures in [recorder.failures(), recorder.refusals(), recorder.warm_up_failures()] {
        for ((_, cause), count) in failures {
            *by_cause.entry(cause.to_string()).or_default() += count;
        }
    }
    by_cause
}

fn news(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    now.iter()
        .map(|(cause, count)| (cause.clone(), count - before.get(cause).copied().unwrap_or(0)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
