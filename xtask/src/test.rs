//! `cargo xtask test`: format, lints, tidy rules, tests, and what a stranger's tools see.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::counts::{Counts, of_cargo, of_node, of_pytest};
use crate::mariadb::MariaDb;
use crate::postgres::Postgres;
use crate::report::Report;
use crate::{deny, needs, places, process};

/// Names for `--only`, in the order in which they run.
const STEPS: [&str; 5] = ["fmt", "clippy", "tidy", "unit", "outside"];

/// No step may hang for ever; the slowest (a cold build) takes a third of this.
const STEP_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Names for `--database`: what the domain's and the server's tests run on.
const DATABASES: [&str; 3] = ["sqlite", "postgres", "mariadb"];

pub fn run(args: &[&str]) -> Result<Report, String> {
    let Chosen { only, databases } = chosen(args)?;
    let wanted = |step: &str| only.is_empty() || only.contains(&step);
    let mut report = Report::default();

    if wanted("fmt") {
        report.check("rustfmt is installed", || needs::rust_component("fmt", "rustfmt"));
        report.check("fmt", || cargo(&["fmt", "--all", "--check"]));
    }
    if wanted("clippy") {
        report.check("clippy is installed", || needs::rust_component("clippy", "clippy"));
        let lint = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        report.check("clippy", || cargo(&lint));
    }
    if wanted("tidy") {
        report.step("tidy", || cargo_test(&["-p", "xtask"], &[]));
        if only.is_empty() && deny::installed() {
            report.check("deny", deny::offline);
        }
    }
    if wanted("unit") {
        unit(&mut report, &databases);
    }
    if wanted("outside") {
        outside(&mut report);
    }
    Ok(report)
}

/// What the arguments choose; nothing chosen is everything.
#[derive(Debug, PartialEq, Eq)]
struct Chosen<'a> {
    only: Vec<&'a str>,
    databases: Vec<&'a str>,
}

fn chosen<'a>(args: &[&'a str]) -> Result<Chosen<'a>, String> {
    let mut chosen = Chosen { only: Vec::new(), databases: Vec::new() };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, value),
            None => (*word, words.next().copied().unwrap_or_default()),
        };
        let (list, allowed) = match option {
            "--only" => (&mut chosen.only, STEPS.as_slice()),
            "--database" => (&mut chosen.databases, DATABASES.as_slice()),
            _ => return Err(format!("unknown option: {word}")),
        };
        if !allowed.contains(&value) {
            return Err(format!("{option} takes one of {}, not `{value}`", allowed.join(", ")));
        }
        list.push(value);
    }
    Ok(chosen)
}

/// All tests of the workspace but the tidy rules, with servers of their own. The store's tests choose their databases
/// themselves; those of the domain and the HTTP face, and what the binary must survive, run on one after the other.
fn unit(report: &mut Report, databases: &[&str]) {
    let wanted = |database: &str| databases.is_empty() || databases.contains(&database);
    report.check("what the unit tests need", || {
        needs::packages(&[needs::POSTGRES, needs::MARIADB, needs::PGBOUNCER, needs::OPENSSL, needs::STRACE])
    });
    let (cluster, server) = (start_postgres(report), start_mariadb(report));
    let standby = start_standby(report, cluster.as_ref());
    let cluster_url = cluster.iter().map(|cluster| ("SARSEN_TEST_POSTGRES", cluster.url()));
    let standby_url = standby.iter().map(|standby| ("SARSEN_TEST_POSTGRES_REPLICA", standby.url()));
    let server_url = server.iter().map(|server| ("SARSEN_TEST_MYSQL", server.url()));
    let variables: Vec<_> = cluster_url.chain(standby_url).chain(server_url).collect();
    if wanted("sqlite") {
        report.step("unit", || cargo_test(&["--workspace", "--exclude", "xtask"], &variables));
    } else {
        report.step("unit of the store", || cargo_test(&["-p", "store"], &variables));
    }
    for database in ["postgres", "mariadb"].into_iter().filter(|database| wanted(database)) {
        let mut variables = variables.clone();
        variables.push(("SARSEN_TEST_DATABASE", database));
        report.step(&format!("unit on {database}"), || {
            cargo_test(&["-p", "identity", "-p", "server"], &variables)
        });
        // Named in this way, they are the programs that the first step has built.
        let survival = ["--workspace", "--exclude", "xtask", "--test", "it", "survival::"];
        report.step(&format!("survival on {database}"), || cargo_test(&survival, &variables));
    }
}

/// A cluster for the tests, unless the environment names one already.
pub fn start_postgres(report: &mut Report) -> Option<Postgres> {
    if std::env::var_os("SARSEN_TEST_POSTGRES").is_some() {
        return None;
    }
    let mut cluster = None;
    report.check("postgres starts", || {
        cluster = Some(Postgres::start()?);
        Ok(true)
    });
    cluster
}

/// A replica of the tests' cluster: where there is one, servers under test read lists from it.
fn start_standby(report: &mut Report, cluster: Option<&Postgres>) -> Option<Postgres> {
    let mut standby = None;
    report.check("its standby starts", || {
        standby = cluster.map(Postgres::start_standby).transpose()?;
        Ok(true)
    });
    standby
}

/// A MariaDB server for the tests, unless the environment names one already.
pub fn start_mariadb(report: &mut Report) -> Option<MariaDb> {
    if std::env::var_os("SARSEN_TEST_MYSQL").is_some() {
        return None;
    }
    let mut server = None;
    report.check("mariadb starts", || {
        server = Some(MariaDb::start()?);
        Ok(true)
    });
    server
}

/// Stock clients, a real browser, the debug binary.
fn outside(report: &mut Report) {
    let programs = [needs::CHROMIUM, needs::NODE, needs::VENV];
    report.check("what the outside tests need", || {
        Ok(needs::packages(&programs)? && needs::node_packages()? && needs::python_packages()?)
    });
    report.check("build", || cargo(&["build", "-p", "sarsen"]));
    let binary = places::target().join("debug/sarsen");
    if !binary.is_file() {
        report.check("outside", || Err(format!("{} was not built", binary.display())));
        return;
    }
    report.step("outside: node", || {
        let args = ["--test", "--test-concurrency=1", "--test-reporter=spec"];
        let mut command = places::at_root("node", &args);
        command.args(node_tests()).current_dir(places::outside_tests()).env("SARSEN_BIN", &binary);
        let outcome = process::run(&mut command, STEP_LIMIT)?;
        Ok(of_node(&outcome.stdout).with_status(outcome.success))
    });
    report.step("outside: python", || {
        let python = places::python();
        let mut command = places::at_root(&python.to_string_lossy(), &["-m", "pytest", "python"]);
        command.current_dir(places::outside_tests()).env("SARSEN_BIN", &binary);
        let outcome = process::run(&mut command, STEP_LIMIT)?;
        Ok(of_pytest(&outcome.stdout).with_status(outcome.success))
    });
}

/// By name, because what `node --test` makes of a folder differs between its versions.
fn node_tests() -> Vec<PathBuf> {
    let entries = fs::read_dir(places::outside_tests().join("node")).into_iter().flatten().flatten();
    let is_test = |path: &PathBuf| path.to_string_lossy().ends_with(".test.mjs");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_test).collect();
    files.sort();
    files
}

fn cargo(args: &[&str]) -> Result<bool, String> {
    Ok(process::run(&mut places::cargo(args), STEP_LIMIT)?.success)
}

fn cargo_test(args: &[&str], variables: &[(&str, &str)]) -> Result<Counts, String> {
    let mut command = places::cargo(&["test", "--no-fail-fast"]);
    command.args(args).envs(variables.iter().copied());
    let outcome = process::run(&mut command, STEP_LIMIT)?;
    Ok(of_cargo(&outcome.stdout).with_status(outcome.success))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_steps_in_either_spelling() {
        let both = Chosen { only: vec!["fmt", "tidy"], databases: vec!["mariadb"] };
        assert_eq!(chosen(&["--only", "fmt", "--database=mariadb", "--only=tidy"]), Ok(both));
        assert!(
            chosen(&["--database", "oracle"]).is_err_and(|text| text.contains("sqlite, postgres, mariadb"))
        );
        assert!(chosen(&["--only"]).is_err());
        assert!(chosen(&["--only", "everything"]).is_err_and(|text| text.contains("fmt, clippy")));
        assert!(chosen(&["--fast"]).is_err());
    }
}
