//! Whole commands, with a shell script in place of the programs. It prints the address of a server inside this test.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bench::{Command, Launcher};
use clap::{CommandFactory as _, Parser};
use serde_json::{Value, json};

use crate::fake_server::{self, PASSWORD, World};
use crate::http_server::{Answer, serve};
use crate::shell_script;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn command(line: &str) -> Command {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).command
}

/// A script that prints `ready` and stays. It writes its arguments to the file `asked`.
fn shell(ready: &Value, asked: &Path) -> Launcher {
    let script =
        format!("echo \"$0 $*\" >> '{}'; echo starting; echo '{ready}'; exec sleep 600", asked.display());
    shell_script(script)
}

fn demo_line(address: SocketAddr) -> Value {
    json!({
        "issuer": format!("http://localhost:{}", address.port()),
        "owner": { "email": "owner@sarsen.test", "password": PASSWORD },
    })
}

/// Runs `line` (with `JSON` and `DIR` replaced) on `world`, and returns the JSON that it wrote.
fn run_on(world: &Arc<Mutex<World>>, line: &str) -> Value {
    let address = fake_server::start(world);
    let folder = tempfile::tempdir().unwrap();
    let (json, asked) = (folder.path().join("out.json"), folder.path().join("asked"));
    let line = line
        .replace("JSON", json.to_str().unwrap())
        .replace("DIR", folder.path().to_str().unwrap())
        .replace("URL", &format!("http://{address}"));
    bench::run(command(&line), shell(&demo_line(address), &asked)).unwrap_or_else(|error| panic!("{error}"));
    if !line.contains("--url") {
        let asked = std::fs::read_to_string(asked).unwrap();
        assert!(asked.starts_with("demo --json --data "), "{asked}");
        assert!(asked.trim_end().ends_with("--listen 127.0.0.1:0"), "{asked}");
    }
    serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap()
}

fn kind<'r>(run: &'r Value, request: &str) -> &'r Value {
    let kinds = run["kinds"].as_array().unwrap();
    kinds.iter().find(|kind| kind["request"] == request).unwrap_or_else(|| panic!("{request} in {kinds:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
    for wrong in [
        "sso --url http://localhost:1",
        "sso --think 1s --open-loop 10",
        "sso --ceiling --open-loop 10",
        "sso --approve-share 1.5",
        "sso --users 0",
        "floor --duration 5",
    ] {
        let words = std::iter::once("bench").chain(wrong.split_whitespace());
        assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
    }
}

#[test]
fn floor() {
    let address = serve(|_| Answer::new(200, "", "ok"));
    let folder = tempfile::tempdir().unwrap();
    let (json, asked) = (folder.path().join("out.json"), folder.path().join("asked"));
    let line = format!("floor --users 4 --duration 300ms --warmup 100ms --json {}", json.display());
    let ready = json!({ "listen": format!("http://{address}") });
    bench::run(command(&line), shell(&ready, &asked)).unwrap();
    assert_eq!(std::fs::read_to_string(asked).unwrap(), "floor --listen 127.0.0.1:0\n");
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert!(number(&report["total"]["accepted"]) > 50.0);
    assert_eq!(report["failures"], json!([]));
    assert!(report["fsync"]["p50_us"].is_number());
    if cfg!(target_os = "linux") {
        assert!(number(&report["server_memory"]["resident_bytes"]) > 0.0);
        assert!(report["server_cpu_us_per_request"].is_number());
        assert!(report["steal_percent"].is_number());
        assert!(report["generator"]["ran_share"].is_number());
    }
}

#[test]
fn sso_sets_up_through_the_api_and_checks_every_answer() {
    let world = World::new();
    world.lock().unwrap().not_now = 3;
    let line = "sso --users 12 --tenants 3 --accounts 24 --duration 1500ms --warmup 300ms --data-dir DIR \
                --approve-share 0.5 --json JSON";
    let report = run_on(&world, line);
    let run = &report["runs"][0];
    assert_eq!((&run["failures"], &run["warm_up_failures"]), (&json!([]), &json!([])));
    let count = |request| number(&kind(run, request)["count"]);
    let (subscription, user, code) =
        (count("GET /api/subscription"), count("GET /api/user"), count("POST /auth/device/code"));
    let operations = subscription + user + code;
    assert!(operations > 100.0, "{operations}");
    for (share, expected) in [(subscription, 0.7), (code, 0.2), (user, 0.1)] {
        assert!((share / operations - expected).abs() < 0.12, "{share} of {operations}, not {expected}");
    }
    // One flow of each of the 12 users may cross the edge of the window.
    assert!((code - count("POST /auth/token (pending)")).abs() <= 12.0);
    let redeemed = count("POST /auth/token (redeem)");
    assert!(redeemed > 0.0 && redeemed < code);
    assert!((count("POST approval") - redeemed).abs() <= 12.0);
    let metric = &run["store_metrics"][0];
    assert_eq!(metric["name"], "sarsen_store_commands_total");
    assert!(number(&metric["after"]) > number(&metric["before"]));

    let world = world.lock().unwrap();
    assert_eq!((world.organizations(), world.users()), (3, 24));
    assert!(world.redeemed as f64 >= redeemed + 25.0, "each account and the owner redeemed one in set-up");
    assert!(world.addresses.len() >= 25, "an address for each account");
}

#[test]
fn tokens_are_refreshed_outside_the_mix() {
    let world = World::new();
    world.lock().unwrap().token_life_s = 2;
    let line =
        "sso --users 4 --tenants 1 --accounts 4 --duration 3s --warmup 100ms --open-loop 50 --json JSON";
    let report = run_on(&world, line);
    let run = &report["runs"][0];
    assert_eq!(run["failures"], json!([]));
    assert_eq!(run["arrivals"], "open");
    let refreshes = kind(run, "POST /auth/token (refresh)");
    assert_eq!(refreshes["measured"], false);
    assert!(number(&refreshes["accepted"]) >= 4.0);
    let counted: f64 = run["kinds"].as_array().unwrap().iter().map(|kind| number(&kind["count"])).sum();
    assert_eq!(number(&run["total"]["count"]), counted - number(&refreshes["count"]));
    // The token of the administrator was refreshed too, to cover the new organization.
    assert!(world.lock().unwrap().refreshed as f64 > number(&refreshes["accepted"]));
}

#[test]
fn a_plan_that_is_not_the_accounts_is_found() {
    let world = World::new();
    let address = fake_server::start(&world);
    // A proxy between the bench and the server answers with another plan.
    let generous = serve(move |asked| {
        if asked.path == "/api/subscription" {
            return Answer::json(200, json!({ "plan": "pro" }));
        }
        forward(asked, address)
    });
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let line = format!(
        "sso --users 4 --tenants 1 --accounts 4 --duration 500ms --warmup 100ms --json {}",
        json.display()
    );
    bench::run(command(&line), shell(&demo_line(generous), &folder.path().join("asked"))).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let failures = report["runs"][0]["failures"].as_array().unwrap().clone();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0]["cause"], "bad body: plan is not the account's");
    assert!(
        number(&kind(&report["runs"][0], "GET /api/subscription")["accepted"]) > 0.0,
        "half of them have pro"
    );
}

pub fn forward(asked: &crate::http_server::Asked, address: SocketAddr) -> Answer {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("{}\r\n\r\n{}", asked.head, asked.body);
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    Answer::Raw(answer)
}

#[test]
fn running_servers_are_measured_under_their_own_name() {
    let world = World::new();
    let line = "sso --users 4 --tenants 2 --accounts 4 --duration 500ms --warmup 100ms --think 20ms --url URL \
                --url URL --admin-email owner@sarsen.test --admin-password WORD --json JSON";
    // The password has spaces, so it cannot be in the line.
    let address = fake_server::start(&world);
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let line = line.replace("URL", &format!("http://{address}")).replace("JSON", json.to_str().unwrap());
    let words = std::iter::once("bench")
        .chain(line.split_whitespace())
        .map(|word| if word == "WORD" { PASSWORD } else { word });
    let command = Cli::try_parse_from(words).map(|cli| cli.command).unwrap();
    bench::run(command, Launcher::new("/does/not/exist")).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let run = &report["runs"][0];
    assert_eq!(run["failures"], json!([]));
    assert_eq!(run["server_memory"], Value::Null, "the bench did not start this process");
}

#[test]
fn the_ceiling_ends_and_names_a_level() {
    let world = World::new();
    let line =
        "sso --ceiling --users 40 --tenants 1 --accounts 8 --duration 300ms --warmup 100ms --json JSON";
    let report = run_on(&world, line);
    let ceiling = &report["ceilings"][0];
    let levels = ceiling["levels"].as_array().unwrap();
    let users: Vec<u64> = levels.iter().map(|level| level["users"].as_u64().unwrap()).collect();
    assert_eq!(users, [16, 32, 40]);
    assert!(ceiling["best"].is_u64());
}

#[test]
fn overload_tells_refusals_from_failures() {
    let world = World::new();
    world.lock().unwrap().refuse_every = Some(3);
    let line = "overload --users 64 --accounts 4 --batch-max 2 --inject-commit-delay 5ms --factor 0.5 \
                --duration 1s --warmup 200ms --json JSON";
    let report = run_on(&world, line);
    let overload = &report["overload"];
    assert_eq!(overload["failures"], json!([]));
    assert!(number(&overload["total"]["refused"]) > 0.0);
    assert_eq!(overload["refusals"][0]["cause"], "503 temporarily_unavailable");
    assert!(overload["total"]["refused_latency"]["p99_us"].is_number());
    assert_eq!((&report["timeouts"], &report["commit_delay_ms"]), (&json!(0), &json!(5)));
    assert!(number(&report["capacity_per_second"]) > 0.0);
    if cfg!(target_os = "linux") {
        assert!(number(&report["resident_bytes"]["peak"]) > 0.0);
    }
}

#[test]
fn the_baseline_runs_in_the_same_way() {
    let baseline = serve(|asked| match asked.path.as_str() {
        "/api/subscription" => Answer::json(200, json!({ "plan": "whatever" })),
        "/api/user" => Answer::json(200, json!({ "id": "1" })),
        // It reads JSON only, like the naive server.
        "/auth/device/code" => match serde_json::from_str::<Value>(&asked.body) {
            Ok(body) if body["org"] == "acme" && body["service"] == "web" => {
                Answer::json(200, json!({ "device_code": "d", "user_code": "U" }))
            }
            _ => Answer::json(415, json!({})),
        },
        _ => match serde_json::from_str::<Value>(&asked.body) {
            Ok(body) if body["device_code"] == "d" => {
                Answer::json(400, json!({ "error": "authorization_pending" }))
            }
            _ => Answer::json(415, json!({})),
        },
    });
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("naive");
    let ready = json!({ "listen": format!("http://{baseline}"), "tokens": ["a", "b"], "client_id": "c",
                        "org": "acme", "service": "web" });
    std::fs::write(&program, format!("#!/bin/sh\necho '{ready}'\nexec sleep 600\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let world = World::new();
    let line = format!(
        "sso --users 4 --tenants 1 --accounts 4 --duration 400ms --warmup 100ms --json JSON --baseline {}",
        program.display()
    );
    let report = run_on(&world, &line);
    let runs = report["runs"].as_array().unwrap();
    assert_eq!((&runs[0]["server"], &runs[1]["server"]), (&json!("sarsen"), &json!("baseline")));
    assert_eq!(runs[1]["failures"], json!([]));
    assert!(number(&runs[1]["total"]["accepted"]) > 0.0);
}

#[test]
fn cost_is_a_ratio_to_the_floor() {
    if !cfg!(target_os = "linux") || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let world = World::new();
    let mut ready = demo_line(fake_server::start(&world));
    ready["listen"] = json!(format!("http://{}", serve(|_| Answer::new(200, "", "ok"))));
    // The program needs CPU time to have a cost.
    let script = format!("echo '{ready}'; while :; do :; done");
    let launcher = shell_script(script);
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let line = format!(
        "cost --users 4 --accounts 4 --rounds 1 --duration 400ms --warmup 100ms --json {}",
        json.display()
    );
    bench::run(command(&line), launcher).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let lines = report["lines"].as_array().unwrap();
    assert_eq!((lines.len(), report["runs"].as_array().unwrap().len()), (3, 3));
    assert_eq!((number(&lines[0]["ratio"]), &lines[0]["ratio_max"]), (1.0, &Value::Null));
    for (line, most) in [(&lines[1], 1.8), (&lines[2], 4.0)] {
        assert_eq!((number(&line["ratio_max"]), number(&line["not_accepted"])), (most, 0.0));
        let ratio = number(&line["cpu_us_per_request"]) / number(&lines[0]["cpu_us_per_request"]);
        assert!((number(&line["ratio"]) - ratio).abs() < 1e-6);
    }
}

#[test]
fn workloads_that_need_the_tools_name_the_missing_program() {
    let database = "--database postgres://db.test/bench";
    for line in [
        "floor".to_owned(),
        "cost".to_owned(),
        "overload".to_owned(),
        format!("sso --instances 2 {database}"),
        format!("revocation {database}"),
        "move --to postgres://db.test/bench".to_owned(),
    ] {
        let error = bench::run(command(&line), Launcher::new("/bin/false")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this needs sarsen-bench-tools; build it with `cargo build --release -p sarsen-bench-tools`",
            "{line}"
        );
    }
    let alone = bench::run(command("sso --accounts 1 --duration 100ms"), Launcher::new("/bin/false"));
    assert!(alone.unwrap_err().to_string().starts_with("sarsen did not start"), "one server needs no tools");
}

#[test]
fn the_log_of_a_server_that_does_not_start_is_shown() {
    let script = "echo 'address in use' >&2; exit 1";
    let launcher = shell_script(script);
    let error = bench::run(command("floor --duration 100ms"), launcher).unwrap_err().to_string();
    assert!(error.contains("floor did not start") && error.contains("address in use"), "{error}");
}

#[test]
fn a_server_that_dies_during_the_run_is_reported() {
    let address = serve(|_| Answer::new(200, "", "ok"));
    let script = format!("echo '{{\"listen\":\"http://{address}\"}}'; exec sleep 0.2");
    let launcher = shell_script(script);
    let error =
        bench::run(command("floor --duration 500ms --warmup 100ms"), launcher).unwrap_err().to_string();
    assert!(error.contains("ended during the run"), "{error}");
}
