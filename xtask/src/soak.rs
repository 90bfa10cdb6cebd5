//! `cargo xtask soak`: the tests that are too long for every day.
//!
//! - `cross`: every test on every database server.
//! - `relying-parties`: stock programs with their defaults sign a user in, and the guides of `docs/guides` are followed to
//!   the letter (`tests/relying_parties`).
//! - `long`: tests named `soak_…`, which run in a short form with everything else, at full length. They are built with
//!   optimisation and run one after another, so that none disturbs what another measures.
//!
//! A suite that takes minutes or wants what a contributor need not have is one more line of `STEPS`.

use std::time::Duration;

use crate::counts::{of_cargo, of_pytest};
use crate::databases::{self, Servers};
use crate::programs::Programs;
use crate::report::Report;
use crate::{needs, places, process, tiers};

type Step = fn(&mut Report, &Servers, &str);

const STEPS: [(&str, Step); 3] = [("cross", cross), ("relying-parties", relying_parties), ("long", long)];

const LIMIT: Duration = Duration::from_secs(12 * 3600);

pub fn run(args: &[&str]) -> Result<Report, String> {
    let (only, filter) = chosen(args)?;
    let mut report = Report::default();
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let databases = if only == Some("relying-parties") { &[][..] } else { &databases::ALL };
    let mut needed: Vec<&needs::Need> = databases.iter().flat_map(|database| database.needs()).collect();
    if wanted("relying-parties") {
        needed.extend(needs::RELYING_PARTIES);
    }
    needs::meet(&mut report, &needed);
    let servers = Servers::start(&mut report, databases);
    for (_, step) in STEPS.iter().filter(|(name, _)| wanted(name)) {
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

fn relying_parties(report: &mut Report, _servers: &Servers, _filter: &str) {
    report.step("relying parties", || {
        let cargo = process::run(&mut places::cargo(&["build", "--package", "sarsen"]), LIMIT)?;
        if !cargo.success {
            return Err("the binary `sarsen` does not build".into());
        }
        let folder = places::relying_parties();
        let mut python = places::at_root(&places::python().to_string_lossy(), &["-m", "pytest"]);
        python.current_dir(folder).env("SARSEN_BIN", places::target().join("debug/sarsen"));
        python.env("SARSEN_NODE", needs::node(&[])?.get_program()).env("PYTHONDONTWRITEBYTECODE", "1");
        let outcome = process::run(&mut python, LIMIT)?;
        Ok(of_pytest(&outcome.stdout).with_status(outcome.success))
    });
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
    for step in ["cross", "relying-parties"] {
        assert_eq!(chosen(&["--only", step]), Ok((Some(step), "soak_")));
    }
    assert_eq!(chosen(&["soak_moves"]), Ok((Some("long"), "soak_moves")));
    assert!(
        chosen(&["--only", "everything"]).is_err_and(|text| text.contains("cross, relying-parties, long"))
    );
    assert!(chosen(&["--fast"]).is_err());
}
