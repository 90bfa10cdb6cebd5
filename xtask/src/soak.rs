//! `cargo xtask soak`: the tests that are too long for every day.
//!
//! - `cross`: every test on every database server.
//! - `relying-parties`: stock programs with their defaults sign a user in, and the guides of `docs/guides` are followed to
//!   the letter (`tests/relying_parties`).
//! - `edge`: HTTP/2, TLS and the proxies of `deploy` with stock clients, and clients that attack (`tests/edge`).
//! - `cost`: the instructions of the worst requests, and what they do to others (`tests/cost`).
//! - `schedules`: publication and caches in many orders of threads (`store/src/schedules.rs`).
//! - `fuzz-targets`: the targets of `cargo xtask fuzz`, which wants another compiler, are checked by this one.
//! - `long`: tests named `soak_…`, which run in a short form with everything else, at full length. They are built with
//!   optimisation and run one after another, so that none disturbs what another measures.
//!
//! A suite that takes minutes or wants what a contributor need not have is one more line of `STEPS`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::counts::{Counts, of_cargo, of_pytest};
use crate::databases::{self, Servers};
use crate::programs::Programs;
use crate::report::Report;
use crate::{needs, places, process, tiers};

type Step = fn(&mut Report, &Servers, &str);

const STEPS: [(&str, Step); 7] = [
    ("cross", cross),
    ("relying-parties", relying_parties),
    ("edge", edge),
    ("cost", cost),
    ("schedules", schedules),
    ("fuzz-targets", fuzz_targets),
    ("long", long),
];

const LIMIT: Duration = Duration::from_secs(12 * 3600);

pub fn run(args: &[&str]) -> Result<Report, String> {
    let (only, filter) = chosen(args)?;
    let mut report = Report::default();
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let is_alone = matches!(only, Some("relying-parties" | "edge" | "cost" | "schedules" | "fuzz-targets"));
    let databases = if is_alone { &[][..] } else { &databases::ALL };
    let mut needed: Vec<&needs::Need> = databases.iter().flat_map(|database| database.needs()).collect();
    if wanted("relying-parties") {
        needed.extend(needs::RELYING_PARTIES);
    }
    if wanted("edge") {
        needed.extend(needs::EDGE);
    }
    if wanted("long") {
        needed.extend(needs::LONG);
    }
    if wanted("cost") {
        needed.extend(needs::COST);
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
        let binary = built(&[], "debug")?;
        let mut python = pytest(places::relying_parties(), binary);
        python.env("SARSEN_NODE", needs::node(&[])?.get_program());
        counted(&mut python)
    });
}

fn edge(report: &mut Report, _servers: &Servers, _filter: &str) {
    report.step("edge", || {
        let mut python = pytest(places::edge(), built(&["--features", "acme"], "debug")?);
        python.env("SARSEN_NODE", needs::node(&[])?.get_program()).env("SARSEN_GO", places::go_programs());
        counted(&mut python)
    });
}

fn cost(report: &mut Report, _servers: &Servers, _filter: &str) {
    report.step("cost", || counted(&mut pytest(places::cost(), built(&["--release"], "release")?)));
}

/// Builds the program. Returns its path.
fn built(options: &[&str], folder: &str) -> Result<PathBuf, String> {
    let cargo = [&["build", "--package", "sarsen"], options].concat();
    match process::run(&mut places::cargo(&cargo), LIMIT)?.success {
        true => Ok(places::target().join(folder).join("sarsen")),
        false => Err("the binary `sarsen` does not build".into()),
    }
}

fn pytest(folder: PathBuf, binary: PathBuf) -> Command {
    let mut python = places::at_root(&places::python().to_string_lossy(), &["-m", "pytest"]);
    python.current_dir(folder).env("SARSEN_BIN", binary).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

fn counted(python: &mut Command) -> Result<Counts, String> {
    let outcome = process::run(python, LIMIT)?;
    Ok(of_pytest(&outcome.stdout).with_status(outcome.success))
}

fn schedules(report: &mut Report, _servers: &Servers, _filter: &str) {
    report.step("schedules", || {
        // A target folder of its own: the flag would have everything else built again.
        let mut command =
            places::cargo(&["test", "--release", "--package", "store", "--no-default-features"]);
        command.args(["--lib", "schedules::", "--target-dir"]).arg(places::target().join("shuttle"));
        let outcome = process::run(command.env("RUSTFLAGS", "--cfg shuttle"), LIMIT)?;
        Ok(of_cargo(&outcome.stdout).with_status(outcome.success))
    });
}

fn fuzz_targets(report: &mut Report, _servers: &Servers, _filter: &str) {
    report.check("fuzz targets", || {
        let manifest = places::root().join("fuzz/Cargo.toml");
        let mut command = places::cargo(&["check", "--manifest-path"]);
        command.arg(manifest).arg("--target-dir").arg(places::target());
        Ok(process::run(&mut command, LIMIT)?.success)
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
    for step in ["cross", "relying-parties", "edge", "cost", "schedules", "fuzz-targets"] {
        assert_eq!(chosen(&["--only", step]), Ok((Some(step), "soak_")));
    }
    assert_eq!(chosen(&["soak_moves"]), Ok((Some("long"), "soak_moves")));
    assert!(chosen(&["--only", "everything"]).is_err_and(|text| {
        text.contains("cross, relying-parties, edge, cost, schedules, fuzz-targets, long")
    }));
    assert!(chosen(&["--fast"]).is_err());
}
