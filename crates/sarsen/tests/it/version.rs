//! `sarsen version`: which program this is.

use crate::support::Place;
use std::process::Command;

/// As coreutils counts it.
fn sum_of(file: &str) -> String {
    let output = Command::new("sha256sum").arg(file).output().expect("sha256sum runs");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().next().expect("a sum").to_owned()
}

#[test]
fn a_program_names_itself_by_version_target_and_sum() {
    let place = Place::new();
    let shown = place.json(&["version"]);
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["sha256"], sum_of(crate::PROGRAM));
    let target = shown["target"].as_str().expect("a target");
    assert!(target.starts_with(std::env::consts::ARCH) && target.contains("linux"), "{target}");
    let text = place.run(&["version"]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(text.stdout.contains(&format!("\nsha256   {}\n", sum_of(crate::PROGRAM))), "{}", text.stdout);
    assert_eq!(
        place.run(&["--version"]).stdout,
        format!("sarsen {}\n", env!("CARGO_PKG_VERSION")),
        "the short form is one line"
    );
}

#[test]
fn a_program_whose_file_was_replaced_meanwhile_names_the_one_that_runs() {
    let place = Place::new();
    let copy = place.path("sarsen");
    std::fs::copy(crate::PROGRAM, &copy).expect("a copy");
    let script = "exec 3<\"$1\"; rm \"$1\"; cp /bin/sh \"$1\"; exec /proc/self/fd/3 version --json";
    let output = Command::new("sh").args(["-c", script, "sh"]).arg(&copy).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let shown: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(shown["sha256"], sum_of(crate::PROGRAM));
}
