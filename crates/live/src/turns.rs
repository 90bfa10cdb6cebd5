//! Chooses the next group when more wait than may run. Callers take turns; in a turn one group of the caller runs.
//!
//! A caller may have thousands of groups that one write touches. In the order of their arrival, everybody else would wait
//! for all of them. In whose line a group waits that several callers watch, [`crate::account::Payers::line`] says.

use std::collections::{HashMap, VecDeque};

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line(pub(crate) usize);

/// See the module.
pub(crate) struct Turns<T> {
    waiting: HashMap<Line, VecDeque<T>>,
    /// The lines in which somebody waits, each once.
    order: VecDeque<Line>,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns { waiting: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Turns<T> {
    pub(crate) fn push(&mut self, line: Line, waiting: T) {
        let queue = self.waiting.entry(line).or_default();
        if queue.is_empty() {
            self.order.push_back(line);
        }
        queue.push_back(waiting);
    }

    /// The one whose turn it is.
    pub(crate) fn take(&mut self) -> Option<T> {
        let line = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&line)?;
        let taken = queue.pop_front();
        match queue.is_empty() {
            true => drop(self.waiting.remove(&line)),
            false => self.order.push_back(line),
        }
        taken
    }

    /// Takes all that `leaves` is true for, whosever turn it is.
    pub(crate) fn take_all(&mut self, leaves: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        self.waiting.retain(|_, queue| {
            if queue.iter().any(&leaves) {
                let (gone, stay) = std::mem::take(queue).into_iter().partition(&leaves);
                taken.extend::<VecDeque<T>>(gone);
                *queue = stay;
            }
            !queue.is_empty()
        });
        if !taken.is_empty() {
            self.order.retain(|line| self.waiting.contains_key(line));
        }
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_many_delays_nobody_else() {
        let mut turns = Turns::default();
        (0..10_000).for_each(|number| turns.push(Line(1), (1_usize, number)));
        (0..3).for_each(|number| turns.push(Line(2), (2, number)));
        turns.push(Line(3), (3, 0));
        let first: Vec<(usize, u32)> = std::iter::from_fn(|| turns.take()).take(8).collect();
        assert_eq!(first, [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]);
        turns.push(Line(3), (3, 1));
        assert_eq!(turns.take(), Some((1, 4)));
        assert_eq!(turns.take(), Some((3, 1)), "who comes back waits for one of each other line");
        assert_eq!(std::iter::from_fn(|| turns.take()).count(), 10_000 - 5);
        assert!(turns.is_empty() && turns.waiting.is_empty());
        (0..6).for_each(|number| turns.push(Line(number % 3), (number, 0)));
        let mut left = turns.take_all(|(number, _)| *number == 1 || number % 3 == 2);
        left.sort_unstable();
        assert_eq!(left, [(1, 0), (2, 0), (5, 0)]);
        let rest: Vec<(usize, u32)> = std::iter::from_fn(|| turns.take()).collect();
        assert_eq!(rest, [(0, 0), (4, 0), (3, 0)], "the turns of the others stay");
    }
}
