//! `/healthz`, `/readyz` and `/metrics`.
//!
//! The server is ready when a change comes out at the other end of the live path (`canary.rs`).

use super::explain::is_operator;
use crate::Problem;
use crate::app::Context;
use crate::backend::IsLocal;
use crate::group::DELAY_BOUNDS;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) async fn alive() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(context): State<Context>) -> Result<&'static str, Problem> {
    match context.0.canary.is_well(&context).await {
        true => Ok("ok\n"),
        false => Err(Problem::unavailable("Changes do not reach live queries.", Duration::from_secs(5))),
    }
}

pub(super) async fn metrics(
    State(context): State<Context>,
    Extension(local): Extension<IsLocal>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    is_operator(&context, local, &headers)?;
    let metrics = &context.0.engine.metrics;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut line = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    let groups = context.0.engine.groups();
    let stats = context.store().stats();
    line("live_streams", "gauge", "Open streams.", context.0.streams.len() as u64);
    line("live_streams_opened_total", "counter", "Streams that were opened.", load(&metrics.streams_opened));
    line(
        "live_streams_refused_total",
        "counter",
        "Streams that a limit refused.",
        load(&metrics.streams_refused),
    );
    line("live_groups", "gauge", "Live queries with different arguments or claims.", groups.len() as u64);
    line("live_runs_total", "counter", "Runs of live queries.", load(&metrics.runs));
    line(
        "live_runs_failed_total",
        "counter",
        "Runs that failed and were repeated.",
        load(&metrics.runs_failed),
    );
    line(
        "live_runs_unchanged_total",
        "counter",
        "Runs with the same result as before.",
        load(&metrics.runs_unchanged),
    );
    line("live_frames_total", "counter", "New results.", load(&metrics.frames));
    line("live_events_total", "counter", "Results sent to streams.", load(&metrics.events));
    line("live_bytes_total", "counter", "Bytes sent to streams.", load(&metrics.bytes));
    line("live_calls_total", "counter", "Calls of queries and mutations.", load(&metrics.calls));
    line(
        "live_slow_commands_total",
        "counter",
        "Commands over the time limit.",
        load(&metrics.slow_commands),
    );
    line("store_commands_total", "counter", "Commands that were committed.", stats.commands);
    line("store_commands_failed_total", "counter", "Commands that failed.", stats.failed);
    line("store_commands_refused_total", "counter", "Commands that could not start in time.", stats.refused);
    line("store_commits_total", "counter", "Commits.", stats.batches);
    line("store_queue_commands", "gauge", "Commands that wait.", stats.queue_depth);
    line("store_reads_total", "counter", "Queries that were answered.", stats.reads);
    line("store_replica_reads_total", "counter", "Queries that a replica answered.", stats.replica_reads);
    let _ = write!(
        text,
        "# HELP live_delay_seconds From a change to its frame.\n# TYPE live_delay_seconds histogram\n"
    );
    let mut total = 0;
    for (bucket, bound) in metrics.delays.buckets.iter().zip(DELAY_BOUNDS) {
        total += load(bucket);
        let _ = writeln!(text, "live_delay_seconds_bucket{{le=\"{}\"}} {total}", bound as f64 / 1e6);
    }
    total += metrics.delays.buckets.last().map_or(0, load);
    let sum = load(&metrics.delays.sum_us) as f64 / 1e6;
    let _ = write!(
        text,
        "live_delay_seconds_bucket{{le=\"+Inf\"}} {total}\nlive_delay_seconds_sum {sum}\nlive_delay_seconds_count {total}\n"
    );
    let mut response = text.into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
