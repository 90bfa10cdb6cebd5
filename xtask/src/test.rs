//! `cargo xtask test`: format, lints, tidy rules, tests, and what a stranger's tools see.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::counts::{Counts, of_cargo, of_node, of_pytest};
use crate::databases::{self, Database, Servers};
use crate::needs::{self, Need};
use crate::programs::Programs;
use crate::report::Report;
use crate::{deny, places, process, tiers};

/// Names for `--only`, in the order in which they run.
const STEPS: [&str; 5] = ["fmt", "clippy", "tidy", "unit", "outside"];

/// No step may hang for ever; the slowest (a cold build) takes a third of this.
const STEP_LIMIT: Duration = Duration::from_secs(30 * 60);

const HOW_LONG: &str = "\
Everything together takes 20 to 30 minutes on two cores the first time, most of it compiling, and about 12 later.
While you work, run a part of it (CONTRIBUTING.md).";

pub fn run(args: &[&str]) -> Result<Report, String> {
    let chosen = chosen(args)?;
    let wanted = |step: &str| chosen.only.is_empty() || chosen.only.contains(&step);
    let mut report = Report::default();
    if chosen.only.is_empty() {
        println!("{HOW_LONG}");
    }
    report.skips_fail = places::is_ci() && chosen.only.is_empty() && chosen.databases == databases::ALL;
    needs::meet(&mut report, &needs_of(&chosen));

    if wanted("fmt") {
        report.check("fmt", || cargo(&["fmt", "--all", "--check"]));
    }
    if wanted("clippy") {
        report.check("clippy", lint);
    }
    if wanted("tidy") {
        report.step("tidy", || cargo_test(&["-p", "xtask"]));
        if chosen.only.is_empty() && deny::installed() {
            report.check("deny", deny::offline);
        }
    }
    if let Some(programs) = build(&mut report, wanted("unit") || wanted("outside")) {
        if wanted("unit") {
            let servers = Servers::start(&mut report, &chosen.databases);
            tiers::daily(&mut report, &programs, &servers, &chosen.databases);
        }
        if wanted("outside") {
            outside(&mut report, &programs);
        }
    }
    Ok(report)
}

/// The newest Rust whose lints the tree satisfies: `1.LINTS_MINOR`. Clippy of a newer one may have new lints, which
/// warn but fail nothing.
const LINTS_MINOR: u32 = 99;

fn lint() -> Result<bool, String> {
    let mut arguments = vec!["clippy", "--workspace", "--all-targets"];
    let version = process::output(&mut places::cargo(&["--version"])).unwrap_or_default();
    match minor_of(&version) {
        Some(newer) if newer > LINTS_MINOR => {
            println!("Rust 1.{newer} is newer than 1.{LINTS_MINOR}: its lints warn and fail nothing.");
        }
        _ => arguments.extend(["--", "-D", "warnings"]),
    }
    cargo(&arguments)
}

/// The 90 of `cargo 1.90.0 (…)`.
fn minor_of(version: &str) -> Option<u32> {
    version.strip_prefix("cargo 1.")?.split('.').next()?.parse().ok()
}

/// What the arguments choose; nothing chosen is everything.
#[derive(Debug, PartialEq, Eq)]
struct Chosen<'a> {
    only: Vec<&'a str>,
    databases: Vec<Database>,
}

fn chosen<'a>(args: &[&'a str]) -> Result<Chosen<'a>, String> {
    let mut chosen = Chosen { only: Vec::new(), databases: Vec::new() };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, value),
            None => (*word, words.next().copied().unwrap_or_default()),
        };
        let refused =
            |allowed: &[&str]| format!("{option} takes one of {}, not `{value}`", allowed.join(", "));
        match option {
            "--only" if STEPS.contains(&value) => chosen.only.push(value),
            "--only" => return Err(refused(&STEPS)),
            "--database" => {
                let names = databases::ALL.map(Database::name);
                chosen.databases.push(Database::named(value).ok_or_else(|| refused(&names))?);
            }
            _ => return Err(format!("unknown option: {word}")),
        }
    }
    if chosen.databases.is_empty() {
        chosen.databases = databases::ALL.to_vec();
    }
    Ok(chosen)
}

/// Only what the chosen steps use.
fn needs_of(chosen: &Chosen<'_>) -> Vec<&'static Need> {
    let wanted = |step: &str| chosen.only.is_empty() || chosen.only.contains(&step);
    let mut needs: Vec<&Need> = Vec::new();
    if wanted("fmt") {
        needs.push(&needs::RUSTFMT);
    }
    if wanted("clippy") {
        needs.push(&needs::CLIPPY);
    }
    if wanted("tidy") {
        needs.extend(needs::TIDY);
    }
    if wanted("unit") {
        needs.extend(chosen.databases.iter().flat_map(|database| database.needs()));
    }
    if wanted("outside") {
        needs.extend(needs::OUTSIDE);
    }
    needs
}

/// All test programs and binaries, once for all databases and for the outside tests.
fn build(report: &mut Report, wanted: bool) -> Option<Programs> {
    let mut programs = None;
    if wanted {
        report.check("build", || {
            programs = Some(Programs::build()?);
            Ok(true)
        });
    }
    programs
}

/// Stock clients, a real browser, the debug binary.
fn outside(report: &mut Report, programs: &Programs) {
    let Some(binary) = programs.binary("sarsen") else {
        report.check("outside", || Err("the binary `sarsen` was not built".into()));
        return;
    };
    report.step("sdk", sdk);
    let examples = ["counters", "exam_attempts"].map(|name| programs.binary(name));
    let [Some(counters), Some(exams)] = examples else {
        report.check("outside", || Err("an example was not built".into()));
        return;
    };
    report.step("outside: node", || node(binary, counters, exams));
    report.step("outside: python", || {
        let python = places::python();
        let mut command = places::at_root(&python.to_string_lossy(), &["-m", "pytest", "python"]);
        command.current_dir(places::outside_tests()).env("SARSEN_BIN", binary);
        command.env("COUNTERS_BIN", counters);
        let outcome = process::run(&mut command, STEP_LIMIT)?;
        Ok(of_pytest(&outcome.stdout).with_status(outcome.success))
    });
}

fn node(binary: &Path, counters: &Path, exams: &Path) -> Result<Counts, String> {
    let mut command = needs::node(&["--test", "--test-concurrency=1", "--test-reporter=spec"])?;
    let tests = node_tests(&places::outside_tests().join("node"));
    command
        .args(tests)
        .current_dir(places::outside_tests())
        .env("SARSEN_BIN", binary)
        .env("COUNTERS_BIN", counters)
        .env("EXAM_ATTEMPTS_BIN", exams);
    let outcome = process::run(&mut command, STEP_LIMIT)?;
    Ok(of_node(&outcome.stdout).with_status(outcome.success))
}

/// The tests of the TypeScript client that need no server of ours.
fn sdk() -> Result<Counts, String> {
    let mut command = needs::node(&["--test", "--test-reporter=spec"])?;
    command.args(node_tests(&places::sdk().join("test"))).current_dir(places::sdk());
    let outcome = process::run(&mut command, STEP_LIMIT)?;
    Ok(of_node(&outcome.stdout).with_status(outcome.success))
}

/// By name, because what `node --test` makes of a folder differs between its versions.
fn node_tests(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_test = |path: &PathBuf| path.to_string_lossy().ends_with(".test.mjs");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_test).collect();
    files.sort();
    files
}

fn cargo(args: &[&str]) -> Result<bool, String> {
    Ok(process::run(&mut places::cargo(args), STEP_LIMIT)?.success)
}

fn cargo_test(args: &[&str]) -> Result<Counts, String> {
    let mut command = places::cargo(&["test", "--no-fail-fast"]);
    let outcome = process::run(command.args(args), STEP_LIMIT)?;
    Ok(of_cargo(&outcome.stdout).with_status(outcome.success))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_steps_in_either_spelling() {
        let both = Chosen { only: vec!["fmt", "tidy"], databases: vec![Database::MariaDb] };
        assert_eq!(chosen(&["--only", "fmt", "--database=mariadb", "--only=tidy"]), Ok(both));
        assert!(
            chosen(&["--database", "oracle"]).is_err_and(|text| text.contains("sqlite, postgres, mariadb"))
        );
        assert!(chosen(&["--only"]).is_err());
        assert!(chosen(&["--only", "everything"]).is_err_and(|text| text.contains("fmt, clippy")));
        assert!(chosen(&["--fast"]).is_err());
    }

    #[test]
    fn the_version_of_rust_is_read() {
        assert_eq!(minor_of("cargo 1.99.1 (5f94df478 2026-08-27)"), Some(99));
        assert_eq!(minor_of("cargo 2.0.0"), None);
        assert_eq!(minor_of(""), None);
    }

    #[test]
    fn tests_on_a_file_need_no_server() {
        let needs = needs_of(&chosen(&["--only", "unit", "--database", "sqlite"]).expect("is chosen"));
        let of = |need: &'static Need| needs.iter().any(|known| std::ptr::eq(*known, need));
        assert!(of(&needs::STRACE));
        assert!(!of(&needs::POSTGRES) && !of(&needs::MARIADB) && !of(&needs::CHROMIUM));
    }
}
