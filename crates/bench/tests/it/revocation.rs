//! Several instances: how they are started, loaded and disturbed, and how the staleness is measured.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::{Command, Error};
use clap::Parser;
use serde_json::{Value, json};

use crate::fake_server::{self, PASSWORD, World};
use crate::shell_script;

const DATABASE: &str = "postgres://db.test/bench";

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Two instances of one world, and a shell script in place of the programs.
struct TestBed {
    folder: tempfile::TempDir,
    ready: Value,
    world: Arc<Mutex<World>>,
}

impl TestBed {
    fn new(lag: Duration) -> TestBed {
        let world = World::new();
        world.lock().unwrap().lag = lag;
        let (first, other) = (fake_server::start(&world), fake_server::start_other(&world));
        let ready = json!({
            "issuer": format!("http://localhost:{}", first.port()),
            "owner": { "email": "owner@sarsen.test", "password": PASSWORD },
            "listen": format!("http://{other}"),
        });
        TestBed { folder: tempfile::tempdir().unwrap(), ready, world }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `line`; `disturb` is the script of `inject-fault`.
    fn run(&self, line: &str, disturb: &str) -> Result<(), Error> {
        let (asked, ready) = (self.path("asked"), &self.ready);
        let script = format!(
            "echo \"$0 $*\" >> '{asked}'; case $0 in inject-fault) {disturb};; esac; echo '{ready}'; exec sleep 600",
            asked = asked.display()
        );
        let launcher = shell_script(script);
        let json = self.path("out.json").display().to_string();
        let words = ["bench"].into_iter().chain(line.split_whitespace()).chain(["--json", &json]);
        let parsed = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        bench::run(parsed.command, launcher)
    }

    /// A script that stays until SIGTERM, and writes `over` then.
    fn disturbing(&self) -> String {
        let asked = self.path("asked");
        format!(
            "trap \"echo over >> '{}'; exit 0\" TERM; echo '{{\"injected\":true}}'; while :; do sleep 0.02; done",
            asked.display()
        )
    }

    fn asked(&self) -> String {
        std::fs::read_to_string(self.path("asked")).unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("out.json")).unwrap()).unwrap()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn users_are_spread_over_all_instances() {
    let test_bed = TestBed::new(Duration::ZERO);
    let line = format!(
        "sso --instances 2 --database {DATABASE} --users 4 --tenants 1 --accounts 4 --duration 500ms --warmup 100ms"
    );
    test_bed.run(&line, "").unwrap();
    let run = &test_bed.json()["runs"][0];
    assert_eq!(run["failures"], json!([]));
    assert!(test_bed.world.lock().unwrap().other_asked > 20);
    let asked = test_bed.asked();
    let started: Vec<&str> = asked.lines().collect();
    assert_eq!(started.len(), 2, "{asked}");
    assert!(started[0].starts_with("demo --json ") && started[0].ends_with(DATABASE), "{asked}");
    let issuer = test_bed.ready["issuer"].as_str().unwrap();
    assert!(started[1].starts_with(&format!("instance --database {DATABASE} --key-file ")), "{asked}");
    assert!(started[1].ends_with(&format!("/demo/demo.key --issuer {issuer}")), "{asked}");
    if cfg!(target_os = "linux") {
        let servers = run["servers"].as_array().unwrap();
        let resident = |of: &Value| number(&of["memory"]["resident_bytes"]);
        assert_eq!(servers.len(), 2);
        assert!(servers[0]["cores_used"].is_number() && servers[0]["pid"] != servers[1]["pid"]);
        let sum: u64 = servers.iter().map(resident).sum();
        assert_eq!(number(&run["server_memory"]["resident_bytes"]), sum);
    }
}

#[test]
fn each_kind_of_change_is_polled_until_it_is_in_force() {
    let test_bed = TestBed::new(Duration::from_millis(100));
    let line = format!(
        "revocation --database {DATABASE} --rate 50 --users 4 --tenants 1 --accounts 4 --probers 10 --probe-rate 40 --duration 2s \
         --warmup 100ms --long-transaction"
    );
    test_bed.run(&line, &test_bed.disturbing()).unwrap();
    let report = test_bed.json();
    let changes = report["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 5);
    for row in changes.iter().chain([&report["total"]]) {
        assert!(number(&row["count"]) > 0 && number(&row["never"]) == 0, "{row}");
        // Even after a late acknowledgement, some of the lag is left.
        assert!(number(&row["in_force_after"]["max_us"]) > 20_000, "{row}");
        assert!(number(&row["questions"]) > number(&row["count"]), "{row}");
        let (from, to) = (&row["accepted_until"]["max_us"], &row["in_force_after"]["max_us"]);
        assert!(number(from) > 0 && number(from) < number(to), "{row}");
    }
    assert_eq!(report["broken"], json!([]));
    assert_eq!(report["load"]["failures"], json!([]));
    assert_eq!((number(&report["instances"]), number(&report["bound_p99_ms"])), (2, 250));
    assert_eq!(report["ceiling"], Value::Null);
    let asked = test_bed.asked();
    assert!(asked.contains(&format!("inject-fault hold-transaction --database {DATABASE}\n")), "{asked}");
    assert!(asked.ends_with("over\n"), "{asked}");
}

#[test]
fn a_change_that_never_takes_effect_fails_the_run() {
    let test_bed = TestBed::new(Duration::from_secs(3600));
    let line = format!(
        "revocation --database {DATABASE} --rate 20 --users 2 --tenants 1 --accounts 2 --probers 1 --probe-rate 5 --duration 400ms \
         --warmup 1s"
    );
    let error = test_bed.run(&line, "").unwrap_err();
    assert!(matches!(error, Error::Broken(_)), "{error}");
    assert_eq!(error.to_string(), "1 of 1 changes were not in force after 5 s");
    let report = test_bed.json();
    assert_eq!((number(&report["total"]["never"]), &report["bound_held"]), (1, &json!(false)));
    assert_eq!(number(&report["missed"]), 1, "the one that was due meanwhile");
}

#[test]
fn the_load_is_a_share_of_what_is_measured_first() {
    let test_bed = TestBed::new(Duration::ZERO);
    let line = format!(
        "revocation --database {DATABASE} --load 0.1 --users 4 --tenants 1 --accounts 4 --probers 1 --probe-rate 20 --duration 500ms \
         --warmup 100ms"
    );
    test_bed.run(&line, "").unwrap();
    let report = test_bed.json();
    let reached = report["ceiling"]["operations_per_second"].as_f64().unwrap();
    let rate = report["rate_per_second"].as_f64().unwrap();
    assert!((rate - reached * 0.1).abs() < 1e-6, "{rate} of {reached}");
    assert!(report["rate_from"].as_str().unwrap().starts_with("0.1 of "), "{}", report["rate_from"]);
}

#[test]
fn a_fault_that_ends_early_is_an_error_and_the_others_end() {
    let line = format!(
        "revocation --database {DATABASE} --rate 20 --users 2 --tenants 1 --accounts 2 --probers 1 --probe-rate 20 --duration 300ms \
         --warmup 100ms --long-transaction"
    );
    let test_bed = TestBed::new(Duration::ZERO);
    let fickle = "echo '{\"injected\":true}'; echo 'the server ended it' >&2; exit 1";
    let error = test_bed.run(&line, fickle).unwrap_err().to_string();
    assert!(error.starts_with("hold-transaction: ") && error.contains("the server ended it"), "{error}");

    let test_bed = TestBed::new(Duration::ZERO);
    let line = format!("{line} --lagging-replica postgres://standby.test/bench");
    let second = format!(
        "case $1 in pause-replay) echo 'is no standby' >&2; exit 1;; esac; {}",
        test_bed.disturbing()
    );
    let error = test_bed.run(&line, &second).unwrap_err().to_string();
    assert!(error.contains("is no standby"), "{error}");
    assert!(
        test_bed.asked().ends_with("--database postgres://standby.test/bench\nover\n"),
        "{}",
        test_bed.asked()
    );
}

#[test]
fn wrong_flags_are_refused_before_anything_is_started() {
    let test_bed = TestBed::new(Duration::ZERO);
    let running = "--url http://127.0.0.1:1 --admin-email a@b.test";
    for (line, expected) in [
        ("sso --instances 2".to_owned(), "one process owns a SQLite file"),
        ("sso --instances 2 --database sqlite:x.db".to_owned(), "one process owns a SQLite file"),
        ("revocation".to_owned(), "need a database server"),
        (format!("revocation --database {DATABASE} --instances 1"), "--instances 2 or more"),
        (format!("revocation {running}"), "use --url for each of them"),
        (format!("revocation {running} --url http://127.0.0.1:2 --long-transaction"), "needs --database"),
        (
            format!("revocation --database {DATABASE} --lagging-replica mysql://x/y"),
            "a standby of PostgreSQL",
        ),
    ] {
        let error = test_bed.run(&line, "").unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{line}: {error}");
        assert!(error.to_string().contains(expected), "{line}: {error}");
    }
    assert_eq!(test_bed.asked(), "");
    for wrong in [
        format!("revocation {running} --instances 2"),
        "revocation --rate 5 --load 0.5".to_owned(),
        "revocation --load 0".to_owned(),
        "revocation --probers 0".to_owned(),
        "sso --instances 0".to_owned(),
        format!("sso {running} --instances 2"),
    ] {
        let words = ["bench"].into_iter().chain(wrong.split_whitespace());
        assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
    }
}
