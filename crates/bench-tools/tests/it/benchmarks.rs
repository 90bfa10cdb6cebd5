//! Benchmarks that need the tools, run as a user runs them.

use crate::support::{Place, Running};
use serde_json::Value;
use server::Store;
use server::testing::TestPlace;

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
    // Half of them have subscribed; with each comes an entry of the audit trail. Names have two or three words, and each
    // word begins a search term, as the address does.
    assert_eq!((&report["filled_rows"], &report["users"]), (&(300 * 7 + 1_050).into(), &300.into()));
    assert_is_whole(&report);

    let again = place.run(&args);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""), "it is not filled again: {}", again.seen());
    let refused = "move: the move into this target is finished, and one of the two databases was used since";
    assert!(again.stderr.contains(refused), "{again:?}");
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

#[test]
fn many_tokens_are_made_and_accepted() {
    let place = Place::new();
    let args = [
        "bench",
        "sso",
        "--tokens",
        "40",
        "--walk",
        "--walk-from",
        "20",
        "--skew",
        "zipf",
        "--users",
        "4",
        "--duration",
        "200ms",
        "--cache-memory",
        "16",
        "--json",
        "out.json",
    ];
    let ended = place.run(&args);
    assert_eq!(ended.code, 0, "{}", ended.seen());
    let report = report(&place);
    let levels = report["levels"].as_array().expect("levels");
    let tokens: Vec<u64> = levels.iter().filter_map(|level| level["tokens"].as_u64()).collect();
    assert_eq!(tokens, [20, 40], "{report}");
    for level in levels {
        assert_eq!(level["not_accepted"], 0, "{report}");
        assert!(level["cpu_us"].as_f64().is_some_and(|cost| cost > 0.0), "{report}");
    }
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
