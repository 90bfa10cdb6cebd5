//! The checker checked: histories with one planted bug each, and clean ones.

mod simulation;

use super::check::check;
use super::record::{Event, History, Versions};
use proptest::prelude::*;
use simulation::{Bug, history};

const SEEDS: u64 = 12;

/// Complaints about histories with this bug. Some seeds make none: their last changes are not those that the bug spoils.
fn complaints(bug: Bug, versions: Versions) -> Vec<String> {
    let of_seed = |seed| check(&history(seed, 80, versions, Some(bug))).complaints;
    let found: Vec<String> =
        (0..SEEDS).map(of_seed).filter(|found| !found.is_empty()).map(|found| found.join("\n")).collect();
    let least = if matches!(bug, Bug::MissingKey) { SEEDS / 2 } else { SEEDS };
    assert!(
        found.len() as u64 >= least,
        "{bug:?}, versions {versions:?}: found in {} of {SEEDS}",
        found.len()
    );
    found
}

fn assert_found(bug: Bug, expected: &str) {
    for versions in [Versions::Exact, Versions::AtLeast, Versions::Ordered] {
        let found = complaints(bug, versions);
        assert!(found.iter().any(|text| text.contains(expected)), "{bug:?}: {}", found[0]);
    }
}

#[test]
fn a_change_that_is_published_before_its_commit_is_found() {
    assert_found(Bug::PublishBeforeCommit, "includes revision");
    // Without versions, the client still holds an old state when all writers rest.
    assert!(complaints(Bug::PublishBeforeCommit, Versions::None).join("").contains("all writers rest"));
}

#[test]
fn a_change_that_is_dropped_on_reconnect_is_found() {
    assert_found(Bug::DropOnReconnect, "includes revision");
}

#[test]
fn a_failed_run_that_counts_as_unchanged_is_found() {
    assert_found(Bug::UnchangedOnFailedRun, "all writers rest, but it holds");
}

#[test]
fn a_commit_that_comes_late_in_a_sequence_is_found() {
    assert_found(Bug::OrderBySequence, "includes revision");
}

#[test]
fn a_row_change_against_a_wrong_base_is_found() {
    assert_found(Bug::WrongBase, "for a client that holds");
    assert_found(Bug::HiddenWrongBase, "shown [");
    complaints(Bug::HiddenWrongBase, Versions::None);
}

#[test]
fn a_missing_key_is_found() {
    assert_found(Bug::MissingKey, "all writers rest, but it holds");
}

#[test]
fn the_key_of_another_row_is_found() {
    assert_found(Bug::OtherRow, "all writers rest, but it holds");
}

#[test]
fn a_value_that_was_never_committed_is_found() {
    assert_found(Bug::DirtyRead, "was never committed");
    assert_found(Bug::Kept, "was refused but is in the log");
}

#[test]
fn an_answered_mutation_is_in_the_log_once() {
    assert_found(Bug::AppliedTwice, "but the log has");
    assert_found(Bug::Lost, "was answered but is not in the log");
}

#[test]
fn a_state_between_two_commits_of_rows_is_found() {
    assert_found(Bug::Torn, "includes revision");
    assert_found(Bug::MixedSnapshots, "includes revision");
    complaints(Bug::MixedSnapshots, Versions::None);
}

#[test]
fn an_answer_that_is_older_than_the_carried_version_is_found() {
    assert_found(Bug::OlderThanCarried, "includes revision");
    assert!(complaints(Bug::OlderThanCarried, Versions::None).join("").contains("goes back from revision"));
}

#[test]
fn a_frame_that_goes_back_is_found() {
    assert_found(Bug::Backwards, " after 00000000000000e1.");
    assert!(complaints(Bug::Backwards, Versions::None).join("").contains("goes back from revision"));
}

#[test]
fn equal_digests_of_different_values_are_found() {
    assert_found(Bug::SameDigest, "same means [");
}

#[test]
fn a_restore_may_lose_what_came_after_the_backup() {
    let (mut old, new) = (history(1, 40, Versions::Exact, None), history(1, 20, Versions::Exact, None));
    let log = new.eras[0].log.clone();
    let restored = 1_000_000;
    // After the restore all clients receive the state of the backup, in a new epoch.
    old.eras[0].ended = Some(restored);
    old.eras.push(super::record::Era { ended: None, log });
    old.epoch_starts.push(restored + 1);
    let last: Vec<_> =
        new.clients.iter().enumerate().filter_map(|(client, _)| last_state(&new, client)).collect();
    assert!(last.len() > 3);
    for (client, rows) in last {
        let version = super::record::Version("00000000000000e2.0000000000000001".to_owned());
        let value = Event::Value { version, settled: None, digest: format!("new-{client}"), rows };
        for (at, event) in [(restored + 2, value), (restored + 3, Event::Quiet)] {
            old.seen.push(super::record::Seen { client, at, event });
        }
    }
    let verdict = check(&old);
    assert_eq!(verdict.complaints, Vec::<String>::new());

    // Without the restore, the same events are rows that go back.
    old.eras[0].ended = None;
    old.eras.truncate(1);
    let found = check(&old).complaints.join("\n");
    assert!(found.contains("revision"), "{found}");
}

/// What a watcher of a clean history holds at its end.
fn last_state(history: &History, client: usize) -> Option<(usize, Vec<super::record::RowState>)> {
    let mut held = super::held::Held::default();
    for seen in history.seen.iter().filter(|seen| seen.client == client) {
        held.apply(&seen.event).ok()?;
    }
    held.value.map(|value| (client, value.rows))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_clean_history_has_no_complaint(seed in any::<u64>(), commits in 0_usize..150, kind in 0_usize..4) {
        let versions = [Versions::Exact, Versions::AtLeast, Versions::Ordered, Versions::None][kind];
        let history = history(seed, commits, versions, None);
        let verdict = check(&history);
        prop_assert_eq!(verdict.complaints, Vec::<String>::new());
        prop_assert_eq!(verdict.rests, 7);
        prop_assert!(verdict.states > commits / 2);
    }
}
