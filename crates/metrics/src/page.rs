//! Metrics on their way to the page.

use crate::format::{self, Format};
use crate::histogram::{Histogram, Shown};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Names and values of labels. The values are texts of our own: nothing in them is escaped.
pub type Labels = Vec<(&'static str, String)>;

/// The value of a gauge.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A number of things.
    Whole(u64),
    /// Seconds, mostly.
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        Number::Whole(value)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Number {
        Number::Whole(value as u64)
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Number {
        Number::Whole(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number::Real(value)
    }
}

/// The metrics of a process at one moment.
pub struct Page {
    registry: Registry,
}

impl Page {
    /// An empty page. The name of each metric gets the prefix and `_`.
    pub fn with_prefix(prefix: &str) -> Page {
        Page { registry: Registry::with_prefix(prefix) }
    }

    /// An empty page.
    pub fn plain() -> Page {
        Page { registry: Registry::default() }
    }

    /// What is always 1, for its labels. The name ends with `_info`.
    pub fn info(&mut self, name: &str, help: &str, labels: Labels) {
        self.add(base(name, "_info"), help, MetricType::Info, vec![(labels, Value::Info)]);
    }

    /// A count since the start. The name ends with `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, [(Labels::new(), value)]);
    }

    /// Counts by label.
    pub fn counters(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, u64)>) {
        let rows = rows.into_iter().map(|(labels, value)| (labels, Value::Counter(value))).collect();
        self.add(base(name, "_total"), help, MetricType::Counter, rows);
    }

    /// A value of this moment.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Into<Number>) {
        self.gauges(name, help, [(Labels::new(), value.into())]);
    }

    /// Values by label.
    pub fn gauges(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, Number)>) {
        let rows = rows.into_iter().map(|(labels, value)| (labels, Value::Gauge(value))).collect();
        self.add(name, help, MetricType::Gauge, rows);
    }

    /// Durations. The name ends with `_seconds`.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.histograms(name, help, [(Labels::new(), histogram)]);
    }

    /// Durations by label.
    pub fn histograms<'h>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels, &'h Histogram)>,
    ) {
        let rows = rows.into_iter().map(|(labels, one)| (labels, Value::Histogram(one.shown()))).collect();
        self.add(name, help, MetricType::Histogram, rows);
    }

    /// The page as it is sent. A metric without rows has its name, type and help.
    pub fn text(&self, format: Format) -> String {
        let mut text = String::with_capacity(16 * 1024);
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        match format {
            Format::OpenMetrics => text,
            Format::Prometheus => format::prometheus(&text),
        }
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, rows: Vec<(Labels, Value)>) {
        self.registry.register(name, help, Family { kind, rows });
    }
}

/// The name of the family: its samples have the suffix.
fn base<'n>(name: &'n str, suffix: &str) -> &'n str {
    name.strip_suffix(suffix).unwrap_or(name)
}

#[derive(Debug)]
enum Value {
    Counter(u64),
    Gauge(Number),
    Histogram(Shown),
    Info,
}

/// The samples of one name.
#[derive(Debug)]
struct Family {
    kind: MetricType,
    rows: Vec<(Labels, Value)>,
}

impl EncodeMetric for Family {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &self.rows {
            match value {
                Value::Info => encoder.encode_info(labels)?,
                // Without labels there are no braces.
                _ if labels.is_empty() => value.encode(&mut encoder)?,
                _ => value.encode(&mut encoder.encode_family(labels)?)?,
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

impl Value {
    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Value::Counter(value) => encoder.encode_counter::<NoLabelSet, u64, u64>(value, None),
            // What does not fit is not a number of things.
            Value::Gauge(Number::Whole(value)) => {
                encoder.encode_gauge(&i64::try_from(*value).unwrap_or(i64::MAX))
            }
            Value::Gauge(Number::Real(value)) => encoder.encode_gauge(value),
            Value::Histogram(Shown { sum, count, buckets }) => {
                encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
            }
            Value::Info => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn page() -> Page {
        let mut page = Page::with_prefix("x");
        page.info("build_info", "The program", vec![("version", "1.2".to_owned())]);
        page.counter("calls_total", "Calls", 7);
        let by_class = [("2xx", 3), ("5xx", 1)];
        page.counters(
            "answers_total",
            "Answers",
            by_class.map(|(class, count)| (vec![("class", class.to_owned())], count)),
        );
        page.gauge("age_seconds", "Age", 0.25);
        page.gauges("lag_seconds", "Lag", []);
        let took = Histogram::default();
        took.observe(Duration::from_millis(30));
        page.histograms("took_seconds", "Time", [(vec![("route", "/a".to_owned())], &took)]);
        page
    }

    #[test]
    fn each_format_names_a_counter_in_its_way() {
        let text = page().text(Format::OpenMetrics);
        for expected in [
            "# HELP x_build The program.\n# TYPE x_build info\nx_build_info{version=\"1.2\"} 1\n",
            "# HELP x_calls Calls.\n# TYPE x_calls counter\nx_calls_total 7\n",
            "x_answers_total{class=\"2xx\"} 3\nx_answers_total{class=\"5xx\"} 1\n",
            "# TYPE x_took_seconds histogram\nx_took_seconds_sum{route=\"/a\"} 0.03\nx_took_seconds_count{route=\"/a\"} 1\n",
            "x_took_seconds_bucket{le=\"0.025\",route=\"/a\"} 0\nx_took_seconds_bucket{le=\"0.05\",route=\"/a\"} 1\n",
            "x_took_seconds_bucket{le=\"+Inf\",route=\"/a\"} 1\n# EOF\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        let text = page().text(Format::Prometheus);
        for expected in [
            "# HELP x_build_info The program.\n# TYPE x_build_info gauge\nx_build_info{version=\"1.2\"} 1\n",
            "# HELP x_calls_total Calls.\n# TYPE x_calls_total counter\nx_calls_total 7\n",
            "# HELP x_age_seconds Age.\n# TYPE x_age_seconds gauge\nx_age_seconds 0.25\n",
            "# HELP x_lag_seconds Lag.\n# TYPE x_lag_seconds gauge\n# HELP x_took_seconds Time.\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert!(!text.contains("EOF"), "{text}");
    }

    #[test]
    fn the_client_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
        assert_eq!(Format::for_client(Some(prometheus)), Format::OpenMetrics);
        for other in [None, Some("*/*"), Some("text/plain")] {
            assert_eq!(Format::for_client(other), Format::Prometheus);
        }
    }
}
