//! `/metrics` for Prometheus, for this machine or with a token.
//!
//! What a part of the program counts it adds to the page itself (`show`); here is what belongs to no part, and names that
//! go with the next release.

use super::health;
use crate::app::App;
use crate::web::error::Problem;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Uri};
use metrics::{Format, Page};
use std::time::Duration;
use store::CacheStats;
use web::forwarded::{is_for_others, is_trusted};
use web::host::is_for_loopback;
use web::{Cidr, Peer, RequestLog};

/// A database that does not answer for so long is one that is not ready.
const READY_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn get(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    if !may_read(&app, peer.map(|peer| peer.0), &uri, &headers) {
        return Problem::not_found("page").into_response();
    }
    let format = Format::for_client(text_of(&headers, ACCEPT));
    let checked = tokio::time::timeout(READY_MAX, health::check(&app)).await;
    let page = page(&app, matches!(checked, Ok(Ok(()))));
    ([(CONTENT_TYPE, format.content_type())], page.text(format)).into_response()
}

fn may_read(app: &App, peer: Option<Peer>, uri: &Uri, headers: &HeaderMap) -> bool {
    match &app.settings.metrics_token {
        Some(token) => {
            let sent = text_of(headers, AUTHORIZATION).unwrap_or_default();
            let sent = sent.strip_prefix("Bearer ").unwrap_or_default();
            identity::secrets::matches(sent.as_bytes(), &identity::secrets::hash(token.as_bytes()))
        }
        None => {
            let is_local = peer.is_some_and(|peer| is_trusted(peer.address, &Cidr::LOOPBACK));
            // A page in this machine's browser may get any name to lead here.
            is_local && !is_for_others(headers) && is_for_loopback(uri, headers)
        }
    }
}

fn text_of(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn page(app: &App, is_ready: bool) -> Page {
    let mut page = Page::with_prefix("sarsen");
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    page.info("build_info", "The program", version);
    page.gauge("ready", "1 if GET /readyz answers 200", is_ready);
    app.metrics.show(&mut page);
    app.address_sources.show(&mut page);
    let languages = app.settings.languages.offered().iter();
    page.counters(
        "texts_missing_total",
        "Texts that were shown in English because the language lacks them",
        languages.map(|language| (vec![("language", language.tag().to_owned())], language.missing())),
    );
    page.counter(
        "request_log_dropped_total",
        "Requests that the request log could not take in time",
        app.request_log.as_ref().map_or(0, RequestLog::dropped),
    );
    page.gauge("held_polls", "Polls of devices that wait for their user", app.long_polls.count());
    page.gauge("streams", "Open streams of GET /api/live", app.streams.count());
    let behind = app.streams.hub.behind_for().as_secs_f64();
    page.gauge("streams_behind_seconds", "For how long streams of services have been behind the log", behind);
    app.hash_lane.show(&mut page);
    page.counter(
        "passwords_throttled_total",
        "Sign-ins that were refused because of wrong passwords before",
        app.password_guesses.refused(),
    );
    page.counter(
        "sign_ups_refused_total",
        "Sign-ups that were refused because their network had made many accounts (429)",
        app.sign_ups.refused(),
    );
    page.gauge("store_version", "Version of the state that answers show", app.store.version().number());
    app.store.show(&mut page);
    show_caches(app, &mut page);
    app.backup_counts.show(&mut page);
    show_deprecated(app, &mut page);
    page
}

fn show_caches(app: &App, page: &mut Page) {
    let mut caches = app.store.cache_stats();
    caches.push(app.lookups.verified_stats());
    let rows = |value: fn(&CacheStats) -> u64| {
        caches.iter().map(move |cache| (vec![("cache", cache.name.to_owned())], value(cache)))
    };
    let sizes = |value| rows(value).map(|(labels, value)| (labels, value.into()));
    page.gauges("cache_entries", "Entries of a cache", sizes(|cache| cache.entries));
    page.gauges("cache_bytes", "Memory of a cache's entries", sizes(|cache| cache.bytes));
    page.counters("cache_hits_total", "Look-ups that found an entry", rows(|cache| cache.hits));
    page.counters("cache_misses_total", "Look-ups that found no entry", rows(|cache| cache.misses));
    page.counters(
        "cache_evictions_total",
        "Entries that left because the memory of all caches was used up",
        rows(|cache| cache.evictions),
    );
}

/// Names of 0.1.0 without a standard unit. They go with 0.2.0.
fn show_deprecated(app: &App, page: &mut Page) {
    let stats = app.store.stats();
    page.counter("store_batches_total", "Deprecated: use sarsen_store_commits_total", stats.batches);
    let commits = "Deprecated: use sarsen_store_commit_duration_seconds";
    page.counter("store_commit_microseconds_total", commits, stats.commit_us_total);
    page.gauge("store_commit_microseconds_max", commits, stats.commit_us_max);
    let pauses = "Deprecated: use sarsen_store_checkpoint_pause_seconds";
    page.gauge("store_checkpoint_pause_microseconds_max", pauses, stats.pause_us_max);
    page.gauge("store_wal_bytes_max", "Deprecated: use sarsen_store_wal_max_bytes", stats.wal_bytes_max);
}
