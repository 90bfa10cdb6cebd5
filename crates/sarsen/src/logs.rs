//! The log: to stderr, by a thread of its own, so that no request waits for a terminal.

use crate::config::LogFormat;
use crate::error::{Error, Result};
use std::io::IsTerminal as _;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

/// Starts logging; what is still to be written is written when the guard is dropped.
pub fn start(filter: &str, format: LogFormat, colours: bool) -> Result<WorkerGuard> {
    let filter = parse_filter(filter).ok_or_else(|| Error::usage("the log filter cannot be read"))?;
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let started = match format {
        LogFormat::Text => log.with_ansi(colours && std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Error::failed(format!("the log cannot be started: {error}")))?;
    Ok(guard)
}

/// A filter like `info` or `warn,server=debug`.
pub fn parse_filter(text: &str) -> Option<EnvFilter> {
    EnvFilter::builder().parse(text).ok().filter(|_| !text.trim().is_empty())
}
