//! The log: to stderr, by a thread of its own, so that no request waits for a terminal.

use crate::config::LogFormat;
use crate::error::{Error, Result};
use std::io::IsTerminal as _;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// Lines that may wait for whoever reads the log; more are dropped and counted. The queue takes 32 bytes a place from
/// the start, and the crate's own choice of 128,000 places would be a quarter of an idle server's memory.
const WAITING_MAX: usize = 8192;

/// Starts logging; what is still to be written is written when the guard is dropped.
pub fn start(filter: &str, format: LogFormat, colours: bool) -> Result<WorkerGuard> {
    let filter = parse_filter(filter).ok_or_else(|| Error::usage("the log filter cannot be read"))?;
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(WAITING_MAX).finish(std::io::stderr());
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
