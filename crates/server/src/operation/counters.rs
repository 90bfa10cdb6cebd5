//! What no other part of the server counts: responses by route, connections, passwords. `metrics` shows it.

use http::Method;
use live::background::WorkMetrics;
use metrics::{Page, Requests};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use web::{ConnectionCounts, Tls};

/// What no other part of the server counts.
pub(crate) struct Metrics {
    /// In the order of the table of routes, once it is served.
    routes: OnceLock<Vec<Requests>>,
    /// Requests without a route, or refused before one was looked for.
    unmatched: Requests,
    pub(crate) connections: ConnectionCounts,
    pub(crate) work: WorkMetrics,
    pub(crate) passwords: PasswordChecks,
    tls: OnceLock<Tls>,
}

/// Passwords that were typed.
#[derive(Default)]
pub(crate) struct PasswordChecks {
    pub(crate) right: AtomicU64,
    pub(crate) wrong: AtomicU64,
    /// Because of wrong ones before.
    pub(crate) refused: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            routes: OnceLock::new(),
            unmatched: requests("-", "-"),
            connections: ConnectionCounts::default(),
            work: WorkMetrics::default(),
            passwords: PasswordChecks::default(),
            tls: OnceLock::new(),
        }
    }
}

fn requests(method: &str, route: &str) -> Requests {
    Requests::of(vec![("method", method.to_owned()), ("route", route.to_owned())])
}

impl Metrics {
    /// Counts the responses of these routes each for itself.
    pub(crate) fn count(&self, routes: &[(Method, &'static str)]) {
        let counted = || routes.iter().map(|(method, route)| requests(method.as_str(), route)).collect();
        self.routes.get_or_init(counted);
    }

    /// Counts a response of the route at this place of the table.
    pub(crate) fn answered(&self, place: Option<usize>, status: u16, took: Duration) {
        let route = place.and_then(|place| self.routes.get()?.get(place)).unwrap_or(&self.unmatched);
        route.answered(status, took);
    }

    /// Notes which certificate the listener uses.
    pub(crate) fn note_tls(&self, tls: Option<&Tls>) {
        if let Some(tls) = tls {
            self.tls.get_or_init(|| tls.clone());
        }
    }

    fn routes(&self) -> impl Iterator<Item = &Requests> + Clone {
        self.routes.get().into_iter().flatten().chain([&self.unmatched])
    }

    /// Adds them to a page.
    pub(super) fn show(&self, page: &mut Page) {
        let of_class = |class| self.routes().map(|route| route.answers(class)).sum::<u64>();
        let classes = (1..6).map(|class| (vec![("class", format!("{class}xx"))], of_class(class)));
        page.counters("http_answers_total", "Responses by the class of their status", classes);
        Requests::show(page, self.routes());
        self.connections.show(page);
        Tls::show(self.tls.get(), page);
        let PasswordChecks { right, wrong, refused } = &self.passwords;
        let results = [("right", right), ("wrong", wrong), ("refused", refused)];
        page.counters(
            "password_checks_total",
            "Passwords that were typed; refused: without a check, because of wrong ones before",
            results.map(|(result, count)| (vec![("result", result.to_owned())], count.load(Relaxed))),
        );
        self.work.show_turns(page, "");
        self.work.show_effects(page, "");
        page.gauge(
            "housekeeping_last_success_timestamp_seconds",
            "Unix time of this instance's last turn of housekeeping after which none of its steps had failed, 0 for none",
            self.work.last_success(),
        );
        page.counter(
            "housekeeping_failed_total",
            "Turns of steps of housekeeping that failed",
            self.work.turns_failed(),
        );
    }
}
