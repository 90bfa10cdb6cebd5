//! `cargo xtask soak`: what is too long for every day.
//!
//! - `cross`: every test on every database server.
//! - `long`: tests named `soak_…`, which run in a short form with everything else, at full length. They are built with
//!   optimisation and run one after another, so that none disturbs what another measures.
//!
//! A suite that takes minutes or wants what a contributor need not have is one more line of `STEPS`.

use std::time::Duration;

use crate::counts::of_cargo;
use crate::databases::{self, Servers};
use crate::programs::Programs;
use crate::report::Report;
use crate::{needs, places, process, tiers};

type Step = fn(&mut Report, &Servers, &str);

const STEPS: [(&str, Step); 2] = [("cross", cross), ("long", long)];

const LIMIT: Duration = Duration::from_secs(12 * 3600);

pub fn run(args: &[&str]) -> Result<Report, String> {
    let (only, filter) = chosen(args)?;
    let mut report = Report::default();
    let needed: Vec<&needs::Need> = databases::ALL.iter().flat_map(|database| database.needs()).collect();
    needs::meet(&mut report, &needed);
    let servers = Servers::start(&mut report, &databases::ALL);
    for (_, step) in STEPS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        step(&mut report, &servers, filter);
    }
    Ok(report)
}

/// The one step that is wanted, and what the names of the long tests hold. A filter means the long tests.
fn chosen<'a>(args: &[&'a str]) -> Result<(Option<&'a str>, &'a str), String> {
    let is_step = |name: &str| STEPS.iter().any(|(known, _)| *known == name);
    match args {
        [] => Ok((None, "soak_")),
        ["--only", step] if is_step(step) => Ok((Some(step), "soak_")),
        ["--only", ..] => Err(format!("--only takes one of {}", STEPS.map(|(name, _)| name).join(", "))),
        [filter] if !filter.starts_with('-') => Ok((Some("long"), filter)),
        _ => Err("soak takes --only STEP, or one filter of the long tests".into()),
    }
}

fn cross(report: &mut Report, servers: &Servers, _filter: &str) {
    let mut programs = None;
    report.check("build", || {
        programs = Some(Programs::build()?);
        Ok(true)
    });
    if let Some(programs) = programs {
        tiers::cross(report, &programs, servers);
    }
}

fn long(report: &mut Report, servers: &Servers, filter: &str) {
    report.step("long", || {
        let mut command = places::cargo(&["test", "--release", "--no-fail-fast", "--workspace"]);
        command.args(["--exclude", "xtask", "--", "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.arg(filter).env("SARSEN_SOAK", "1").envs(servers.variables());
        let outcome = process::run(&mut command, LIMIT)?;
        Ok(of_cargo(&outcome.stdout).with_status(outcome.success))
    });
}

#[test]
fn a_filter_means_the_long_tests() {
    assert_eq!(chosen(&[]), Ok((None, "soak_")));
    assert_eq!(chosen(&["--only", "cross"]), Ok((Some("cross"), "soak_")));
    assert_eq!(chosen(&["soak_moves"]), Ok((Some("long"), "soak_moves")));
    assert!(chosen(&["--only", "everything"]).is_err_and(|text| text.contains("cross, long")));
    assert!(chosen(&["--fast"]).is_err());
}
