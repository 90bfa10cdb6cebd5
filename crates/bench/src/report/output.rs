//! The only module that writes: results to stdout, progress to stderr, JSON to a file. A closed pipe is no error.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;

use super::second_row::SecondRow;
use super::table::{milliseconds, thousands};
use crate::error::Error;

/// Prints a result on stdout.
pub fn print_result(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints a line of progress on stderr.
pub(crate) fn progress(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints one second of a run on stderr. `news`: the failures and refusals of this second, by cause.
pub(crate) fn live_line(row: &SecondRow, news: &[(String, u64)]) {
    let causes: Vec<String> = news.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    progress(&format!(
        "{:>5} s{}  users {:>6}  req/s {:>7}  p50 {:>8}  p90 {:>8}  p99 {:>8} ms  errors {}",
        row.second,
        if row.warm_up { " warm-up" } else { "" },
        thousands(row.users as u64),
        thousands(row.requests),
        milliseconds(row.p50_us),
        milliseconds(row.p90_us),
        milliseconds(row.p99_us),
        if causes.is_empty() { "0".to_owned() } else { causes.join(", ") },
    ));
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let what = || Error::io(format!("cannot write {}", path.display()));
    let mut text = serde_json::to_vec_pretty(value).map_err(std::io::Error::from).map_err(what())?;
    text.push(b'\n');
    std::fs::write(path, text).map_err(what())
}
