//! The two formats in which the page is sent.

use std::fmt::Write as _;

/// A format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format for a client with this `Accept` header: OpenMetrics if the header names it.
    pub fn for_client(accept: Option<&str>) -> Format {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Rewrites the metadata of OpenMetrics. The samples are the same in both formats.
pub(crate) fn prometheus(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + openmetrics.len() / 16);
    let mut help = "";
    for line in openmetrics.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            // It comes right before the type, on which the name depends.
            ["#", "HELP", _, said] => help = said,
            ["#", "TYPE", name, kind] => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    kind => ("", kind),
                };
                // Writing to a String does not fail.
                let _ = write!(text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
            }
            ["#", ..] => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}
