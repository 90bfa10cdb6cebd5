//! What the bench starts besides a demo.

use crate::support::{Demo, Place, Running};
use serde_json::Value;
use server::Store;
use server::testing::TestPlace;

#[test]
fn an_instance_takes_the_key_and_the_name_of_its_demo() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let issuer = demo.issuer().to_owned();
    // One process owns a file, so here they come one after the other.
    assert_eq!(demo.running.stop(), 0);
    let args = |key: &'static str| {
        ["bench-instance", "--database", "sqlite:demo/demo.db", "--key-file", key, "--issuer", &issuer]
    };
    let mut instance = Running::start(place.sarsen(&args("demo/demo.key")), place.path("instance.log"));
    let said: Value = serde_json::from_str(&instance.line()).expect("a line of JSON");
    let listen = said["listen"].as_str().expect("an address");
    let url = format!("{listen}/.well-known/openid-configuration");
    let answer = ureq::get(url).call().expect("an answer").into_body().read_to_string().expect("text");
    let discovery: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(discovery["issuer"], issuer.as_str());
    assert_eq!(instance.stop(), 0);

    let missing = place.run(&args("demo/other.key"));
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("demo/other.key: there is no such file"), "{}", missing.stderr);
}

#[test]
fn what_cannot_be_disturbed_is_said() {
    let place = Place::new();
    for (what, expected) in
        [("hold-transaction", "would stop every writer"), ("pause-replay", "only a standby")]
    {
        let ended = place.run(&["bench-disturb", what, "--database", "sqlite:x.db"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    let alone = place.run(&["bench", "sso", "--instances", "2"]);
    assert_eq!(alone.code, 2);
    assert!(alone.stderr.contains("one process owns a file"), "{}", alone.stderr);
}

#[test]
fn a_filled_installation_is_moved_and_served_where_it_is_then() {
    let (place, target) = (Place::new(), TestPlace::create());
    let url = target.url();
    let args = ["bench", "move", "--users", "300", "--to", &url, "--from", "filled", "--json", "out.json"];
    let ended = place.run(&args);
    assert_eq!(ended.code, 0, "{}", ended.seen());
    assert!(ended.stderr.contains("fill: filling 100 %  300 of 300 users"), "{}", ended.stderr);
    assert!(ended.stderr.contains("move: comparing 100 %"), "{}", ended.stderr);
    let report = report(&place);
    // Half of them have subscribed; with each comes an entry of the audit trail.
    assert_eq!((&report["filled_rows"], &report["users"]), (&(300 * 7).into(), &300.into()));
    assert_is_whole(&report);

    let again = place.run(&args);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""), "it is not filled again: {}", again.seen());
    assert!(again.stderr.contains("move: the target is not empty: its table settings has rows"), "{again:?}");
}

#[test]
fn a_mover_that_is_killed_goes_on() {
    let (place, target) = (Place::new(), TestPlace::create());
    let url = target.url();
    // Half of the rows come before the table that it cannot write to. A file nobody can share to hold it.
    Store::open(server::store_options(&url)).expect("tables").close();
    let Some(held) = target.hold("sessions") else { return };
    let args = ["bench", "move", "--users", "300", "--kill", "--to", &url, "--json", "out.json"];
    let mut bench = Running::start(place.sarsen(&args), place.path("log"));
    bench.wait_for("the same command again");
    drop(held);
    let log = place.path("log");
    let (code, shown) = bench.finish();
    assert_eq!(code, 0, "{shown}{}", std::fs::read_to_string(log).expect("a log"));
    let report = report(&place);
    assert!(report["killed"]["at"].as_str().is_some_and(|at| at.starts_with("copying ")), "{report}");
    assert_is_whole(&report);
}

fn report(place: &Place) -> Value {
    let text = std::fs::read(place.path("out.json")).expect("a report");
    serde_json::from_slice(&text).expect("JSON")
}

/// Everything arrived, and somebody has signed in there.
fn assert_is_whole(report: &Value) {
    assert_eq!(report["broken"], Value::Array(Vec::new()), "{report}");
    assert_eq!(report["served"]["email"], "person-298@fill.test", "{report}");
    let tables = report["tables"].as_array().expect("tables");
    let users = tables.iter().find(|table| table["table"] == "users").expect("users");
    assert_eq!(users["rows"], 304, "with those of the demo: {report}");
}
