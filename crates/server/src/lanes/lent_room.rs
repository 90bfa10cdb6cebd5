//! The room that a lane lends to networks that were quiet: to a class that signs in within a second behind one address.
//!
//! A network without a job in the last ten seconds may have 64 jobs wait beyond its shares of the lane, and a site twice as
//! many. Others take the room back: then these jobs leave first, the latest of them.
//!
//! The table of networks with a job in the last ten seconds is bounded. While it is full, a network that is not in it
//! gets no room lent; its shares of the lane are the same.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use web::network::{Counted, Network};

/// How long a network is quiet before it gets room again.
const QUIET: Duration = Duration::from_secs(10);
/// Jobs for which a network gets room.
pub(super) const LENT: usize = 64;
/// The most networks and sites in the table.
pub(super) const KNOWN_MAX: usize = 32_768;
/// How often a full table is searched for networks that are quiet.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct LentRoom {
    /// The jobs that wait in it.
    jobs: BTreeSet<u64>,
    /// How many of them each network has.
    waiting: HashMap<Network, usize>,
    /// The networks and sites with a job in the last ten seconds; some of them are quiet already.
    known: HashMap<Counted, Known>,
    searched: Option<Instant>,
}

struct Known {
    /// The arrival of its last job.
    last: Instant,
    /// Jobs for which it still gets room.
    left: usize,
}

impl LentRoom {
    /// Notes that a job of a network has arrived, whatever becomes of it.
    pub fn note(&mut self, network: Network, now: Instant) {
        for counted in network.counted() {
            let all = LENT * counted.share();
            if let Some(known) = self.known.get_mut(&counted) {
                if now.saturating_duration_since(known.last) >= QUIET {
                    known.left = all;
                }
                known.last = now;
            } else if self.has_place(now) {
                self.known.insert(counted, Known { last: now, left: all });
            }
        }
    }

    fn has_place(&mut self, now: Instant) -> bool {
        let is_due = |at| now.saturating_duration_since(at) >= SEARCH_EVERY;
        if self.known.len() >= KNOWN_MAX && self.searched.is_none_or(is_due) {
            self.searched = Some(now);
            self.known.retain(|_, known| now.saturating_duration_since(known.last) < QUIET);
        }
        self.known.len() < KNOWN_MAX
    }

    /// Takes a job of a network in, if that gets room.
    pub fn lend(&mut self, number: u64, network: Network) -> bool {
        let has_left = |counted| self.known.get(&counted).is_some_and(|known| known.left > 0);
        if !network.counted().all(has_left) {
            return false;
        }
        for counted in network.counted() {
            if let Some(known) = self.known.get_mut(&counted) {
                known.left -= 1;
            }
        }
        *self.waiting.entry(network).or_default() += 1;
        self.jobs.insert(number)
    }

    /// Removes a job that was taken in.
    pub fn remove(&mut self, number: u64, network: Network) {
        self.jobs.remove(&number);
        if let Some(waiting) = self.waiting.get_mut(&network) {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(&network);
            }
        }
    }

    /// Whether a job of this network waits in it.
    pub fn has(&self, network: Network) -> bool {
        self.waiting.contains_key(&network)
    }

    /// The job that leaves first.
    pub fn latest(&self) -> Option<u64> {
        self.jobs.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fair_queue::{Chance, FairQueue, Origin, Room};
    use super::*;

    /// A lane of one thread. Of equals the newest leaves.
    const PLACES: usize = 200;
    const QUARTER: usize = 37;

    struct Newest;
    impl<J> Chance<J> for Newest {
        fn is_late(&self, _: &J) -> bool {
            false
        }
        fn draw(&mut self, most: usize) -> usize {
            most - 1
        }
    }

    struct Lane {
        queue: FairQueue<(&'static str, usize)>,
        now: Instant,
        room: Room,
        pushed: usize,
    }

    impl Lane {
        fn new() -> Lane {
            Lane { queue: FairQueue::default(), now: Instant::now(), room: Room::of(PLACES, 1), pushed: 0 }
        }

        /// A job from an address. Returns those that leave for it.
        fn push(&mut self, from: &str, organization: &str, job: &'static str) -> Vec<(&'static str, usize)> {
            let network = Network::of(from.parse().expect("an address"));
            let origin = Origin { network, organization: organization.to_owned(), known: None };
            self.pushed += 1;
            let shed = self.queue.push(origin, (job, self.pushed), self.room, self.now, &mut Newest);
            assert!(self.queue.len() <= self.room.all, "the longest wait");
            shed
        }

        /// How many of so many jobs from an address wait at the end.
        fn waiting_of(&mut self, count: usize, from: &str, organization: &str) -> usize {
            let before = self.queue.len();
            for _ in 0..count {
                let shed = self.push(from, organization, "own");
                assert!(shed.iter().all(|(job, _)| *job == "own") && shed.len() <= 1, "{shed:?}");
            }
            self.queue.len() - before
        }
    }

    #[test]
    fn a_network_that_was_quiet_has_room_for_64_beyond_its_quarter() {
        let mut lane = Lane::new();
        assert_eq!(lane.waiting_of(150, "10.0.0.1", "acme"), QUARTER + LENT);
        while lane.queue.pop().is_some() {}
        lane.now += QUIET - Duration::from_millis(1);
        assert_eq!(lane.waiting_of(150, "10.0.0.1", "acme"), QUARTER, "it was not quiet");
        while lane.queue.pop().is_some() {}
        lane.now += QUIET;
        assert_eq!(lane.waiting_of(150, "10.0.0.1", "acme"), QUARTER + LENT, "it was");
    }

    #[test]
    fn a_network_that_was_quiet_has_room_beyond_half_of_its_organization() {
        let mut lane = Lane::new();
        for number in 2..100 {
            lane.push(&format!("10.0.0.{number}"), "acme", "other");
        }
        let before = lane.queue.len();
        for _ in 0..40 {
            assert_eq!(lane.push("10.0.0.1", "acme", "class"), []);
        }
        assert_eq!(lane.queue.len(), before + 40);
    }

    #[test]
    fn a_class_waits_beside_two_networks_that_attack_all_the_time() {
        let mut lane = Lane::new();
        let attack = |lane: &mut Lane, count: usize| {
            let mut shed = Vec::new();
            for number in 0..count {
                shed.extend(lane.push(&format!("10.1.0.{}", number % 2), "acme", "attack"));
            }
            shed
        };
        // For so long that the room which they were lent at first is used up.
        for _ in 0..1000 {
            attack(&mut lane, 20);
            lane.queue.pop();
            lane.now += Duration::from_millis(50);
        }
        assert!(lane.queue.len() <= lane.room.common / 2, "the half that an organization may have");
        let mut served = Vec::new();
        for number in 0..40 {
            let mut shed = lane.push("10.0.0.1", "acme", "class");
            shed.extend(attack(&mut lane, 20));
            assert!(shed.iter().all(|(job, _)| *job == "attack"), "{shed:?}");
            // 40 come in a fifth of a second.
            if number % 10 == 0 {
                served.extend(lane.queue.pop());
            }
        }
        for _ in 0..lane.queue.len() {
            let shed = attack(&mut lane, 20);
            assert!(shed.iter().all(|(job, _)| *job == "attack"), "{shed:?}");
            served.extend(lane.queue.pop());
        }
        let class = served.iter().filter(|(job, _)| *job == "class").count();
        assert_eq!(class, 40, "all of the class were served, of {}", served.len());
        assert!(served.len() > class, "beside the attack");
    }

    #[test]
    fn the_networks_of_a_site_have_twice_the_room_of_one() {
        let mut lane = Lane { room: Room::of(2 * PLACES, 1), ..Lane::new() };
        let quarter = lane.room.common / 4;
        let each = (0..120)
            .map(|number| lane.waiting_of(3, &format!("2001:db8:0:{number:x}::1"), &format!("o{number}")));
        assert_eq!(each.sum::<usize>(), 2 * quarter + 2 * LENT);
    }

    #[test]
    fn lent_jobs_leave_first_and_the_latest_of_them() {
        let mut lane = Lane::new();
        let class = lane.waiting_of(101, "10.0.0.1", "acme");
        assert_eq!(class, QUARTER + LENT);
        // There is room for these.
        for number in 0..PLACES - class {
            let from = format!("10.2.{}.{}", number / 200, number % 200);
            assert_eq!(lane.push(&from, &format!("o{number}"), "other"), [], "{number}");
        }
        // And for these in the common part, where lent jobs wait.
        for number in 0..lane.room.common - QUARTER - (PLACES - class) {
            let shed = lane.push(&format!("10.3.0.{number}"), &format!("p{number}"), "other");
            assert_eq!(shed, [("own", class - number)], "the latest that is left");
        }
    }

    #[test]
    fn the_jobs_of_a_network_do_not_make_its_lent_jobs_leave() {
        let mut lane = Lane::new();
        lane.room = Room::of(30, 2);
        for _ in 0..20 {
            assert_eq!(lane.push("10.0.0.1", "acme", "class"), []);
        }
        for _ in 0..20 {
            assert_eq!(lane.push("10.0.0.1", "acme", "class"), []);
            // Its first jobs have run, so it has less than its quarter of the common part.
            if lane.queue.len() > 30 {
                lane.queue.pop();
            }
        }
        assert!(lane.queue.len() >= 30);
    }

    #[test]
    fn a_full_table_lends_nothing_to_new_networks_until_others_are_quiet() {
        let mut room = LentRoom::default();
        let start = Instant::now();
        let network = |number: u32| Network::of(std::net::Ipv4Addr::from(0x0a00_0000 + number).into());
        for number in 0..2 * KNOWN_MAX as u32 {
            room.note(network(number), start);
        }
        assert_eq!(room.known.len(), KNOWN_MAX);
        assert!(room.lend(1, network(7)), "one of the first");
        let late = network(2 * KNOWN_MAX as u32);
        room.note(late, start + Duration::from_secs(9));
        assert!(!room.lend(2, late));
        room.note(late, start + QUIET);
        assert!(room.lend(2, late));
        assert_eq!(room.known.len(), 1, "the others are forgotten");
        for (number, network) in [(1, network(7)), (2, late)] {
            assert!(room.has(network));
            room.remove(number, network);
            assert!(!room.has(network));
        }
        assert!(room.latest().is_none() && room.waiting.is_empty());
    }
}
