//! `/metrics` in the Prometheus text format, for this machine or with a token.

use crate::app::App;
use crate::web::error::Problem;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use web::host::is_for_loopback;
use web::{ConnectionCounts, Peer, RequestLog};

/// Headers of proxies, which may send on what anybody asks for.
const FORWARDING: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Counters of the HTTP server.
#[derive(Default)]
pub(crate) struct Metrics {
    by_class: [AtomicU64; 6],
    pub(crate) connections: ConnectionCounts,
}

impl Metrics {
    pub(crate) fn answered(&self, status: u16) {
        self.by_class[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
    }
}

pub(crate) async fn get(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Response {
    if !may_read(&app, peer.map(|peer| peer.0), &headers) {
        return Problem::not_found("page").into_response();
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], render(&app)).into_response()
}

fn may_read(app: &App, peer: Option<Peer>, headers: &HeaderMap) -> bool {
    match &app.settings.metrics_token {
        Some(token) => {
            let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let sent = sent.strip_prefix("Bearer ").unwrap_or_default();
            identity::secrets::matches(sent.as_bytes(), &identity::secrets::hash(token.as_bytes()))
        }
        None => {
            let is_direct = !FORWARDING.iter().any(|name| headers.contains_key(*name));
            let is_local = peer.is_some_and(|peer| peer.address.to_canonical().is_loopback());
            // A page in this machine's browser may get any name to lead here.
            is_direct && is_local && is_for_loopback(headers)
        }
    }
}

fn render(app: &App) -> String {
    let stats = app.store.stats();
    let (hash_waiting, hash_done, hash_refused) = app.hash_lane.counts();
    let mut text = String::with_capacity(2048);
    for class in 1..6 {
        let count = app.metrics.by_class[class].load(Relaxed);
        let _ = writeln!(text, "sarsen_http_answers_total{{class=\"{class}xx\"}} {count}");
    }
    let numbers: [(&str, u64); 24] = [
        ("sarsen_http_connections", app.metrics.connections.open()),
        ("sarsen_http_connections_refused_total", app.metrics.connections.refused()),
        ("sarsen_forwarded_untrusted_total", app.untrusted_proxies.count()),
        ("sarsen_request_log_dropped_total", app.request_log.as_ref().map_or(0, RequestLog::dropped)),
        ("sarsen_held_polls", app.long_polls.count() as u64),
        ("sarsen_streams", app.streams.count() as u64),
        ("sarsen_hash_waiting", hash_waiting as u64),
        ("sarsen_hash_done_total", hash_done),
        ("sarsen_hash_refused_total", hash_refused),
        ("sarsen_passwords_throttled_total", app.password_guesses.refused()),
        ("sarsen_store_version", app.store.version().number()),
        ("sarsen_store_commands_total", stats.commands),
        ("sarsen_store_commands_failed_total", stats.failed),
        ("sarsen_store_commands_refused_total", stats.refused),
        ("sarsen_store_queue_depth", stats.queue_depth),
        ("sarsen_store_batches_total", stats.batches),
        ("sarsen_store_commit_microseconds_total", stats.commit_us_total),
        ("sarsen_store_commit_microseconds_max", stats.commit_us_max),
        ("sarsen_store_checkpoints_total", stats.checkpoints),
        ("sarsen_store_checkpoint_pause_microseconds_max", stats.pause_us_max),
        ("sarsen_store_wal_bytes", stats.wal_bytes),
        ("sarsen_store_wal_bytes_max", stats.wal_bytes_max),
        ("sarsen_store_reads_total", stats.reads),
        ("sarsen_store_replica_reads_total", stats.replica_reads),
    ];
    let backups = app.backup_counts.numbers();
    for (name, value) in numbers.into_iter().chain(backups) {
        let _ = writeln!(text, "{name} {value}");
    }
    text
}
