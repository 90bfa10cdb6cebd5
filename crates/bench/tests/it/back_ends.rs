//! `writes`, `attempts` and `live` as whole commands, with servers inside this test in place of the back ends.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bench::{Command, Error};
use clap::Parser;
use serde_json::{Value, json};

use crate::fake_counters::{self, Counters};
use crate::http_server::{Answer, serve};
use crate::shell_script;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Runs `line` with a script that says that it listens at `address`. Returns the result, the JSON that the command wrote and
/// the arguments of the script.
fn run(line: &str, address: SocketAddr) -> (Result<(), Error>, Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let (json, asked) = (folder.path().join("out.json"), folder.path().join("asked"));
    let script = format!(
        "echo \"$0 $*\" >> '{}'; case \"$0\" in seed) exit 0;; esac; echo opening; echo 'listening on http://{address}'; \
         exec sleep 600",
        asked.display()
    );
    let line = format!("bench {line} --program /bin/sh --json {}", json.display());
    let command = Cli::try_parse_from(line.split_whitespace())
        .unwrap_or_else(|error| panic!("{line}: {error}"))
        .command;
    let result = bench::run(command, shell_script(script));
    let report = std::fs::read(json).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
    (result, report, std::fs::read_to_string(asked).unwrap_or_default())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn writes_have_no_body_and_no_content_type() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let address = serve(move |asked| {
        let mut heads = seen.lock().unwrap();
        if heads.len() < 100 && asked.path != "/metrics" {
            heads.push((asked.head.clone(), asked.body.clone()));
        }
        Answer::json(201, json!({ "uid": "0190" }))
    });
    let (result, report, asked) = run("writes --connections 1,16 --duration 200ms --warmup 50ms", address);
    result.unwrap();
    assert!(
        asked.starts_with("--listen 127.0.0.1:0 --database sqlite:")
            && asked.trim_end().ends_with("request_log.db")
    );
    for (head, body) in heads.lock().unwrap().iter() {
        assert!(head.starts_with("POST /requests HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("Content-Length: 0") && !head.contains("Content-Type"), "{head}");
        assert_eq!(body, "");
    }
    let levels = report["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|level| number(&level["users"])).collect::<Vec<_>>(), [1.0, 16.0]);
    assert!(number(&levels[0]["total"]["latency"]["mean_us"]) > 0.0);
    assert!(number(&report["peak_per_second"]) > 50.0);
    let bars: Vec<&str> =
        report["bars"].as_array().unwrap().iter().map(|bar| bar["what"].as_str().unwrap()).collect();
    assert!(
        bars[0].starts_with("no failure")
            && bars[1].starts_with("16 to 512")
            && bars[2].starts_with("p99.99")
    );
    assert_eq!(
        (bars.len(), report["fsync"].as_array().unwrap().len()),
        (3, 2),
        "1,024 connections were not measured"
    );
}

#[test]
fn a_write_without_a_uid_is_a_failure() {
    let address = serve(|_| Answer::json(201, json!({})));
    let (result, report, _) = run("writes --connections 2 --duration 200ms --warmup 0", address);
    result.unwrap();
    assert_eq!(report["levels"][0]["failures"][0]["cause"], "bad body: no uid");
    assert_eq!(report["bars"][0]["held"], false);
}

fn exam_attempts(answers: Arc<AtomicUsize>) -> SocketAddr {
    let stored = Mutex::new(json!({}));
    serve(move |asked| match (asked.method.as_str(), asked.path.strip_prefix("/attempts/")) {
        ("PATCH", Some(id)) if (1..=500).contains(&id.parse::<u32>().unwrap_or(0)) => {
            let body: Value = serde_json::from_str(&asked.body).unwrap_or_default();
            if asked.header("Content-Type") != Some("application/json") || !body["answers"]["4"].is_array() {
                return Answer::json(400, json!({ "code": "invalid_body" }));
            }
            answers.fetch_add(1, Ordering::Relaxed);
            *stored.lock().unwrap() = body["answers"].clone();
            Answer::json(200, json!({ "id": 1 }))
        }
        ("GET", Some("1")) => Answer::json(200, json!({ "id": 1, "answers": *stored.lock().unwrap() })),
        _ => Answer::json(404, json!({ "code": "not_found" })),
    })
}

#[test]
fn attempts_arrive_by_schedule() {
    let answers = Arc::new(AtomicUsize::new(0));
    let line =
        "attempts --rates 200,400 --ceiling --connections 8 --attempts 500 --duration 500ms --warmup 100ms";
    // The search for the ceiling ends where this server or this machine does.
    let limit = Arc::new(AtomicUsize::new(0));
    let (inner, asked_so_far) = (exam_attempts(answers.clone()), limit.clone());
    let address = serve(move |asked| match asked_so_far.fetch_add(1, Ordering::Relaxed) {
        count if count > 900 && asked.method == "PATCH" && count % 2 == 0 => {
            Answer::json(500, json!({ "code": "full" }))
        }
        _ => crate::commands::forward(asked, inner),
    });
    let (result, report, asked) = run(line, address);
    let lines: Vec<&str> = asked.lines().collect();
    assert!(lines[0].starts_with("seed --database sqlite:") && lines[1].starts_with("--listen"), "{asked}");
    let runs = report["rates"]["runs"].as_array().map_or(0, Vec::len);
    // The search begins at the last of the rates if that was held, which a busy machine may not do.
    let is_searched = report["rates"]["held_per_second"] == 400.0;
    match result {
        Ok(()) => assert!(runs >= if is_searched { 3 } else { 2 }, "{report}"),
        // The last answer of all may be one of the failed ones.
        Err(error) => assert!(error.to_string().contains("PATCH /attempts/1"), "{error}"),
    }
    assert!(answers.load(Ordering::Relaxed) > 100);
}

#[test]
fn attempts_beside_the_baseline() {
    let answers = Arc::new(AtomicUsize::new(0));
    let address = exam_attempts(answers.clone());
    let baseline = exam_attempts(Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("attempts_actix");
    let asked = folder.path().join("baseline-asked");
    let script = format!(
        "#!/bin/sh\necho \"$*\" > '{}'\necho '{{\"listen\":\"http://{baseline}\"}}'\nexec sleep 600\n",
        asked.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!(
        "attempts --attempts 500 --connections 4 --duration 200ms --warmup 50ms --rounds 3 --unlogged \
         --baseline-database postgres://x@127.0.0.1/b --baseline {}",
        program.display()
    );
    let (result, report, _) = run(&line, address);
    result.unwrap();
    let rounds = &report["rounds"];
    assert_eq!(
        (rounds["runs"].as_array().unwrap().len(), rounds["ratios"].as_array().unwrap().len()),
        (6, 3)
    );
    assert_eq!(
        (&rounds["runs"][0]["arrivals"], &rounds["runs"][0]["failures"]),
        (&json!("closed"), &json!([]))
    );
    assert_eq!(rounds["runs"][1]["server"], "baseline");
    assert!(number(&rounds["median_ratio"]) > 0.0);
    let asked = std::fs::read_to_string(asked).unwrap();
    assert_eq!(asked, "--listen 127.0.0.1:0 --database postgres://x@127.0.0.1/b --attempts 500 --unlogged\n");
}

#[test]
fn a_missing_baseline_is_named() {
    let address = serve(|_| Answer::new(200, "", ""));
    let error = run("attempts --baseline /does/not/exist", address).0.unwrap_err().to_string();
    assert!(error.starts_with("/does/not/exist is missing; build it with"), "{error}");
}

fn missing_program(folder: &Path) -> String {
    let command = Cli::try_parse_from(["bench", "writes"]).unwrap().command;
    bench::run(command, bench::Launcher::new(folder.join("sarsen"))).unwrap_err().to_string()
}

#[test]
fn a_missing_back_end_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = missing_program(folder.path());
    assert!(
        error.contains("request_log is missing; build it with `cargo build --release -p request_log`"),
        "{error}"
    );
}

const LIVE: &str =
    "live --counters 4 --users 12 --step 6 --connections 18 --interval 20ms --duration 700ms --warmup 200ms";

#[test]
fn live_counts_what_arrives_and_checks_the_end_state() {
    let counters = Counters::new();
    let (result, report, _) = run(LIVE, fake_counters::start(&counters));
    result.unwrap();
    let levels = report["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|level| number(&level["users"])).collect::<Vec<_>>(), [12.0, 18.0]);
    for level in levels {
        assert_eq!((&level["run"]["failures"], &level["stream_failures"]), (&json!([]), &json!({})));
        assert_eq!(number(&level["error_percent"]), 0.0);
        assert!(number(&level["frames"]) > 20.0 && number(&level["write_to_frame_count"]) > 20.0, "{level}");
        assert!(number(&level["write_to_frame"]["p50_us"]) > 0.0 && number(&level["bytes_per_frame"]) > 50.0);
    }
    let state = &report["end_state"];
    assert_eq!(
        (number(&state["watchers"]), number(&state["behind"]), number(&state["lost"])),
        (18.0, 0.0, 0.0)
    );
    assert!(state["settled_ms"].is_u64());
    assert_eq!(
        (&report["users_without_error"], &report["ended"]),
        (&json!(18), &json!("all users were there"))
    );
    let counters = counters.lock().unwrap();
    assert_eq!(counters.users, 19, "18 and the one who creates the counters");
    let calls = (counters.increments + counters.gets + counters.lists) as f64;
    let share = counters.increments as f64 / calls;
    assert!((share - 0.3).abs() < 0.12, "{share}");
}

#[test]
fn writers_without_a_pause_while_users_only_watch() {
    let counters = Counters::new();
    let line = "live --counters 3 --users 6 --connections 6 --writers 2 --duration 500ms --warmup 100ms";
    let (result, report, _) = run(line, fake_counters::start(&counters));
    result.unwrap();
    let level = &report["levels"][0];
    assert_eq!((number(&level["users"]), number(&level["run"]["users"])), (6.0, 2.0));
    let kinds = level["run"]["kinds"].as_array().unwrap();
    assert_eq!((kinds.len(), &kinds[0]["request"]), (1, &json!("increment")));
    // Each counter has two watchers.
    let arrivals = number(&level["frames_per_second"]) / number(&level["increments_per_second"]);
    assert!((1.5..=2.5).contains(&arrivals), "{arrivals}");
}

#[test]
fn a_dead_live_path_fails_the_run() {
    let counters = Counters::new();
    counters.lock().unwrap().dead = true;
    let line = "live --counters 2 --users 4 --connections 4 --interval 10ms --duration 400ms --warmup 100ms --settle 200ms";
    let (result, report, _) = run(line, fake_counters::start(&counters));
    assert_eq!(result.unwrap_err().to_string(), "the live path is dead: no event arrived");
    assert_eq!(number(&report["end_state"]["behind"]), 4.0);
}

#[test]
fn a_lost_increment_fails_the_run() {
    let counters = Counters::new();
    counters.lock().unwrap().lose_every = Some(7);
    let line = "live --counters 2 --users 4 --connections 4 --interval 10ms --duration 400ms --warmup 100ms --settle 200ms";
    let (result, report, _) = run(line, fake_counters::start(&counters));
    let error = result.unwrap_err().to_string();
    assert!(error.contains("increments are lost"), "{error}");
    assert!(number(&report["end_state"]["lost"]) > 0.0);
}

#[test]
fn a_stream_that_ends_is_a_failure_and_is_opened_again() {
    let counters = Counters::new();
    counters.lock().unwrap().end_streams_after = Some(20);
    let line = "live --counters 2 --users 4 --connections 4 --interval 10ms --duration 1500ms --warmup 100ms";
    let (result, report, _) = run(line, fake_counters::start(&counters));
    result.unwrap();
    let level = &report["levels"][0];
    assert_eq!(level["stream_failures"]["stream: closed without an answer"], 4, "{level}");
    assert!(number(&level["error_percent"]) > 0.0);
    assert_eq!(number(&report["end_state"]["behind"]), 0.0);
}

#[test]
fn impossible_flags_are_refused() {
    for wrong in [
        "writes --connections 0",
        "writes --connections 1,x",
        "attempts --rates 0",
        "attempts --rates 10 --baseline",
        "attempts --unlogged",
        "live --writers 2 --interval 1s",
        "live --replica postgres://x/y",
        "live --postgres --database postgres://x/y",
        "live --url http://localhost:1 --postgres",
    ] {
        let words = std::iter::once("bench").chain(wrong.split_whitespace());
        assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
    }
    let address = serve(|_| Answer::new(200, "", ""));
    let error = run("live --instances 2", address).0.unwrap_err().to_string();
    assert!(error.starts_with("2 instances need a database server"), "{error}");
}

#[test]
fn capacity_is_told_in_users() {
    let served = AtomicUsize::new(0);
    // After the second level or later, requests fail.
    let address = serve(move |_| match served.fetch_add(1, Ordering::Relaxed) {
        count if count > 30_000 => Answer::json(503, json!({ "code": "overloaded" })),
        _ => Answer::json(201, json!({ "uid": "0190" })),
    });
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("request_log");
    std::fs::write(&program, format!("#!/bin/sh\necho 'listening on http://{address}'\nexec sleep 600\n"))
        .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let json = folder.path().join("out.json");
    let line = format!(
        "bench capacity --only writes --bound 20s --duration 100ms --warmup 10ms --requests-per-user 0.5 --online-share 0.2 \
         --daily-share 0.5 --price 30 --programs {} --json {}",
        folder.path().display(),
        json.display()
    );
    let command = Cli::try_parse_from(line.split_whitespace()).unwrap().command;
    bench::run(command, bench::Launcher::new(folder.path().join("sarsen"))).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let climb = &report["climbs"][0];
    assert_eq!(climb["workload"], "W3 durable writes");
    let best = climb["best"].as_u64().unwrap() as usize;
    let rate = number(&climb["levels"][best]["total"]["accepted_per_second"]);
    assert!(
        climb["levels"].as_array().unwrap().len() > best + 1,
        "the last level did not hold or had no gain"
    );
    let users = &report["in_users"][0];
    for (field, expected) in [
        ("concurrent", rate * 2.0),
        ("daily", rate * 10.0),
        ("monthly", rate * 20.0),
        ("price_per_1000_users", 1_500.0 / rate),
    ] {
        let found = number(&users[field]);
        assert!((found - expected).abs() < expected * 1e-6, "{field}: {found}, not {expected}");
    }
}
