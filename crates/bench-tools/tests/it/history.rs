//! Live queries while servers fail, judged by the checker of histories. A quarter of a minute each; ten minutes with
//! `SARSEN_SOAK`.

use crate::support::{Ended, Place};
use server::testing::{Kind, TestPlace};
use store::testing::own_server::OwnServer;

/// Seconds of writing.
fn seconds(short: u64) -> String {
    let long = std::env::vars().any(|(name, _)| name == "SARSEN_SOAK");
    if long { "600".to_owned() } else { short.to_string() }
}

fn history(place: &Place, database: &str, args: &[&str]) -> Ended {
    let mut all = vec!["history", "--database", database];
    all.extend(args);
    place.run(&all)
}

fn assert_clean(ended: &Ended) {
    assert_eq!(ended.code, 0, "{}", ended.seen());
    assert!(ended.stdout.contains("clients compared at rest"), "{}", ended.seen());
}

#[test]
fn soak_history_on_sqlite() {
    let place = Place::new();
    let seconds = seconds(13);
    let args = ["--seconds", &seconds, "--fault", "kill", "--fault", "deploy", "--fault", "freeze"];
    let with_restore = [&args[..], &["--fault", "restore"]].concat();
    assert_clean(&history(&place, "sqlite:history.db", &with_restore));
}

#[test]
#[ignore = "versions go back on return to another instance while a replica is paused"]
fn soak_history_on_postgres_with_a_replica() {
    // Its own server: the test stops the replay of its replica.
    let Some(server) = OwnServer::start() else { return };
    let standby = server.standby();
    let (place, seconds, replica) = (Place::new(), seconds(13), standby.url());
    let faults = ["kill", "deploy", "freeze", "pause-replay", "hold-transaction"];
    let mut args = vec!["--seconds", &seconds, "--instances", "2", "--replica", &replica];
    args.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
    assert_clean(&history(&place, &server.url(), &args));
}

#[test]
fn soak_history_on_mariadb() {
    let Some(database) = TestPlace::on(Kind::Mysql) else { return };
    let (place, seconds) = (Place::new(), seconds(13));
    let faults = ["kill", "deploy", "freeze", "hold-transaction"];
    let mut args = vec!["--seconds", &seconds, "--instances", "2"];
    args.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
    assert_clean(&history(&place, &database.url(), &args));
}

#[test]
#[ignore = "whether a planted bug shows within seconds depends on the machine: a soak runs it"]
fn soak_planted_bugs_are_found() {
    let rest = "all writers rest, but it holds";
    let plants = [("missing-key", rest), ("other-row", rest)];
    std::thread::scope(|scope| {
        for (plant, expected) in plants {
            scope.spawn(move || {
                let place = Place::new();
                let args = ["--seconds", "3", "--failing", "5", "--plant", plant];
                let ended = history(&place, "sqlite:history.db", &args);
                assert_eq!(ended.code, 1, "{plant}: {}", ended.seen());
                assert!(ended.stderr.contains(expected), "{plant}: {}", ended.seen());
            });
        }
    });
}
