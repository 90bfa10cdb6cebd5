//! The account of a caller (a user, or a network without a token): what all of its streams take together.
//!
//! A caller pays once for each answer that it watches, however many of its streams watch it. [`Payers`] has the callers of one
//! live query.

use crate::Caller;
use crate::turns::Line;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use web::network::Network;

/// See the module.
#[derive(Default)]
pub(crate) struct Account {
    /// Subscriptions of all of its streams.
    pub(crate) subscriptions: AtomicUsize,
    /// Bytes of the answers that it watches.
    answer_bytes: AtomicUsize,
}

impl Account {
    /// Replaces a charge by another one. False, without a change, if the account would have more than `most` bytes then.
    fn charge(&self, before: usize, bytes: usize, most: usize) -> bool {
        let add = |now: usize| Some(now - before + bytes).filter(|after| bytes <= before || *after <= most);
        self.answer_bytes.fetch_update(Relaxed, Relaxed, add).is_ok()
    }
}

/// Whose limits a request counts against: those of the user; or, without a token, those of the network and of its site.
/// Streams have an [`Account`].
pub(crate) struct Counted(pub(crate) Vec<Counter>);

pub(crate) struct Counter {
    /// The user, the network or the site; no user has the name of a network.
    pub(crate) name: String,
    /// How often they have the limit of one caller.
    pub(crate) share: usize,
}

impl Counted {
    pub(crate) fn of(caller: &Caller, address: IpAddr) -> Counted {
        match &caller.subject {
            Some(user) => Counted(vec![Counter { name: user.clone(), share: 1 }]),
            None => {
                let counted = Network::of(address).counted();
                Counted(counted.map(|one| Counter { name: network_name(one), share: one.share() }).collect())
            }
        }
    }

    /// Each counter with its limit, where one caller has `most`.
    pub(crate) fn limits(&self, most: usize) -> impl Iterator<Item = (&str, usize)> + Clone {
        self.0.iter().map(move |one| (one.name.as_str(), most.saturating_mul(one.share)))
    }

    /// Whether it is a network, of callers that nobody knows.
    pub(crate) fn is_network(&self) -> bool {
        self.0.iter().any(|one| one.name.starts_with('\0'))
    }
}

/// The name of a network among callers. No token has a subject that begins like this.
pub(crate) fn network_name(counted: web::network::Counted) -> String {
    format!("\0{counted}")
}

/// Beyond this many, a map knows the place of each.
const LIST_MAX: usize = 32;

/// The callers who watch an answer, and what each has been charged for it.
#[derive(Default)]
pub(crate) struct Payers {
    list: Vec<Payer>,
    #[expect(clippy::box_collection, reason = "most groups have no map, and there may be many groups")]
    places: Option<Box<HashMap<usize, usize>>>,
}

struct Payer {
    account: Arc<Account>,
    subscriptions: u32,
    bytes: usize,
}

fn address(account: &Arc<Account>) -> usize {
    Arc::as_ptr(account).addr()
}

impl Payers {
    fn place(&self, account: &Arc<Account>) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(&address(account)).copied(),
            None => self.list.iter().position(|payer| Arc::ptr_eq(&payer.account, account)),
        }
    }

    /// Adds a subscription to an answer of so many bytes. False if its caller has no room; it is added all the same.
    pub(crate) fn add(&mut self, account: &Arc<Account>, bytes: usize, most: usize) -> bool {
        if let Some(payer) = self.place(account).and_then(|place| self.list.get_mut(place)) {
            payer.subscriptions += 1;
            return payer.charge(bytes, most);
        }
        let has_room = account.charge(0, bytes, most);
        let bytes = if has_room { bytes } else { 0 };
        self.list.push(Payer { account: account.clone(), subscriptions: 1, bytes });
        if self.places.is_none() && self.list.len() > LIST_MAX {
            let all = self.list.iter().enumerate();
            self.places =
                Some(Box::new(all.map(|(place, payer)| (address(&payer.account), place)).collect()));
        } else if let Some(places) = &mut self.places {
            places.insert(address(account), self.list.len() - 1);
        }
        has_room
    }

    /// Removes a subscription. The last one of a caller gives its charge back.
    pub(crate) fn remove(&mut self, account: &Arc<Account>) {
        let Some(place) = self.place(account) else { return };
        let Some(payer) = self.list.get_mut(place) else { return };
        payer.subscriptions -= 1;
        if payer.subscriptions > 0 {
            return;
        }
        // Dropping it gives its charge back.
        self.list.swap_remove(place);
        if let Some(places) = &mut self.places {
            places.remove(&address(account));
            if let Some(moved) = self.list.get(place) {
                places.insert(address(&moved.account), place);
            }
        }
    }

    /// In whose line their query waits for its runs: that of the caller with the fewest subscriptions. So whoever has many
    /// delays nobody who watches one of them, and those who have the same ones have no more turns than so many callers. Of very
    /// many callers a part is looked at, from all over the list: those who came first may be of one mind. `None` without a
    /// caller.
    pub(crate) fn line(&self) -> Option<Line> {
        let some = self.list.iter().step_by(self.list.len().div_ceil(LIST_MAX).max(1));
        let payer = some.min_by_key(|payer| payer.account.subscriptions.load(Relaxed))?;
        Some(Line(address(&payer.account)))
    }

    /// Charges all for an answer that replaces the last one. Returns those who have no room for it.
    pub(crate) fn charge(&mut self, bytes: usize, most: usize) -> Vec<Arc<Account>> {
        let mut without_room = Vec::new();
        for payer in &mut self.list {
            if !payer.charge(bytes, most) {
                without_room.push(payer.account.clone());
            }
        }
        without_room
    }
}

impl Payer {
    /// Charges for an answer of so many bytes. False, without a change, if the caller has no room for it.
    fn charge(&mut self, bytes: usize, most: usize) -> bool {
        let has_room = self.account.charge(self.bytes, bytes, most);
        if has_room {
            self.bytes = bytes;
        }
        has_room
    }
}

impl Drop for Payer {
    fn drop(&mut self) {
        self.account.answer_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(account: &Account) -> usize {
        account.answer_bytes.load(Relaxed)
    }

    #[test]
    fn a_caller_pays_once_for_an_answer_while_it_watches() {
        let (ada, grace) = (Arc::new(Account::default()), Arc::new(Account::default()));
        let (mut one, mut other) = (Payers::default(), Payers::default());
        assert!(one.add(&ada, 60, 100) && one.add(&ada, 60, 100) && one.add(&grace, 60, 100));
        assert!(!other.add(&ada, 41, 100) && other.add(&grace, 40, 100));
        assert_eq!((charged(&ada), charged(&grace)), (60, 100));
        // A smaller answer always fits, a larger one for those with room.
        assert!(one.charge(50, 100).is_empty());
        assert!(other.charge(50, 100).is_empty());
        let without_room = other.charge(51, 100);
        assert_eq!(without_room.len(), 2);
        assert_eq!((charged(&ada), charged(&grace)), (100, 100), "they are charged as before");
        one.remove(&ada);
        assert_eq!(charged(&ada), 100, "another stream of hers watches it");
        one.remove(&ada);
        assert_eq!(charged(&ada), 50);
        // The same answer may take a few bytes more or less when it was found again.
        assert!(other.add(&grace, 49, 100) && other.add(&grace, 50, 100));
        assert!(!other.add(&grace, 51, 100));
        drop((one, other));
        assert_eq!((charged(&ada), charged(&grace)), (0, 0));
    }

    #[test]
    fn the_networks_of_one_customer_are_counted_together() {
        let of = |caller: &Caller, address: &str| {
            let counted = Counted::of(caller, address.parse().expect("an address"));
            counted.limits(10).map(|(name, most)| (name.to_owned(), most)).collect::<Vec<_>>()
        };
        let nobody = Caller::default();
        let [one, other] = ["2001:db8:7:1::1", "2001:db8:7:ffff::2"].map(|address| of(&nobody, address));
        assert_eq!([one[0].1, one[1].1], [10, 20], "the network, and twice as much for its site");
        assert!(one[0] != other[0] && one[1] == other[1]);
        assert_ne!(one[1], of(&nobody, "2001:db8:8:1::1")[1]);
        assert_eq!(of(&nobody, "::ffff:192.0.2.1"), [("\u{0}192.0.2.1".to_owned(), 10)]);
        let ada = Caller { subject: Some("ada".to_owned()), ..Caller::default() };
        assert_eq!(of(&ada, "192.0.2.1"), [("ada".to_owned(), 10)]);
    }

    #[test]
    fn a_query_waits_in_the_line_of_the_caller_with_the_fewest_subscriptions() {
        let [busy, other, quiet] = [10_000, 10_000, 1].map(|subscriptions| {
            Arc::new(Account { subscriptions: AtomicUsize::new(subscriptions), ..Account::default() })
        });
        let line = |account: &Arc<Account>| Some(Line(address(account)));
        let (mut shared, mut watched) = (Payers::default(), Payers::default());
        assert_eq!(shared.line(), None);
        [&busy, &other].iter().for_each(|account| assert!(shared.add(account, 1, 10)));
        assert!([line(&busy), line(&other)].contains(&shared.line()), "together they have no other lines");
        [&busy, &quiet].iter().for_each(|account| assert!(watched.add(account, 1, 10)));
        assert_eq!(watched.line(), line(&quiet));
        watched.remove(&quiet);
        assert_eq!(watched.line(), line(&busy));
    }

    #[test]
    fn very_many_who_have_the_same_queries_have_no_more_lines_than_they_are() {
        let account = |subscriptions: usize| {
            Arc::new(Account { subscriptions: AtomicUsize::new(subscriptions), ..Account::default() })
        };
        let many: Vec<_> = (0..3 * LIST_MAX).map(|_| account(10_000)).collect();
        let lines: Vec<_> = many.iter().map(|account| Line(address(account))).collect();
        let mut group = Payers::default();
        many.iter().for_each(|account| assert!(group.add(account, 1, 10)));
        assert!(group.line().is_some_and(|line| lines.contains(&line)), "one of theirs");
        // If a caller with few subscriptions watches it too, it waits in that caller's line, though the others came first.
        let quiet: Vec<_> = (0..LIST_MAX).map(|_| account(1)).collect();
        quiet.iter().for_each(|account| assert!(group.add(account, 1, 10)));
        assert!(group.line().is_some_and(|line| !lines.contains(&line)));
    }

    #[test]
    fn many_callers_come_and_go() {
        let all: Vec<_> = (0..100).map(|_| Arc::new(Account::default())).collect();
        let mut payers = Payers::default();
        all.iter().for_each(|account| assert!(payers.add(account, 1, 10)));
        all.iter().step_by(2).for_each(|account| payers.remove(account));
        assert!(payers.charge(7, 10).is_empty());
        let bytes: Vec<usize> = all.iter().map(|account| charged(account)).collect();
        assert!(bytes.chunks(2).all(|pair| pair == [0, 7]), "{bytes:?}");
        all.iter().skip(1).step_by(2).for_each(|account| payers.remove(account));
        assert!(payers.list.is_empty() && payers.places.is_some_and(|places| places.is_empty()));
        assert!(all.iter().all(|account| charged(account) == 0));
    }
}
