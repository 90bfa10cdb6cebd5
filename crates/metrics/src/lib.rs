//! What a server measures, and the page on which Prometheus reads it.
//!
//! - **An observation is a few atomic additions.** [`Histogram`] has no lock and no map of labels: what is measured by
//!   label has one histogram for each value, which its owner makes at the start.
//! - **A page is made when it is asked for.** Whoever counts something adds it to a [`Page`]; there is no global registry.
//! - **The text is right.** The crate `prometheus-client` writes OpenMetrics; clients that do not accept that get the older
//!   format of Prometheus, in which the metadata of a counter has the name of its samples.
//!
//! `histogram.rs`: durations. `requests.rs`: requests of a route. `page.rs`: metrics with names, help and labels. `format.rs`: the two formats.

mod format;
mod histogram;
mod page;
mod requests;

pub use format::Format;
pub use histogram::Histogram;
pub use page::{Labels, Number, Page};
pub use requests::Requests;
