//! `sarsen` carries neither the load generator nor a tool that can damage an installation: they are programs beside it.

use crate::support::{Place, Running};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const LOAD_GENERATOR: &str = env!("CARGO_BIN_EXE_sarsen-bench");
const MISSING: &str =
    "sarsen: this needs sarsen-bench-tools; build it with `cargo build --release -p sarsen-bench-tools`\n";

#[test]
fn the_tools_are_no_commands_of_sarsen() {
    let place = Place::new();
    for name in
        ["bench-fill", "bench-disturb", "bench-instance", "bench-floor-server", "fill", "inject-fault"]
    {
        let ended = place.run(&[name]);
        assert_eq!(ended.code, 2, "{name}");
        assert!(ended.stderr.contains(&format!("unrecognized subcommand '{name}'")), "{}", ended.stderr);
    }
}

#[test]
fn a_server_ignores_the_variables_of_tests() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    // Ten minutes a commit, were it obeyed: the server would not come up.
    let slow = |command: &mut Command| {
        command.env("SARSEN_TEST_COMMIT_DELAY_MS", "600000").env("SARSEN_TEST_BATCH_MAX", "none");
    };
    let mut print = place.sarsen(&["serve", "--print-config"]);
    slow(&mut print);
    let printed = print.output().expect("it runs");
    assert_eq!(printed.status.code(), Some(0));
    let plain = place.run(&["serve", "--print-config"]).stdout;
    assert_eq!(String::from_utf8_lossy(&printed.stdout), plain);

    let mut serve = place.sarsen(&["serve", "--listen", "127.0.0.1:0"]);
    slow(&mut serve);
    let mut server = Running::start(serve, place.path("log"));
    server.wait_for("listening");
    assert_eq!(server.stop(), 0);
}

#[test]
fn bench_uses_the_tools_beside_it_and_names_them_when_they_are_missing() {
    let place = Place::new();
    let program = beside(&place, crate::PROGRAM, "sarsen");
    beside(&place, LOAD_GENERATOR, "sarsen-bench");
    let bench = |words: &[&str]| {
        let plain = place.sarsen(words);
        let mut command = Command::new(&program);
        command.args(plain.get_args()).current_dir(place.root()).env_clear();
        command.output().expect("it runs")
    };
    for words in [&["bench", "floor"][..], &["bench", "overload"], &["bench", "move", "--to", "sqlite:x.db"]]
    {
        let ended = bench(words);
        assert_eq!((ended.status.code(), &*String::from_utf8_lossy(&ended.stderr)), (Some(1), MISSING));
    }

    script(&place.path("sarsen-bench-tools"), "echo \"$*\" > asked; echo 'not today' >&2; exit 1");
    let ended = bench(&["bench", "floor"]);
    assert_eq!(ended.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(stderr.contains("not today"), "{stderr}");
    let asked = std::fs::read_to_string(place.path("asked")).expect("it was started");
    assert_eq!(asked, "floor --listen 127.0.0.1:0\n");
}

#[test]
fn without_the_load_generator_bench_says_which_file_is_missing() {
    let place = Place::new();
    let program = beside(&place, crate::PROGRAM, "sarsen");
    let ended = Command::new(&program).args(["bench", "--help"]).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    let missing = place.path("sarsen-bench").display().to_string();
    assert!(stderr.contains(&missing) && stderr.contains("cargo build --release"), "{stderr}");
}

#[test]
fn the_help_of_bench_is_that_of_the_load_generator() {
    let place = Place::new();
    for words in [&["bench", "--help"][..], &["bench", "sso", "--help"]] {
        let ended = place.run(words);
        let usage = format!("Usage: sarsen {}", words[..words.len() - 1].join(" "));
        assert!(ended.code == 0 && ended.stdout.contains(&usage), "{}", ended.stdout);
    }
    let wrong = place.run(&["bench", "sso", "--users", "many"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("--users"), "{}", wrong.stderr);
}

#[test]
fn several_instances_need_a_database_server() {
    let place = Place::new();
    let alone = place.run(&["bench", "sso", "--instances", "2"]);
    assert_eq!(alone.code, 2);
    assert!(alone.stderr.contains("one process owns a SQLite file"), "{}", alone.stderr);
}

/// Puts a program into a folder.
fn beside(place: &Place, program: &str, name: &str) -> PathBuf {
    let path = place.path(name);
    if std::fs::hard_link(program, &path).is_err() {
        std::fs::copy(program, &path).expect("a copy");
    }
    path
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn the_mix_of_accounts_is_accepted_by_a_real_server() {
    let place = Place::new();
    let program = beside(&place, crate::PROGRAM, "sarsen");
    beside(&place, LOAD_GENERATOR, "sarsen-bench");
    let flags = "bench auth --rate 150 --hash-share 0.1 --users 8 --accounts 2 --duration 1s --warmup 0 --data-dir . --json out.json";
    let mut command = Command::new(&program);
    command.args(flags.split(' ')).current_dir(place.root()).env_clear();
    let ended = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    let json = std::fs::read(place.path("out.json")).expect("it was written");
    let report: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
    let run = &report["levels"][0];
    assert_eq!(run["failures"], serde_json::json!([]));
    let accepted = |name: &str| {
        let kinds = run["kinds"].as_array().into_iter().flatten();
        kinds.filter(|kind| kind["request"] == name).filter_map(|kind| kind["accepted"].as_u64()).sum::<u64>()
    };
    for name in ["POST /o/{slug}/login", "GET /api/organizations/{org}/audit", "POST /api/organizations"] {
        assert!(accepted(name) > 0, "{name}: {run}");
    }
    let hashed = run["by_hashing"]["hashing"]["accepted"].as_u64();
    assert_eq!(hashed, Some(accepted("POST /o/{slug}/login") + accepted("POST /o/{slug}/signup")));
}
