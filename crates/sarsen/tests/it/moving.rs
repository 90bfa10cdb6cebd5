//! `sarsen move` as a program: what it says when it is run again.

use crate::support::{Demo, Place};

#[test]
fn a_finished_move_that_is_run_again_says_that_it_is_finished() {
    let place = Place::new();
    assert_eq!(Demo::start(&place).running.stop(), 0);
    let moving = ["move", "--from", "sqlite:demo/demo.db", "--to", "sqlite:target.db"];
    let moved = place.run(&moving);
    assert!(moved.code == 0 && moved.stdout.contains("Moved "), "{}", moved.seen());
    let again = place.run(&moving);
    assert!(again.code == 0 && again.stdout.contains("This move was finished before"), "{}", again.seen());
    let json = place.json(&moving);
    assert!(json["finished_before"] == true && json["rows"].as_u64() > Some(0), "{json}");

    // Another installation is not the end of this move.
    let elsewhere = Place::new();
    assert_eq!(Demo::start(&elsewhere).running.stop(), 0);
    let other = format!("sqlite:{}", elsewhere.path("demo/demo.db").display());
    let refused = place.run(&["move", "--from", &*other, "--to", "sqlite:target.db"]);
    assert!(refused.code == 2 && refused.stderr.contains("the target is not empty"), "{}", refused.seen());
}
