//! What is measured of the requests of one route: three atomic additions a request.

use crate::{Histogram, Labels, Page};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The requests of one route. Its owner finds it by a place in a table, not by its labels.
#[derive(Debug)]
pub struct Requests {
    labels: Labels,
    by_class: [AtomicU64; 6],
    took: Histogram,
}

impl Requests {
    /// None yet, of the route with these labels.
    pub fn of(labels: Labels) -> Requests {
        Requests { labels, by_class: Default::default(), took: Histogram::default() }
    }

    /// Counts a response.
    pub fn answered(&self, status: u16, took: Duration) {
        if let Some(count) = self.by_class.get(usize::from(status / 100)) {
            count.fetch_add(1, Relaxed);
        }
        self.took.observe(took);
    }

    /// Responses with a status of this class, such as 2.
    pub fn answers(&self, class: usize) -> u64 {
        self.by_class.get(class).map_or(0, |count| count.load(Relaxed))
    }

    /// Adds the requests of all routes to a page. A route has its samples from its first request on, so that the page is
    /// as long as what is in use.
    pub fn show<'r>(page: &mut Page, routes: impl Iterator<Item = &'r Requests> + Clone) {
        let by_class = routes.clone().flat_map(|route| {
            (1..6).filter(move |class| route.answers(*class) > 0).map(move |class| {
                let mut labels = route.labels.clone();
                labels.push(("status", format!("{class}xx")));
                (labels, route.answers(class))
            })
        });
        page.counters("http_requests_total", "Requests by route and class of the status", by_class);
        let used = routes.filter(|route| route.took.count() > 0);
        page.histograms(
            "http_request_duration_seconds",
            "From the head of a request to the head of its response, with the time for which it is held",
            used.map(|route| (route.labels.clone(), &route.took)),
        );
    }
}
