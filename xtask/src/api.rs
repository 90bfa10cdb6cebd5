//! `cargo xtask api keep`: writes down the API of the program as the one that clients know. The rules are in
//! `crates/server/src/openapi/kept/`, as a test of the crate that has the API: this tool builds in a moment because it
//! depends on nothing.

use std::time::Duration;

use crate::report::Report;
use crate::{places, process};

const LIMIT: Duration = Duration::from_secs(30 * 60);
const TEST: [&str; 9] = [
    "test",
    "--quiet",
    "--package",
    "sarsen-server",
    "--lib",
    "openapi::kept::keep",
    "--",
    "--exact",
    "--ignored",
];

/// Keeps it.
pub fn run() -> Result<Report, String> {
    let mut report = Report::default();
    report.check("keep the API", || {
        let mut command = places::cargo(&TEST);
        Ok(process::run(command.env("SARSEN_API_KEEP", "1"), LIMIT)?.success)
    });
    Ok(report)
}
