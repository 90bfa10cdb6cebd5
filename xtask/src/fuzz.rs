//! `cargo xtask fuzz`: the parsers of foreign bytes under random bytes, for a bounded time each.
//!
//! The targets are a workspace of their own (`fuzz/`), because they want the nightly compiler. What a target finds it
//! leaves in `fuzz/artifacts`, and prints how to run it again.

use std::fs;
use std::time::Duration;

use crate::report::Report;
use crate::{places, process};

const SECONDS: u64 = 60;
/// The first build takes minutes.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

pub fn run(args: &[&str]) -> Result<Report, String> {
    let (seconds, wanted) = chosen(args)?;
    let targets: Vec<String> =
        targets()?.into_iter().filter(|name| wanted.is_none_or(|one| one == name)).collect();
    if targets.is_empty() {
        return Err(format!("fuzz takes one of these: {}", self::targets()?.join(", ")));
    }
    let mut report = Report::default();
    if !process::quietly(&mut nightly(&["--version"])) {
        report.check("nightly", || Err("please run this once: rustup toolchain install nightly".into()));
        return Ok(report);
    }
    if !process::quietly(&mut nightly(&["fuzz", "--version"])) {
        let mut install = places::cargo(&["install", "cargo-fuzz", "--locked"]);
        report.check("install cargo-fuzz", || Ok(process::run(&mut install, BUILD_LIMIT)?.success));
    }
    report.check("build", || Ok(process::run(&mut nightly(&["fuzz", "build"]), BUILD_LIMIT)?.success));
    for target in targets {
        let limit = format!("-max_total_time={seconds}");
        let mut command = nightly(&["fuzz", "run", &target, "--", &limit]);
        let patience = BUILD_LIMIT + Duration::from_secs(seconds);
        report.check(&target, || Ok(process::run(&mut command, patience)?.success));
    }
    Ok(report)
}

/// How long each may take, and the one that is wanted.
fn chosen<'a>(args: &[&'a str]) -> Result<(u64, Option<&'a str>), String> {
    let (mut seconds, mut wanted) = (SECONDS, None);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if *word == "--seconds" {
            let value = words.next().and_then(|value| value.parse().ok()).filter(|value| *value > 0);
            seconds = value.ok_or("--seconds takes a number of seconds")?;
        } else if word.starts_with('-') || wanted.replace(*word).is_some() {
            return Err("fuzz takes one target at most, and --seconds".into());
        }
    }
    Ok((seconds, wanted))
}

fn targets() -> Result<Vec<String>, String> {
    let folder = places::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = |path: std::path::PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| name(entry.path())).collect();
    names.sort();
    Ok(names)
}

fn nightly(args: &[&str]) -> std::process::Command {
    let mut command = places::cargo(&["+nightly"]);
    command.args(args);
    command
}

#[test]
fn a_target_and_its_time_can_be_chosen() {
    assert_eq!(chosen(&[]), Ok((SECONDS, None)));
    assert_eq!(chosen(&["ids", "--seconds", "5"]), Ok((5, Some("ids"))));
    for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--fast"], &["ids", "names"]] {
        assert!(chosen(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn every_target_is_in_the_manifest() {
    let manifest = fs::read_to_string(places::root().join("fuzz/Cargo.toml")).expect("reads");
    let named: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""))
        .collect();
    assert_eq!(named, targets().expect("reads"));
}
