//! The output of `--help` of every command.

use crate::support::Place;
use std::collections::HashSet;

#[test]
fn every_command_explains_itself() {
    let place = Place::new();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut all = Vec::new();
    while let Some(words) = waiting.pop() {
        let ended = place.run(&[words.as_slice(), &["--help".to_owned()]].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{words:?}");
        let commands = ended.stdout.split("Commands:\n").nth(1).unwrap_or_default();
        let names = commands
            .lines()
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_whitespace().next());
        let known = names.filter(|name| *name != "help");
        waiting.extend(known.map(|name| [words.as_slice(), &[name.to_owned()]].concat()));
        all.push((format!("sarsen {}", words.join(" ")), ended.stdout));
    }
    all.sort();
    assert!(all.len() > 50, "{}", all.len());
    // The help of the load generator is in its own crate.
    all.retain(|(name, _)| !name.starts_with("sarsen bench "));
    let mut seen = HashSet::new();
    let text =
        all.iter().map(|(name, help)| format!("=== {}\n{}", name.trim_end(), shortened(help, &mut seen)));
    insta::assert_snapshot!(text.collect::<Vec<_>>().join("\n"));
}

/// Shows a block of global options in full the first time only.
fn shortened(help: &str, seen: &mut HashSet<String>) -> String {
    const HEADING: &str = "Global options:\n";
    let Some((before, rest)) = help.split_once(HEADING) else { return help.to_owned() };
    let (block, after) = rest.split_once("\n\n").unwrap_or((rest, ""));
    let block = if seen.insert(block.trim_end().to_owned()) { block.trim_end() } else { "  (as above)" };
    format!("{before}{HEADING}{block}\n\n{after}").trim_end().to_owned() + "\n"
}

#[test]
fn wrong_usage_ends_with_2() {
    let place = Place::new();
    assert_eq!(place.run(&["frolic"]).code, 2);
    assert_eq!(place.run::<&str>(&[]).code, 2);
    assert_eq!(place.run(&["serve", "--colour", "red"]).code, 2);
}
