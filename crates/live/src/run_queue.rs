//! The groups that wait for a run, by kind: short queries that share a snapshot, those that run alone, and all others. The kinds take
//! turns, and in each of them callers do (`turns.rs`).

use crate::group::{Group, GroupState};
use crate::turns::{Line, Turns};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Instant;

/// Short queries that share a snapshot.
const BATCH_MAX: usize = 16;

/// See the module.
#[derive(Default)]
pub(crate) struct Queue {
    /// Short queries, which share snapshots.
    points: Turns<Arc<Group>>,
    /// Short queries that have failed, or one of those beside them, which run alone: one that fails again takes no other with it.
    retries: Turns<Arc<Group>>,
    /// All other queries.
    others: Turns<Arc<Group>>,
    /// What was taken last.
    last: Kind,
    /// Others that run now. They may be slow, so they leave most places to short ones.
    pub(crate) others_running: usize,
    others_max: usize,
    pub(crate) delayed: BinaryHeap<Reverse<Delayed>>,
    pub(crate) numbers: u64,
    pub(crate) closed: bool,
}

/// The kinds of work take turns, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Points,
    Retries,
    Others,
}

/// A group whose run may not begin yet.
pub(crate) struct Delayed {
    pub(crate) due: Instant,
    pub(crate) number: u64,
    pub(crate) ready: Ready,
}

/// A group that waits for its run.
pub(crate) struct Ready {
    pub(crate) group: Arc<Group>,
    pub(crate) line: Line,
    pub(crate) kind: Kind,
}

impl Ready {
    pub(crate) fn new(group: &Arc<Group>, state: &GroupState) -> Ready {
        let kind = match (group.is_point, state.failures) {
            (true, 0) => Kind::Points,
            (true, _) => Kind::Retries,
            (false, _) => Kind::Others,
        };
        let line = state.payers.line().unwrap_or_else(|| Line(Arc::as_ptr(group).addr()));
        Ready { group: group.clone(), line, kind }
    }
}

impl Queue {
    /// At most `others_max` queries that are not short run at a time.
    pub(crate) fn new(others_max: usize) -> Queue {
        Queue { others_max, ..Queue::default() }
    }

    /// Lets nothing run any more.
    pub(crate) fn close(&mut self) {
        *self = Queue { closed: true, others_running: self.others_running, ..Queue::default() };
    }

    pub(crate) fn push(&mut self, ready: Ready) {
        let turns = match ready.kind {
            Kind::Points => &mut self.points,
            Kind::Retries => &mut self.retries,
            Kind::Others => &mut self.others,
        };
        turns.push(ready.line, ready.group);
    }

    /// Takes the groups that nobody watches any more. Otherwise somebody who subscribes and leaves all the time could fill the
    /// memory with groups that wait for their turn.
    pub(crate) fn take_unwatched(&mut self) -> Vec<Arc<Group>> {
        // One that is locked is looked at the next time.
        let is_unwatched =
            |group: &Arc<Group>| group.state.try_lock().is_some_and(|state| state.members.is_empty());
        let mut taken: Vec<Arc<Group>> = [&mut self.points, &mut self.retries, &mut self.others]
            .into_iter()
            .flat_map(|turns| turns.take_all(is_unwatched))
            .collect();
        self.delayed.retain(|Reverse(delayed)| {
            let is_unwatched = is_unwatched(&delayed.ready.group);
            if is_unwatched {
                taken.push(delayed.ready.group.clone());
            }
            !is_unwatched
        });
        taken
    }

    /// Lets delayed groups run that are due. Returns when the next one is.
    pub(crate) fn release(&mut self, now: Instant) -> Option<Instant> {
        while self.delayed.peek().is_some_and(|Reverse(delayed)| delayed.due <= now) {
            if let Some(Reverse(delayed)) = self.delayed.pop() {
                self.push(delayed.ready);
            }
        }
        self.delayed.peek().map(|Reverse(delayed)| delayed.due)
    }

    /// Whether work of this kind waits and may run now.
    fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Points => !self.points.is_empty(),
            Kind::Retries => !self.retries.is_empty(),
            Kind::Others => !self.others.is_empty() && self.others_running < self.others_max,
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        [Kind::Points, Kind::Retries, Kind::Others].into_iter().any(|kind| self.has(kind))
    }

    /// What runs next, in one snapshot.
    pub(crate) fn take(&mut self) -> (Kind, Vec<Arc<Group>>) {
        let turns = match self.last {
            Kind::Points => [Kind::Retries, Kind::Others, Kind::Points],
            Kind::Retries => [Kind::Others, Kind::Points, Kind::Retries],
            Kind::Others => [Kind::Points, Kind::Retries, Kind::Others],
        };
        self.last = turns.into_iter().find(|kind| self.has(*kind)).unwrap_or_default();
        let groups = match self.last {
            Kind::Points => std::iter::from_fn(|| self.points.take()).take(BATCH_MAX).collect(),
            Kind::Retries => self.retries.take().into_iter().collect(),
            Kind::Others => {
                self.others_running += 1;
                self.others.take().into_iter().collect()
            }
        };
        (self.last, groups)
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Delayed) -> bool {
        (self.due, self.number) == (other.due, other.number)
    }
}
impl Eq for Delayed {}
impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Delayed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Delayed {
    fn cmp(&self, other: &Delayed) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{GroupKey, Work};

    fn group(is_point: bool) -> Arc<Group> {
        let key = GroupKey { query: "", args: "".into(), claims: "".into() };
        let work = Work::Standing(Box::new(|_| Ok(None)));
        Arc::new(Group::new(key, is_point, work, &Arc::default()))
    }

    #[test]
    fn what_nobody_watches_leaves_the_queue() {
        let mut queue = Queue::new(2);
        let groups = [(true, 0), (true, 1), (false, 0)].map(|(is_point, failures)| {
            let group = group(is_point);
            group.state.lock().failures = failures;
            let ready = Ready::new(&group, &group.state.lock());
            queue.push(ready);
            group
        });
        let ready = Ready::new(&groups[0], &groups[0].state.lock());
        queue.delayed.push(Reverse(Delayed { due: Instant::now(), number: 1, ready }));
        let held = groups[2].state.lock();
        assert_eq!(queue.take_unwatched().len(), 3, "one of each kind, and the delayed one");
        assert!(queue.delayed.is_empty() && queue.has_work(), "one that is in use stays");
        drop(held);
        assert_eq!(queue.take_unwatched().len(), 1);
        assert!(!queue.has_work());
    }

    #[test]
    fn slow_queries_leave_places_to_short_ones() {
        let mut queue = Queue::new(2);
        let push = |queue: &mut Queue, is_point, failures| {
            let group = group(is_point);
            group.state.lock().failures = failures;
            let ready = Ready::new(&group, &group.state.lock());
            queue.push(ready);
        };
        let runs = |queue: &mut Queue| {
            queue.has_work().then(|| {
                let (kind, groups) = queue.take();
                (kind, groups.len())
            })
        };
        (0..5).for_each(|_| push(&mut queue, false, 0));
        let all: Vec<_> = std::iter::from_fn(|| runs(&mut queue)).collect();
        assert_eq!(all, [(Kind::Others, 1), (Kind::Others, 1)]);
        (0..20).for_each(|_| push(&mut queue, true, 0));
        (0..2).for_each(|_| push(&mut queue, true, 1));
        let all: Vec<_> = std::iter::from_fn(|| runs(&mut queue)).collect();
        let (points, rest) = ((Kind::Points, BATCH_MAX), (Kind::Points, 20 - BATCH_MAX));
        assert_eq!(all, [points, (Kind::Retries, 1), rest, (Kind::Retries, 1)]);
        queue.others_running -= 1;
        assert_eq!(runs(&mut queue), Some((Kind::Others, 1)));
    }
}
