//! `cargo xtask soak`: the tests that want minutes or hours.
//!
//! A test named `soak_…` runs in a short form with everything else and at full length when
//! `SARSEN_SOAK` is set. This verb sets it, builds with optimisation and runs them one after another,
//! so that none disturbs what another measures.

use std::time::Duration;

use crate::counts::of_cargo;
use crate::report::Report;
use crate::{needs, places, process, test};

const LIMIT: Duration = Duration::from_secs(12 * 3600);

pub fn run(args: &[&str]) -> Result<Report, String> {
    let filter = match args {
        [] => "soak_",
        [filter] => filter,
        _ => return Err("soak takes one filter at most".into()),
    };
    let mut report = Report::default();
    report.check("what the soak tests need", || {
        needs::packages(&[needs::POSTGRES, needs::MARIADB, needs::STRACE])
    });
    let cluster = test::start_postgres(&mut report);
    let server = test::start_mariadb(&mut report);
    report.step("soak", || {
        let mut command = places::cargo(&["test", "--release", "--no-fail-fast", "--workspace"]);
        command.args([
            "--exclude",
            "xtask",
            "--",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
            filter,
        ]);
        command.env("SARSEN_SOAK", "1");
        command.envs(cluster.iter().map(|cluster| ("SARSEN_TEST_POSTGRES", cluster.url())));
        command.envs(server.iter().map(|server| ("SARSEN_TEST_MYSQL", server.url())));
        let outcome = process::run(&mut command, LIMIT)?;
        Ok(of_cargo(&outcome.stdout).with_status(outcome.success))
    });
    Ok(report)
}
