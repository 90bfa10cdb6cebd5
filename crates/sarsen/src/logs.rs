//! The log: written to stderr by its own thread, so that no request waits for a terminal.

use crate::config::LogFormat;
use crate::error::{Error, Result};
use std::io::{IsTerminal as _, Write as _};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines in the queue; more are dropped and counted. The queue allocates 32 bytes a line at the start: the default of
/// 128,000 lines would be a quarter of the memory of an idle server.
const WAITING_MAX: usize = 8192;

/// Starts the log. Dropping the guard writes the rest of the queue.
pub fn start(filter: &str, format: LogFormat, colours: bool) -> Result<WorkerGuard> {
    let filter = parse_filter(filter)
        .ok_or_else(|| Error::usage("the log filter is not valid; use one like info or warn,server=debug"))?;
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(WAITING_MAX).finish(std::io::stderr());
    let lines = layer().with_writer(writer);
    let started = match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(colours && std::io::stderr().is_terminal());
            registry().with(lines).with(filter).try_init()
        }
        LogFormat::Json => registry().with(lines.json().flatten_event(true)).with(filter).try_init(),
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

/// A filter like `info` or `warn,server=debug`: levels, each alone or for a module. A word by itself must be a level: as the
/// name of a module, which the library takes it for, a mistyped level would silence the log.
pub fn parse_filter(text: &str) -> Option<Targets> {
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let is_module =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    let is_good = |part: &str| match part.split_once('=') {
        Some((module, level)) => is_module(module) && is_level(level),
        None => is_level(part),
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    parts.iter().all(|part| is_good(part)).then(|| parts.join(",").parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_level_is_no_filter() {
        for good in ["info", "WARN", "off", "warn,server=debug", "info, store::sqlite=trace"] {
            assert!(parse_filter(good).is_some(), "{good}");
        }
        for wrong in
            ["", " ", "inof", "info,loud", "server=loud", "info,", "info,=debug", "info,store[tx]=trace"]
        {
            assert!(parse_filter(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_level_is_for_all_modules_but_those_with_one_of_their_own() {
        let filter = parse_filter("warn,server=debug").expect("a filter");
        let lets = |target, level| filter.would_enable(target, &level);
        assert!(lets("server::oauth", tracing::Level::DEBUG) && lets("store", tracing::Level::WARN));
        assert!(!lets("server::oauth", tracing::Level::TRACE) && !lets("store", tracing::Level::INFO));
    }
}
