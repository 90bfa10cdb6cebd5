//! `cargo xtask deny`: what the dependencies are allowed to be; the rules are in `deny.toml`.
//!
//! Advisories need a database from the network and change without us, so they belong to this verb
//! alone; `cargo xtask test` asks only what depends on our own change.

use std::time::Duration;

use crate::report::Report;
use crate::{places, process};

const LIMIT: Duration = Duration::from_secs(30 * 60);

pub fn run() -> Result<Report, String> {
    let mut report = Report::default();
    if !installed() {
        report.check("install cargo-deny", || cargo(&["install", "cargo-deny", "--locked"]));
    }
    report.check("bans, licences, sources", offline);
    report.check("advisories", || cargo(&["deny", "--all-features", "check", "advisories"]));
    Ok(report)
}

pub fn installed() -> bool {
    process::quietly(&mut places::cargo(&["deny", "--version"]))
}

/// The checks that need nothing but the lock file and the crates themselves.
pub fn offline() -> Result<bool, String> {
    cargo(&["deny", "--all-features", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
}

fn cargo(args: &[&str]) -> Result<bool, String> {
    Ok(process::run(&mut places::cargo(args), LIMIT)?.success)
}
