//! The queue of a lane: who may wait, and who is shed when there is no room.
//!
//! It has two parts, and neither can take the room of the other: the reserve, for known browsers, and the common part,
//! for everybody else. In each part one network has at most a quarter of the room; in the common part one organization
//! has at most half. A job that exceeds a limit does not lose by being last: of all jobs that the limit concerns, one of
//! the heaviest network or organization is shed, at random among equals.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// How many jobs of one known browser and account may wait.
const PER_KNOWN: usize = 2;

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
    jobs: VecDeque<(Origin, J)>,
}

impl<J> Default for FairQueue<J> {
    fn default() -> FairQueue<J> {
        FairQueue { jobs: VecDeque::new() }
    }
}

impl<J> FairQueue<J> {
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The next job to run.
    pub fn pop(&mut self) -> Option<J> {
        self.jobs.pop_front().map(|(_, job)| job)
    }

    /// Adds a job and removes those for which there is no room, which may include the new one. `draw` returns a number
    /// below its argument.
    pub fn push(
        &mut self,
        origin: Origin,
        job: J,
        room: Room,
        mut draw: impl FnMut(usize) -> usize,
    ) -> Vec<J> {
        let new = origin.clone();
        self.jobs.push_back((origin, job));
        let mut shed = Vec::new();
        while let Some(limit) = self.exceeded(&new, room) {
            let heaviest = self.heaviest(&new, limit);
            let Some(victim) = heaviest.get(draw(heaviest.len())) else { break };
            shed.extend(self.jobs.remove(*victim).map(|(_, job)| job));
        }
        shed
    }

    /// A limit that a new job from `new` has exceeded.
    fn exceeded(&self, new: &Origin, room: Room) -> Option<Limit> {
        let places = if new.known.is_some() { room.reserve } else { room.common };
        let limits = [
            (Limit::Known, new.known.as_ref().map(|_| PER_KNOWN)),
            (Limit::Network, Some((places / 4).max(room.least))),
            (Limit::Organization, new.known.is_none().then_some((places / 2).max(room.least))),
            (Limit::Part, Some(places)),
        ];
        let of = |limit: Limit| self.jobs.iter().filter(|(origin, _)| limit.concerns(new, origin)).count();
        limits
            .into_iter()
            .find(|(limit, most)| most.is_some_and(|most| of(*limit) > most))
            .map(|(limit, _)| limit)
    }

    /// The places of the jobs that the limit concerns and that belong to the heaviest network or organization.
    fn heaviest(&self, new: &Origin, limit: Limit) -> Vec<usize> {
        let (mut networks, mut organizations) = (HashMap::new(), HashMap::new());
        for (origin, _) in self.jobs.iter().filter(|(origin, _)| Limit::Part.concerns(new, origin)) {
            *networks.entry(origin.network).or_insert(0_usize) += 1;
            *organizations.entry(&*origin.organization).or_insert(0_usize) += 1;
        }
        // Known browsers are apart from a storm on their organization.
        let weight = |origin: &Origin| match (networks[&origin.network], organizations[&*origin.organization])
        {
            (network, _) if origin.known.is_some() => (network, 0),
            (network, organization) => (network.max(organization), network.min(organization)),
        };
        let concerned = self.jobs.iter().enumerate().filter(|(_, (origin, _))| limit.concerns(new, origin));
        let weighed: Vec<_> = concerned.map(|(place, (origin, _))| (place, weight(origin))).collect();
        let heaviest = weighed.iter().map(|(_, weight)| *weight).max();
        weighed.into_iter().filter(|(_, weight)| Some(*weight) == heaviest).map(|(place, _)| place).collect()
    }
}

/// A limit on the jobs that have something in common with a new one.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Of the same known browser and account.
    Known,
    /// Of the same network.
    Network,
    /// About the same organization.
    Organization,
    /// In the same part.
    Part,
}

impl Limit {
    fn concerns(self, new: &Origin, other: &Origin) -> bool {
        let same_part = new.known.is_some() == other.known.is_some();
        same_part
            && match self {
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
            queue.push(stranger(turn % 7, organization), "attack", ROOM, |most| usize::from(turn) % most);
        }
        assert_eq!(queue.len(), ROOM.common);
        queue
    }

    #[test]
    fn a_new_browser_gets_in_and_one_of_the_heaviest_is_shed() {
        for organization in ["quiet", "acme"] {
            for draw in 0..ROOM.common {
                let mut queue = attacked();
                let shed = queue.push(stranger(200, organization), "user", ROOM, |most| draw % most);
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
            let shed = queue.push(origin, "attack", ROOM, |most| turn as usize % most);
            assert!(!shed.contains(&"user"));
        }
    }

    #[test]
    fn neither_part_takes_the_room_of_the_other() {
        let mut queue = attacked();
        for who in 0..4_u8 {
            assert!(queue.push(known(who, &who.to_string()), "known", ROOM, |_| 0).is_empty());
        }
        assert_eq!(queue.push(known(9, "nine"), "known", ROOM, |_| 0), ["known"], "the reserve is full");
        let mut queue = FairQueue::default();
        for who in 0..9_u8 {
            queue.push(known(who, &who.to_string()), "known", ROOM, |_| 0);
        }
        assert_eq!(queue.len(), ROOM.reserve, "known browsers do not take the common part");
    }

    #[test]
    fn known_browsers_that_an_attacker_made_give_way() {
        let mut queue = FairQueue::default();
        let room = Room { reserve: 12, ..ROOM };
        for who in 0..100_u8 {
            queue.push(known(who % 5, &who.to_string()), "attack", room, |most| usize::from(who) % most);
        }
        assert_eq!(queue.len(), room.reserve);
        assert_eq!(queue.push(known(200, "olga"), "owner", room, |most| most - 1), ["attack"]);
        for _ in 0..2 {
            queue.push(known(200, "olga"), "owner", room, |_| 0);
        }
        let owners = queue.jobs.iter().filter(|(_, job)| *job == "owner").count();
        assert_eq!(owners, PER_KNOWN);
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
