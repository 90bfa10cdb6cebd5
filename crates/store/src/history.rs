//! When each key was last published, as far back as a read may take.
//!
//! A read notes the position at which it begins and asks afterwards whether one of its keys has been published since.
//! The answer is known for [`KEPT`], and for at most [`KEYS_MAX`] changed keys; before that it is "changed". The time is
//! longer than the longest read, so a busy server does not refuse the results of slow reads.

use crate::key_index::{Digest, Identity};
use crate::version::Position;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::Duration;

/// Longer than a background query may wait (10 s) and run (5 s).
const KEPT: Duration = Duration::from_secs(20);
/// About 6 MiB.
const KEYS_MAX: usize = 100_000;

type Positions = HashMap<u64, Position, BuildHasherDefault<Identity>>;

pub(crate) struct History {
    /// The last change of each key of rows.
    rows: Positions,
    /// The last change of any row of a table, and of whole tables. As many as there are tables.
    any_row: Positions,
    whole_tables: Positions,
    /// The last change of everything.
    everything: Position,
    /// Changed keys of rows, oldest first.
    recent: VecDeque<Changed>,
    /// Changes up to here may be forgotten.
    known_after: Position,
}

struct Changed {
    at: Duration,
    position: Position,
    key: u64,
}

impl History {
    /// Nothing is known about the time before `start`.
    pub(crate) fn new(start: Position) -> History {
        History {
            rows: Positions::default(),
            any_row: Positions::default(),
            whole_tables: Positions::default(),
            everything: start,
            recent: VecDeque::new(),
            known_after: start,
        }
    }

    pub(crate) fn note(&mut self, position: Position, now: Duration, changed: Digest) {
        if changed.is_table() {
            self.whole_tables.insert(changed.table, position);
        } else {
            self.rows.insert(changed.key, position);
            self.any_row.insert(changed.table, position);
            self.recent.push_back(Changed { at: now, position, key: changed.key });
        }
        while let Some(oldest) = self.recent.front()
            && (self.recent.len() > KEYS_MAX || now.saturating_sub(oldest.at) > KEPT)
        {
            self.known_after = self.known_after.max(oldest.position);
            if self.rows.get(&oldest.key) == Some(&oldest.position) {
                self.rows.remove(&oldest.key);
            }
            self.recent.pop_front();
        }
    }

    pub(crate) fn note_everything(&mut self, position: Position) {
        *self = History::new(position);
    }

    /// True if none of the keys was published after `seen`. False if that is no longer known.
    pub(crate) fn unchanged_since(&self, seen: Position, keys: &[Digest]) -> bool {
        let is_later = |positions: &Positions, key: u64| positions.get(&key).is_some_and(|at| *at > seen);
        seen >= self.known_after
            && seen >= self.everything
            && !keys.iter().any(|key| {
                is_later(&self.whole_tables, key.table)
                    || is_later(if key.is_table() { &self.any_row } else { &self.rows }, key.key)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: Digest = Digest { key: 1, table: 1 };
    const PLANS: Digest = Digest { key: 2, table: 2 };
    const ADA: Digest = Digest { key: 11, table: 1 };
    const GRACE: Digest = Digest { key: 12, table: 1 };
    const PRO: Digest = Digest { key: 21, table: 2 };
    const NOW: Duration = Duration::from_secs(100);

    fn changed(history: &History, seen: u64) -> Vec<u64> {
        let all = [USERS, PLANS, ADA, GRACE, PRO];
        let changed = all.iter().filter(|key| !history.unchanged_since(Position(seen), &[**key]));
        changed.map(|key| key.key).collect()
    }

    #[test]
    fn a_row_changes_itself_and_its_table_and_a_table_all_of_its_rows() {
        let mut history = History::new(Position(5));
        history.note(Position(6), NOW, ADA);
        assert_eq!((changed(&history, 5), changed(&history, 6)), (vec![1, 11], vec![]));
        history.note(Position(7), NOW, PLANS);
        assert_eq!((changed(&history, 6), changed(&history, 7)), (vec![2, 21], vec![]));
        assert_eq!(changed(&history, 5), [1, 2, 11, 21]);
        assert!(!history.unchanged_since(Position(5), &[GRACE, PRO]), "one of several is enough");
        assert!(!history.unchanged_since(Position(4), &[]), "before the start nothing is known");
        history.note_everything(Position(8));
        assert_eq!((changed(&history, 7).len(), changed(&history, 8).len()), (5, 0));
    }

    #[test]
    fn changes_are_known_for_a_time_however_many_follow() {
        let mut history = History::new(Position(0));
        let row = |key: u64| Digest { key: 1_000 + key, table: 1 };
        for number in 1..=50_000 {
            history.note(Position(number), NOW + Duration::from_micros(number * 100), row(number));
        }
        assert!(
            history.unchanged_since(Position(0), &[PRO]) && !history.unchanged_since(Position(0), &[row(1)])
        );
        history.note(Position(50_001), NOW + KEPT + Duration::from_millis(1), row(1));
        assert!(!history.unchanged_since(Position(0), &[PRO]), "that is no longer known");
        assert!(history.unchanged_since(Position(50_000), &[row(2), PRO]));
        assert!(!history.unchanged_since(Position(50_000), &[row(1)]));
        history.note(Position(50_002), NOW + KEPT * 3, PRO);
        assert_eq!((history.recent.len(), history.rows.len()), (1, 1), "memory is given back");
    }

    #[test]
    fn memory_has_a_bound_however_fast_changes_come() {
        let mut history = History::new(Position(0));
        for number in 1..=(KEYS_MAX as u64 + 10) {
            history.note(Position(number), NOW, Digest { key: 1_000 + number, table: 1 });
        }
        assert_eq!((history.recent.len(), history.rows.len()), (KEYS_MAX, KEYS_MAX));
        assert!(
            !history.unchanged_since(Position(9), &[PRO]) && history.unchanged_since(Position(10), &[PRO])
        );
    }
}
