//! `move`, with a shell script in place of its programs. The tests of `bench-tools` use the real ones.

use std::path::PathBuf;

use bench::{Command, Error};
use clap::Parser;
use serde_json::{Value, json};

use crate::shell_script;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// An installation with 4 users, and 300 more from `fill`.
struct TestBed(tempfile::TempDir);

impl TestBed {
    fn new() -> TestBed {
        TestBed(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `bench move` with these `flags`; `mover` is the script of `sarsen move`, except for the rehearsal.
    fn run(&self, flags: &str, mover: &str) -> Result<(), Error> {
        let demo = json!({
            "issuer": "http://localhost:1", "owner": { "email": "owner@sarsen.test", "password": "x" },
            "organization": { "slug": "acme", "admin": { "email": "admin@acme.test", "password": "x" } },
            "clients": { "cli": { "client_id": "client_1" } },
        });
        let filled = json!({
            "email": "person-298@fill.test", "password": "x", "plan": "pro", "seconds": 0.5,
            "rows": { "users": 300 },
        });
        let script = format!(
            "echo \"$0 $*\" >> '{asked}'
             case $0 in
               demo) mkdir -p \"$3\"; touch \"$3/demo.db\"; echo '{demo}'; exec sleep 600;;
               fill) echo 'filling 100 %' >&2; echo '{filled}';;
               instance) echo 'no server here' >&2; exit 1;;
               move) case $1 in --rehearse) {rehearsed};; *) {mover};; esac;;
             esac",
            asked = self.path("asked").display(),
            rehearsed = self.says(4),
        );
        let launcher = shell_script(script);
        let json = self.path("out.json").display().to_string();
        let words = ["bench", "move", "--to", "postgres://db.test/bench", "--json", &json];
        let words = words.into_iter().chain(flags.split_whitespace());
        bench::run(Cli::try_parse_from(words).unwrap().command, launcher)
    }

    /// The script of a mover that reports this many users.
    fn says(&self, users: u64) -> String {
        let line = json!({ "rows": users, "tables": [{ "table": "users", "rows": users, "hash": "5a" }] });
        format!("echo '{line}'")
    }

    /// The first argument of each program.
    fn asked(&self) -> Vec<String> {
        let asked = std::fs::read_to_string(self.path("asked")).unwrap_or_default();
        asked.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("out.json")).unwrap()).unwrap()
    }
}

#[test]
fn a_mover_is_killed_after_a_third_and_run_again() {
    let test_bed = TestBed::new();
    let mover = format!(
        "if [ -e '{killed}' ]; then {}; else touch '{killed}'; echo 'copying  29 %  88 of 304 rows' >&2
         echo 'copying  31 %  95 of 304 rows  7 rows/s' >&2; exec sleep 600; fi",
        test_bed.says(304),
        killed = test_bed.path("killed").display(),
    );
    let error = test_bed.run("--users 300 --kill", &mover).unwrap_err();
    assert!(matches!(error, Error::Broken(_)), "{error}");
    assert!(error.to_string().starts_with("the server on the target: "), "and nothing else: {error}");
    assert_eq!(test_bed.asked(), ["demo", "move", "fill", "move", "move", "instance"]);
    let report = test_bed.json();
    assert_eq!(report["killed"]["at"], "copying  31 %  95 of 304 rows  7 rows/s");
    assert_eq!(
        (&report["users"], &report["rows"], &report["filled_rows"]),
        (&json!(300), &json!(304), &json!(300))
    );
    let seconds = |value: &Value| value.as_f64().unwrap();
    let (before, after) = (&report["killed"]["after_s"], &report["killed"]["went_on_for_s"]);
    assert!((seconds(before) + seconds(after) - seconds(&report["move_s"])).abs() < 0.001, "{report}");
}

#[test]
fn missing_rows_are_an_error() {
    let test_bed = TestBed::new();
    let error = test_bed.run("--users 300", &test_bed.says(303)).unwrap_err().to_string();
    assert!(error.starts_with("table users has 303 rows on the target and 304 in the source; "), "{error}");
    assert!(test_bed.json()["broken"].as_array().is_some_and(|broken| broken.len() == 2));
}

#[test]
fn a_mover_that_shows_no_progress_cannot_be_killed() {
    let test_bed = TestBed::new();
    let error = test_bed.run("--users 300 --kill", &test_bed.says(304)).unwrap_err();
    assert!(matches!(error, Error::Broken(_)) && error.to_string().contains("was not killed"), "{error}");
}

#[test]
fn an_error_of_the_mover_is_passed_on() {
    let test_bed = TestBed::new();
    let error = test_bed.run("--users 300", "echo 'sarsen: the disk is full' >&2; exit 1").unwrap_err();
    assert_eq!(error.to_string(), "move: the disk is full");
    let error = test_bed.run("--users 300", "exit 7").unwrap_err().to_string();
    assert!(error.starts_with("move: ") && error.contains('7'), "{error}");
}

#[test]
fn a_filled_folder_is_kept_for_another_run() {
    let test_bed = TestBed::new();
    let kept = test_bed.path("kept");
    let flags = format!("--from {}", kept.display());
    test_bed.run(&format!("{flags} --users 300"), &test_bed.says(304)).unwrap_err();
    test_bed.run(&flags, &test_bed.says(304)).unwrap_err();
    assert_eq!(test_bed.asked()[4..], ["instance", "move", "instance"], "it is not filled again");
    assert_eq!(test_bed.json()["users"], 300);

    let other = test_bed.run(&format!("{flags} --users 7"), "exit 1").unwrap_err();
    assert!(matches!(other, Error::Usage(_)) && other.to_string().contains("has 300 users"), "{other}");
    std::fs::remove_file(kept.join("bench-move.json")).unwrap();
    let half = test_bed.run(&flags, "exit 1").unwrap_err();
    assert!(matches!(half, Error::Usage(_)) && half.to_string().contains("completely filled"), "{half}");
}
