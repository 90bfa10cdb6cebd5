//! Live queries while servers fail, judged by the checker of histories. Some seconds each; ten minutes with
//! `SARSEN_SOAK=1`, and as many seconds as a larger number says.

use crate::support::{Ended, Place};
use server::testing::{Kind, TestPlace};
use store::testing::own_server::OwnServer;
use store::testing::pooler::Pooler;
use store::testing::say_skipped;

/// Seconds of writing in a soak.
fn soak() -> Option<u64> {
    let value = std::env::vars().find_map(|(name, value)| (name == "SARSEN_SOAK").then_some(value))?;
    Some(value.parse().ok().filter(|seconds| *seconds > 1).unwrap_or(600))
}

/// Writes for `seconds`, or for as long as a soak. Writers pause so that other tests run beside.
fn history(place: &Place, seconds: u64, args: &[&str], faults: &[&str]) -> Ended {
    let seconds = soak().unwrap_or(seconds).to_string();
    let mut all = vec!["history", "--seconds", &seconds, "--pause", "20"];
    all.extend(args);
    all.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
    place.run(&all)
}

fn assert_clean(ended: &Ended) {
    assert_eq!(ended.code, 0, "{}", ended.seen());
    assert!(ended.stdout.contains("clients compared at rest"), "{}", ended.seen());
}

#[test]
fn soak_history_on_sqlite() {
    let faults = ["kill", "deploy", "freeze", "storm", "restore"];
    assert_clean(&history(&Place::new(), 12, &["--database", "sqlite:history.db"], &faults));
}

#[test]
fn soak_history_on_postgres_with_a_replica() {
    // Its own server: the test stops the replay of its replica.
    let Some(server) = OwnServer::start() else { return };
    let standby = server.standby();
    let (url, replica) = (server.url(), standby.url());
    let args = ["--database", &url, "--replica", &replica, "--instances", "2"];
    let mut faults =
        vec!["kill", "deploy", "freeze", "storm", "pause-replay", "hold-transaction", "kill-backends"];
    faults.extend(soak().map(|_| "restore"));
    assert_clean(&history(&Place::new(), 9, &args, &faults));
}

#[test]
fn soak_history_on_mariadb() {
    let Some(database) = TestPlace::on(Kind::Mysql) else { return };
    let url = database.url();
    let mut faults = vec!["kill", "deploy", "freeze", "storm", "hold-transaction", "kill-backends"];
    faults.extend(soak().map(|_| "restore"));
    assert_clean(&history(&Place::new(), 9, &["--database", &url, "--instances", "2"], &faults));
}

#[test]
#[ignore = "takes half a minute, and the other histories kill backends too: a soak runs it"]
fn soak_history_behind_a_pooler() {
    let Some(server) = OwnServer::start() else { return };
    let Some(pooler) = Pooler::start(&server) else {
        return say_skipped("a history behind a pooler: there is no pgbouncer");
    };
    let (url, direct) = (pooler.url(&server), server.url());
    let args = ["--database", &url, "--direct", &direct, "--instances", "2"];
    let faults = ["kill", "deploy", "freeze", "kill-backends", "kill-backends", "restore"];
    assert_clean(&history(&Place::new(), 13, &args, &faults));
}

/// The bugs that are planted, and what the checker says about them.
const PLANTS: [(&str, &[&str]); 7] = [
    ("publish-before-commit", &["the answer is of", AT_REST]),
    ("same-on-return", &["includes revision", " means [", AT_REST]),
    ("failed-run-is-unchanged", &[AT_REST]),
    ("any-base", &["for a client that holds"]),
    ("gap-after-run", &[AT_REST]),
    ("missing-key", &[AT_REST]),
    ("other-row", &[AT_REST]),
];
const AT_REST: &str = "all writers rest, but it holds";

/// Plants a bug and runs until it is found, or for a minute.
fn assert_found(plant: &str, args: &[&str], expected: &[&str]) {
    let mut all = vec!["history", "--seconds", "60", "--plant", plant];
    all.extend(args);
    let ended = Place::new().run(&all);
    assert_eq!(ended.code, 1, "{plant}: {}", ended.seen());
    assert!(expected.iter().any(|text| ended.stderr.contains(text)), "{plant}: {}", ended.seen());
}

#[test]
#[ignore = "each bug shows after a few seconds to a minute: a soak runs it"]
fn soak_planted_bugs_are_found() {
    for (plant, expected) in PLANTS {
        let failing = if plant == "failed-run-is-unchanged" { "5" } else { "50" };
        assert_found(plant, &["--database", "sqlite:history.db", "--failing", failing], expected);
    }
}

#[test]
#[ignore = "the bug shows after a few seconds to a minute: a soak runs it"]
fn soak_a_planted_order_by_sequence_is_found() {
    let Some(database) = TestPlace::on(Kind::Mysql) else { return };
    // Clients that move between instances would have the queries run again.
    let args = ["--database", &database.url(), "--instances", "2", "--watchers", "2", "--readers", "0"];
    assert_found("order-by-sequence", &args, &[AT_REST]);
}
