//! The order of events that Stripe dates to the same second.
//!
//! An event has the subscription as it is after the change, and `previous_attributes`: what it was before. So of all events
//! of one second, each fits behind the one whose "after" is its "before", and the last of that chain is the newest. The
//! states are kept until an event of a later second comes, because the chain may arrive in any order.

use super::ExternalId;
use super::subscriptions::{Period, State};
use crate::Time;
use serde::{Deserialize, Serialize};

/// The most events of a second that are compared. Further ones are ordered by their ids only.
const COMPARED_MAX: usize = 8;

/// An event of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub id: ExternalId,
    /// The state before it, if the event says that.
    pub before: Option<State>,
    pub after: State,
}

impl Change {
    fn follows(&self, other: &Change) -> bool {
        self.before.as_ref().unwrap_or(&self.after) == &other.after
    }

    fn changes_nothing(&self) -> bool {
        self.before.as_ref().is_none_or(|before| *before == self.after)
    }
}

/// The newest of these events. It depends on which they are, and not on their order here.
///
/// If an event is missing, or if the chain is closed (active, past due, active again), several may be the last; then the
/// greatest id counts.
pub(super) fn newest(changes: &[Change]) -> Option<&Change> {
    let numbers = || 0..changes.len();
    let greatest = |found: &dyn Fn(usize) -> bool| {
        changes.iter().enumerate().filter(|(at, _)| found(*at)).max_by_key(|one| &one.1.id)
    };
    if changes.len() <= COMPARED_MAX {
        let last = ends_of_chains(changes);
        if let Some((_, change)) = greatest(&|at| last & (1 << at) != 0) {
            return Some(change);
        }
        let is_followed = |at: usize| {
            numbers().any(|other| {
                other != at
                    && changes[other].follows(&changes[at])
                    && changes[other].after != changes[at].after
            })
        };
        if let Some((_, change)) = greatest(&|at| !is_followed(at)) {
            return Some(change);
        }
    }
    greatest(&|_| true).map(|(_, change)| change)
}

/// The events, as bits, that can be the last of a chain of all events.
fn ends_of_chains(changes: &[Change]) -> u32 {
    let all = (1_usize << changes.len()) - 1;
    // The index is a set of events, as bits. The value has the events with which a chain of the whole set can end.
    let mut ends = vec![0_u32; all + 1];
    for at in 0..changes.len() {
        ends[1 << at] = 1 << at;
    }
    for set in 1..=all {
        for last in (0..changes.len()).filter(|last| ends[set] & (1 << last) != 0).collect::<Vec<_>>() {
            for (next, change) in changes.iter().enumerate() {
                if set & (1 << next) == 0 && change.follows(&changes[last]) {
                    ends[set | 1 << next] |= 1 << next;
                }
            }
        }
    }
    if changes.is_empty() { 0 } else { ends[all] }
}

/// The column `same_second`: `NULL` for a single event that changes nothing, because the row has its state.
pub(super) fn write(changes: &[Change]) -> Option<String> {
    if let [only] = changes
        && only.changes_nothing()
    {
        return None;
    }
    let written: Vec<Written> = changes.iter().map(Written::of).collect();
    serde_json::to_string(&written).ok()
}

/// Reads the column of the row whose newest event is `current`. Text that does not have that event is of another version of
/// this program, and does not count.
pub(super) fn read(text: Option<&str>, current: Change) -> Vec<Change> {
    let written: Vec<Written> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let changes: Option<Vec<Change>> = written.into_iter().map(|one| one.change(&current.after)).collect();
    match changes {
        Some(changes) if changes.iter().any(|one| one.id == current.id && one.after == current.after) => {
            changes
        }
        _ => vec![current],
    }
}

#[derive(Deserialize, Serialize)]
struct Written {
    id: String,
    before: Option<WrittenState>,
    after: WrittenState,
}

/// A state without the ids, which do not change.
#[derive(Deserialize, Serialize)]
struct WrittenState {
    prices: Vec<String>,
    more: bool,
    status: String,
    end: Option<i64>,
    until: Option<i64>,
}

impl Written {
    fn of(change: &Change) -> Written {
        Written {
            id: change.id.to_string(),
            before: change.before.as_ref().map(WrittenState::of),
            after: WrittenState::of(&change.after),
        }
    }

    fn change(self, like: &State) -> Option<Change> {
        Some(Change {
            id: self.id.parse().ok()?,
            before: match self.before {
                Some(before) => Some(before.state(like)?),
                None => None,
            },
            after: self.after.state(like)?,
        })
    }
}

impl WrittenState {
    fn of(state: &State) -> WrittenState {
        WrittenState {
            prices: state.prices.iter().map(ExternalId::to_string).collect(),
            more: state.more_items,
            status: state.status.clone(),
            end: state.period.end.map(Time::millis),
            until: state.period.access_until.map(Time::millis),
        }
    }

    fn state(self, like: &State) -> Option<State> {
        Some(State {
            id: like.id.clone(),
            customer: like.customer.clone(),
            prices: self.prices.iter().map(|price| price.parse().ok()).collect::<Option<_>>()?,
            more_items: self.more,
            status: self.status,
            period: Period {
                end: self.end.map(Time::from_millis),
                access_until: self.until.map(Time::from_millis),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(status: &str) -> State {
        State {
            id: "sub_1".parse().expect("an id"),
            customer: "cus_1".parse().expect("an id"),
            prices: vec!["price_1".parse().expect("an id")],
            more_items: false,
            status: status.to_owned(),
            period: Period::new(Some(Time::from_millis(1000)), None),
        }
    }

    fn change(id: &str, before: Option<&str>, after: &str) -> Change {
        Change { id: id.parse().expect("an id"), before: before.map(state), after: state(after) }
    }

    fn newest_id(changes: &[Change]) -> &str {
        newest(changes).expect("some").id.as_str()
    }

    #[test]
    fn the_event_whose_before_is_the_others_after_is_newer() {
        let (active, unpaid) =
            (change("z", Some("trialing"), "active"), change("a", Some("active"), "unpaid"));
        assert_eq!(newest_id(&[active.clone(), unpaid.clone()]), "a");
        assert_eq!(newest_id(&[unpaid.clone(), active]), "a");
        // Without `previous_attributes` of the first: it is followed all the same.
        assert_eq!(newest_id(&[change("z", None, "active"), unpaid]), "a");
        // Nothing says anything: the greater id.
        assert_eq!(newest_id(&[change("b", None, "unpaid"), change("a", None, "active")]), "b");
        // There and back: it is not known where it began.
        let closed = [change("b", Some("active"), "past_due"), change("a", Some("past_due"), "active")];
        assert_eq!(newest_id(&closed), "b");
        // Back by another way.
        let back = [
            change("c", Some("trialing"), "active"),
            change("b", Some("active"), "past_due"),
            change("a", Some("past_due"), "active"),
        ];
        assert_eq!(newest_id(&back), "a");
        // One between them is missing, and then there.
        assert_eq!(newest_id(&[back[0].clone(), change("a", Some("past_due"), "unpaid")]), "c");
        assert!(newest(&[]).is_none());
        let many: Vec<Change> =
            (0..30).map(|n| change(&format!("e{n:02}"), Some("active"), "unpaid")).collect();
        assert_eq!(newest_id(&many), "e29");
    }

    #[test]
    fn what_is_written_is_read() {
        let changes = [change("b", Some("trialing"), "active"), change("a", Some("active"), "unpaid")];
        let text = write(&changes).expect("a text");
        assert_eq!(read(Some(&text), changes[1].clone()), changes);
        // Another version of this program has stored another state since.
        assert_eq!(read(Some(&text), change("c", None, "active")), [change("c", None, "active")]);
        for broken in [None, Some("{"), Some("[]"), Some(r#"[{"id":"a b"}]"#)] {
            assert_eq!(read(broken, changes[1].clone()), [changes[1].clone()]);
        }
        assert_eq!(write(&[change("a", None, "active")]), None);
        assert_eq!(write(&[change("a", Some("active"), "active")]), None);
    }

    proptest! {
        #[test]
        fn a_complete_chain_has_one_end_whatever_the_ids_are(
            steps in prop::collection::vec(0..4_usize, 2..=COMPARED_MAX + 1),
            ids in Just((0..COMPARED_MAX).collect::<Vec<_>>()).prop_shuffle(),
            order in Just((0..COMPARED_MAX).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let names = ["active", "past_due", "unpaid", "trialing"];
            // The end of a closed chain is not known.
            prop_assume!(steps.first() != steps.last());
            let chain: Vec<Change> = steps
                .windows(2)
                .zip(&ids)
                .map(|(pair, id)| change(&format!("evt_{id}"), Some(names[pair[0]]), names[pair[1]]))
                .collect();
            let shuffled: Vec<Change> = order.iter().filter_map(|at| chain.get(*at).cloned()).collect();
            let found = newest(&shuffled).expect("some");
            prop_assert_eq!(&found.after, &chain.last().expect("some").after);
        }
    }
}
