//! The queue of a lane: which callers may wait, and which are shed when it is full.
//!
//! It has two parts: the reserve, which only known browsers enter, and the common part. In each part one network has at
//! most a quarter of the room; in the common part one organization has at most half. A job that exceeds a limit does not
//! lose by being last: of all jobs that the limit concerns, one of the heaviest network or organization leaves, by chance
//! among equals. From the reserve it goes to the common part; from there it is shed. The weight of a network or
//! organization is the number of its jobs that wait or ran lately, so that one that comes again and again is heavier than
//! one that is new.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// How many jobs of one known browser and account may wait.
const PER_KNOWN: usize = 2;
/// How many jobs that ran count, for each place of a part.
const RECENT: usize = 4;

/// What fairness counts a job by.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The network that it comes from.
    pub network: IpAddr,
    /// The organization that it is about.
    pub organization: String,
    /// The browser and its account, if the browser is known for it.
    pub known: Option<String>,
}

/// How many jobs may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// In the reserve.
    pub reserve: usize,
    /// In the common part.
    pub common: usize,
    /// The least that any network or organization may have.
    pub least: usize,
}

impl Room {
    /// Divides the places of a queue that `threads` threads serve: a quarter is the reserve.
    pub fn of(places: usize, threads: usize) -> Room {
        let reserve = (places / 4).max(threads);
        Room { reserve, common: places.saturating_sub(reserve).max(threads), least: threads }
    }
}

/// Jobs in the order of their arrival.
pub(super) struct FairQueue<J> {
    jobs: VecDeque<Waiting<J>>,
    /// The latest jobs that ran, of the common part and of the reserve.
    recent: [VecDeque<Origin>; 2],
}

struct Waiting<J> {
    origin: Origin,
    /// Whether it waits in the reserve.
    reserved: bool,
    job: J,
}

impl<J> Default for FairQueue<J> {
    fn default() -> FairQueue<J> {
        FairQueue { jobs: VecDeque::new(), recent: Default::default() }
    }
}

impl<J> FairQueue<J> {
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The next job to run.
    pub fn pop(&mut self) -> Option<J> {
        let Waiting { origin, reserved, job } = self.jobs.pop_front()?;
        self.recent[usize::from(reserved)].push_back(origin);
        Some(job)
    }

    /// Adds a job and removes those for which there is no room, which may include the new one. `choose` gets equals, the
    /// oldest first, and returns the place of the one that leaves.
    pub fn push(
        &mut self,
        origin: Origin,
        job: J,
        room: Room,
        mut choose: impl FnMut(&[&J]) -> usize,
    ) -> Vec<J> {
        for (recent, places) in self.recent.iter_mut().zip([room.common, room.reserve]) {
            recent.drain(..recent.len().saturating_sub(RECENT * places));
        }
        let mut shed = Vec::new();
        let reserved = origin.known.is_some();
        self.jobs.push_back(Waiting { origin: origin.clone(), reserved, job });
        if !reserved {
            self.make_room(&origin, room, &mut choose, &mut shed);
        }
        while reserved && let Some(leaving) = self.surplus(&origin, true, room, &mut choose) {
            self.jobs[leaving].reserved = false;
            let moved = self.jobs[leaving].origin.clone();
            self.make_room(&moved, room, &mut choose, &mut shed);
        }
        shed
    }

    /// Sheds jobs until the common part is within the limits that a job from `new` may have exceeded.
    fn make_room(
        &mut self,
        new: &Origin,
        room: Room,
        choose: &mut impl FnMut(&[&J]) -> usize,
        shed: &mut Vec<J>,
    ) {
        while let Some(leaving) = self.surplus(new, false, room, choose) {
            shed.extend(self.jobs.remove(leaving).map(|waiting| waiting.job));
        }
    }

    /// The place of a job that leaves its part, because a job from `new` has exceeded a limit.
    fn surplus(
        &self,
        new: &Origin,
        reserved: bool,
        room: Room,
        choose: &mut impl FnMut(&[&J]) -> usize,
    ) -> Option<usize> {
        let limit = self.exceeded(new, reserved, room)?;
        let heaviest = self.heaviest(new, reserved, limit);
        let jobs: Vec<&J> = heaviest.iter().map(|place| &self.jobs[*place].job).collect();
        heaviest.get(choose(&jobs)).copied()
    }

    /// A limit of a part that a job from `new` has exceeded.
    fn exceeded(&self, new: &Origin, reserved: bool, room: Room) -> Option<Limit> {
        let places = if reserved { room.reserve } else { room.common };
        let limits = [
            (Limit::Known, reserved.then_some(PER_KNOWN)),
            (Limit::Network, Some((places / 4).max(room.least))),
            (Limit::Organization, (!reserved).then_some((places / 2).max(room.least))),
            (Limit::Part, Some(places)),
        ];
        let of = |limit: Limit| self.part(reserved).filter(|(_, origin)| limit.concerns(new, origin)).count();
        limits
            .into_iter()
            .find(|(limit, most)| most.is_some_and(|most| of(*limit) > most))
            .map(|(limit, _)| limit)
    }

    /// The places of the jobs that the limit concerns and that belong to the heaviest network or organization.
    fn heaviest(&self, new: &Origin, reserved: bool, limit: Limit) -> Vec<usize> {
        let (mut networks, mut organizations) = (HashMap::new(), HashMap::new());
        let waiting = self.part(reserved).map(|(_, origin)| origin);
        for origin in waiting.chain(&self.recent[usize::from(reserved)]) {
            *networks.entry(origin.network).or_insert(0_usize) += 1;
            *organizations.entry(&*origin.organization).or_insert(0_usize) += 1;
        }
        // The reserve is apart from a storm on an organization.
        let weight = |origin: &Origin| match (networks[&origin.network], organizations[&*origin.organization])
        {
            (network, _) if reserved => (network, 0),
            (network, organization) => (network.max(organization), network.min(organization)),
        };
        let concerned = self.part(reserved).filter(|(_, origin)| limit.concerns(new, origin));
        let weighed: Vec<_> = concerned.map(|(place, origin)| (place, weight(origin))).collect();
        let heaviest = weighed.iter().map(|(_, weight)| *weight).max();
        weighed.into_iter().filter(|(_, weight)| Some(*weight) == heaviest).map(|(place, _)| place).collect()
    }

    /// The jobs of a part with their places.
    fn part(&self, reserved: bool) -> impl Iterator<Item = (usize, &Origin)> {
        let jobs = self.jobs.iter().enumerate().filter(move |(_, waiting)| waiting.reserved == reserved);
        jobs.map(|(place, waiting)| (place, &waiting.origin))
    }
}

/// A limit on the jobs of a part that have something in common with a new one.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Of the same known browser and account.
    Known,
    /// Of the same network.
    Network,
    /// About the same organization.
    Organization,
    /// All.
    Part,
}

impl Limit {
    fn concerns(self, new: &Origin, other: &Origin) -> bool {
        match self {
            Limit::Known => new.known == other.known,
            Limit::Network => new.network == other.network,
            Limit::Organization => new.organization == other.organization,
            Limit::Part => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { reserve: 4, common: 12, least: 1 };

    fn stranger(network: u8, organization: &str) -> Origin {
        Origin { network: [10, 0, 0, network].into(), organization: organization.to_owned(), known: None }
    }

    fn known(network: u8, who: &str) -> Origin {
        Origin { known: Some(who.to_owned()), ..stranger(network, "acme") }
    }

    /// A queue whose common part seven networks have filled at two organizations.
    fn attacked() -> FairQueue<&'static str> {
        let mut queue = FairQueue::default();
        for turn in 0..100_u8 {
            let organization = if turn % 2 == 0 { "acme" } else { "platform" };
            queue.push(stranger(turn % 7, organization), "attack", ROOM, |equals| {
                usize::from(turn) % equals.len()
            });
        }
        assert_eq!(queue.len(), ROOM.common);
        queue
    }

    #[test]
    fn a_new_browser_gets_in_and_one_of_the_heaviest_is_shed() {
        for organization in ["quiet", "acme"] {
            for draw in 0..ROOM.common {
                let mut queue = attacked();
                let shed =
                    queue.push(stranger(200, organization), "user", ROOM, |equals| draw % equals.len());
                assert_eq!(shed, ["attack"], "{organization}");
            }
        }
    }

    #[test]
    fn later_attacks_do_not_shed_a_light_network() {
        let mut queue = attacked();
        queue.push(stranger(200, "quiet"), "user", ROOM, |_| 0);
        for turn in 0..1000_u32 {
            let origin = stranger((turn % 7) as u8, if turn % 3 == 0 { "acme" } else { "platform" });
            let shed = queue.push(origin, "attack", ROOM, |equals| turn as usize % equals.len());
            assert!(!shed.contains(&"user"));
        }
    }

    #[test]
    fn strangers_do_not_enter_the_reserve() {
        let mut queue = attacked();
        for who in 0..4_u8 {
            assert!(queue.push(known(100 + who, &who.to_string()), "known", ROOM, |_| 0).is_empty());
        }
        assert_eq!(queue.len(), ROOM.common + ROOM.reserve);
        let shed = queue.push(known(150, "five"), "known", ROOM, |equals| equals.len() - 1);
        assert_eq!(shed, ["attack"], "one more takes a place of the common part, as a light network");
    }

    #[test]
    fn known_browsers_that_an_attacker_made_give_way() {
        let mut queue = FairQueue::default();
        let room = Room { reserve: 12, ..ROOM };
        for who in 0..200_u8 {
            queue.push(known(who % 5, &who.to_string()), "attack", room, |equals| {
                usize::from(who) % equals.len()
            });
        }
        for _ in 0..PER_KNOWN {
            assert_eq!(queue.push(known(200, "olga"), "owner", room, |equals| equals.len() - 1), ["attack"]);
        }
        let owners = queue.jobs.iter().filter(|waiting| waiting.job == "owner" && waiting.reserved).count();
        assert_eq!(owners, PER_KNOWN);
    }

    #[test]
    fn a_network_that_came_lately_is_heavier_than_a_new_one() {
        for draw in 0..5 {
            let mut queue = FairQueue::default();
            for turn in 0..12_u8 {
                queue.push(stranger(turn % 4, &turn.to_string()), "attack", ROOM, |_| 0);
                queue.pop();
            }
            for turn in 0..12_u8 {
                queue.push(stranger(turn % 4, &turn.to_string()), "attack", ROOM, |_| 0);
            }
            assert_eq!(
                queue.push(stranger(100, "a"), "user", ROOM, |equals| draw % equals.len()),
                ["attack"]
            );
            for turn in 0..100_u8 {
                let shed =
                    queue.push(stranger(turn % 4, "b"), "attack", ROOM, |equals| (draw * 7) % equals.len());
                assert_eq!(shed, ["attack"]);
            }
            assert!(queue.recent[0].len() <= RECENT * ROOM.common);
        }
    }

    #[test]
    fn a_network_has_a_quarter_and_an_organization_half() {
        let mut queue = FairQueue::default();
        for organization in ["a", "b", "c", "d"] {
            queue.push(stranger(1, organization), "job", ROOM, |_| 0);
        }
        assert_eq!(queue.len(), 3);
        for network in 10..30 {
            queue.push(stranger(network, "e"), "job", ROOM, |_| 0);
        }
        assert_eq!(queue.len(), 9);
    }
}
