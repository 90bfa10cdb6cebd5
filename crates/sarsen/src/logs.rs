//! The log: written to stderr by its own thread, so that no request waits for a terminal.

use crate::config::LogFormat;
use crate::error::{Error, Result};
use std::io::{IsTerminal as _, Write as _};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Lines in the queue; more are dropped and counted. The queue allocates 32 bytes a line at the start: the default of
/// 128,000 lines would be a quarter of the memory of an idle server.
const WAITING_MAX: usize = 8192;

/// Starts the log. Dropping the guard writes the rest of the queue.
pub fn start(filter: &str, format: LogFormat, colours: bool) -> Result<WorkerGuard> {
    let filter = parse_filter(filter)
        .ok_or_else(|| Error::usage("the log filter is not valid; use one like info or warn,server=debug"))?;
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(WAITING_MAX).finish(std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let started = match format {
        LogFormat::Text => log.with_ansi(colours && std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Error::failed(format!("cannot start the log: {error}")))?;
    Ok(guard)
}

/// Writes one line to stderr at once, in the format of the log: for what is said when the log has not started, or has ended.
pub fn write_last(format: LogFormat, text: &str) {
    match format {
        // The exit code says it too, where stderr is full or closed.
        LogFormat::Text => {
            let _ = writeln!(std::io::stderr(), "sarsen: {text}");
        }
        LogFormat::Json => {
            let log = tracing_subscriber::fmt().json().flatten_event(true).with_writer(std::io::stderr);
            tracing::subscriber::with_default(log.finish(), || tracing::error!("{text}"));
        }
    }
}

/// A filter like `info` or `warn,server=debug`. A word by itself must be a level: as the name of a module, which the
/// library takes it for, a mistyped level would silence the log.
pub fn parse_filter(text: &str) -> Option<EnvFilter> {
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let is_good = |part: &str| part.contains(['=', '[']) || is_level(part.trim());
    let parsed = EnvFilter::builder().parse(text).ok();
    parsed.filter(|_| !text.trim().is_empty() && text.split(',').all(is_good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_level_is_no_filter() {
        for good in ["info", "WARN", "off", "warn,server=debug", "info,store[tx]=trace"] {
            assert!(parse_filter(good).is_some(), "{good}");
        }
        for wrong in ["", " ", "inof", "info,loud", "server=loud", "info,"] {
            assert!(parse_filter(wrong).is_none(), "{wrong}");
        }
    }
}
