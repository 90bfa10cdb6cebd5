//! `/healthz`, `/readyz` and `/metrics`.
//!
//! The server is ready when a change comes out at the other end of the live path (`canary.rs`), and its authenticator has
//! once been able to tell who calls.

use super::canary;
use super::explain::is_operator;
use crate::Problem;
use crate::backend::IsLocal;
use crate::context::Context;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use metrics::{Format, Page};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) async fn alive() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(context): State<Context>) -> Result<&'static str, Problem> {
    if !context.0.registry.authenticator.as_ref().is_none_or(|authenticator| authenticator.is_ready()) {
        let detail = "The server of the sessions has not answered since the start; the log says why.";
        return Err(Problem::unavailable(detail, Duration::from_secs(5)));
    }
    match canary::Canary::is_well(context.clone(), canary::KNOWN).await {
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
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::for_client(accept);
    let is_well = canary::Canary::is_well(context.clone(), canary::KNOWN_FOR_PAGE).await;
    let mut page = Page::plain();
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    page.info("live_build_info", "The framework", version);
    page.gauge(
        "live_ready",
        "1 if a change reached a live query of the server itself in the last 30 seconds",
        is_well,
    );
    page.gauge(
        "live_sessions_fresh",
        "1 if it is known which sessions have ended; otherwise requests with a token of Sarsen are refused",
        context.0.registry.authenticator.as_ref().is_none_or(|authenticator| authenticator.is_fresh()),
    );
    show_streams(&context, &mut page);
    show_runs(&context, &mut page);
    show_work(&context, &mut page);
    context.0.requests.show(&mut page);
    context.store().show(&mut page);
    let waiting = context.store().stats().queue_depth;
    page.gauge("store_queue_commands", "Deprecated: use store_queue_depth", waiting);
    let kind = HeaderValue::from_static(format.content_type());
    Ok(([(CONTENT_TYPE, kind)], page.text(format)).into_response())
}

fn show_streams(context: &Context, page: &mut Page) {
    let metrics = &context.0.engine.metrics;
    page.gauge("live_streams", "Open streams", context.0.streams.len());
    page.counter("live_streams_opened_total", "Streams that were opened", load(&metrics.streams_opened));
    page.counter(
        "live_streams_refused_total",
        "Streams that a limit refused",
        load(&metrics.streams_refused),
    );
    page.counter("live_events_total", "Results sent to streams", load(&metrics.events));
    page.counter("live_bytes_total", "Bytes sent to streams", load(&metrics.bytes));
    page.counter("live_calls_total", "Calls of queries and mutations", load(&metrics.calls));
    page.counter("live_slow_commands_total", "Commands over the time limit", load(&metrics.slow_commands));
}

fn show_runs(context: &Context, page: &mut Page) {
    let metrics = &context.0.engine.metrics;
    let groups = context.0.engine.groups().len();
    page.gauge("live_groups", "Live queries with different arguments or claims", groups);
    let bytes = context.0.engine.answer_bytes.load(Ordering::Relaxed);
    page.gauge("live_answer_bytes", "Bytes of answers that are kept: those of live queries, and those of calls that clients have not read", bytes);
    page.counter("live_runs_total", "Runs of live queries", load(&metrics.runs));
    page.counter("live_runs_failed_total", "Runs that failed and were repeated", load(&metrics.runs_failed));
    page.counter(
        "live_runs_unchanged_total",
        "Runs with the same result as before",
        load(&metrics.runs_unchanged),
    );
    page.histogram(
        "live_run_duration_seconds",
        "Runs, from their start to the answer of the database; queries that share a snapshot are one",
        &metrics.run_times,
    );
    page.counter("live_frames_total", "New results", load(&metrics.frames));
    page.histogram("live_delay_seconds", "From a change to its frame", &metrics.delays);
}

fn show_work(context: &Context, page: &mut Page) {
    let work = &context.0.work;
    work.show_tasks(page, "live_");
    page.counter("live_work_failed_total", "Turns of repeated work that failed", work.turns_failed());
    work.show_turns(page, "live_");
    work.show_effects(page, "live_");
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
