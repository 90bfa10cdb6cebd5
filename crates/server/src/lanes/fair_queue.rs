//! The queue of a lane: which callers may wait, and which are shed when it is full.
//!
//! It has two parts: the reserve, which only known browsers enter, and the common part. In each part one network has at
//! most a quarter of the room, and a site two; in the common part one organization has at most half. A job that exceeds a
//! limit does not lose by being last: of all jobs that the limit concerns, one of the heavy networks or organizations
//! leaves (those with a quarter of the weight of the heaviest, beside one job), by chance, and one that came lately before an older one.
//! From the reserve it goes to the common part. From there it goes to the lent room, if its network was quiet
//! (`lent_room.rs`), the part is not full, and the queue is not longer than twice the two parts; otherwise it is shed. The
//! weight of a network or organization is the number of its jobs that wait or ran lately, so that one that comes again and
//! again is heavier than one that is new. A network weighs at least half of its site.
//!
//! A job of the two parts that comes while more jobs wait than these have room for takes the place of a lent one, the latest.
//!
//! A request handler pushes under a lock, so `part.rs` keeps the counts: to find the job that leaves takes time for each
//! source that the limit concerns, a network at an organization, and not for each job.

use super::lent_room::LentRoom;
use super::part::{Part, Source};
use std::collections::BTreeMap;
use std::time::Instant;
use web::network::Network;

/// How many jobs of one known browser and account may wait.
const PER_KNOWN: usize = 2;
/// What has this part of the weight of the heaviest beside one job more is heavy.
const HEAVY: usize = 4;
/// How many jobs that ran count, for each place of a part.
const RECENT: usize = 4;

/// What fairness counts a job by.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The network that it comes from.
    pub network: Network,
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
    /// In both parts and in lent room together.
    pub all: usize,
}

impl Room {
    /// Divides the places of a queue that `threads` threads serve: a quarter is the reserve. As many again are lent.
    pub fn of(places: usize, threads: usize) -> Room {
        let reserve = (places / 4).max(threads);
        let common = places.saturating_sub(reserve).max(threads);
        Room { reserve, common, least: threads, all: 2 * (reserve + common) }
    }

    /// The same with nothing to lend.
    #[cfg(any(test, feature = "testing"))]
    pub fn without_lent(self) -> Room {
        Room { all: 0, ..self }
    }
}

/// Which of several equal jobs leaves.
pub(super) trait Chance<J> {
    /// Whether the job came so lately that it leaves before others.
    fn is_late(&self, job: &J) -> bool;
    /// The place of the one that leaves among `most` equals. The newest is the last one.
    fn draw(&mut self, most: usize) -> usize;
}

/// Jobs in the order of their arrival.
pub(super) struct FairQueue<J> {
    jobs: BTreeMap<u64, Waiting<J>>,
    /// The number of the next job.
    next: u64,
    common: Part,
    reserve: Part,
    lent: LentRoom,
}

struct Waiting<J> {
    origin: Origin,
    room: Where,
    job: J,
}

/// Where a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Reserve,
    Common,
    Lent,
}

impl<J> Default for FairQueue<J> {
    fn default() -> FairQueue<J> {
        FairQueue {
            jobs: BTreeMap::new(),
            next: 0,
            common: Part::default(),
            reserve: Part::default(),
            lent: LentRoom::default(),
        }
    }
}

impl<J> FairQueue<J> {
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The next job to run.
    pub fn pop(&mut self) -> Option<J> {
        let (number, Waiting { origin, room, job }) = self.jobs.pop_first()?;
        self.leave(number, &origin, room);
        let part = if room == Where::Reserve { &mut self.reserve } else { &mut self.common };
        part.note_run(origin);
        Some(job)
    }

    /// Adds a job that arrives `now`, and removes those for which there is no room, which may include the new one.
    pub fn push(
        &mut self,
        origin: Origin,
        job: J,
        room: Room,
        now: Instant,
        chance: &mut impl Chance<J>,
    ) -> Vec<J> {
        self.lent.note(origin.network, now);
        self.common.forget_all_but(RECENT * room.common);
        self.reserve.forget_all_but(RECENT * room.reserve);
        let mut shed = Vec::new();
        let number = self.next;
        self.next += 1;
        let unlent = room.reserve + room.common;
        // It would make lent jobs of its own network leave.
        if self.jobs.len() >= unlent && self.lent.has(origin.network) && self.lend(number, &origin, room) {
            self.jobs.insert(number, Waiting { origin, room: Where::Lent, job });
            return shed;
        }
        let reserved = origin.known.is_some();
        let (part, place) = match reserved {
            true => (&mut self.reserve, Where::Reserve),
            false => (&mut self.common, Where::Common),
        };
        part.add(number, &origin);
        self.jobs.insert(number, Waiting { origin: origin.clone(), room: place, job });
        if !reserved {
            self.make_room(&origin, room, chance, &mut shed);
        }
        if reserved
            && let Some((leaving, _)) = self.surplus(&origin, true, room, chance)
            && let Some(waiting) = self.jobs.get_mut(&leaving)
        {
            waiting.room = Where::Common;
            let moved = waiting.origin.clone();
            self.reserve.remove(leaving, &moved);
            self.common.add(leaving, &moved);
            self.make_room(&moved, room, chance, &mut shed);
        }
        // A job of the parts takes back one place.
        let takes_back = self.jobs.get(&number).is_some_and(|new| new.room != Where::Lent);
        if takes_back
            && self.jobs.len() > unlent
            && let Some(leaving) = self.lent.latest()
            && let Some(waiting) = self.jobs.remove(&leaving)
        {
            self.leave(leaving, &waiting.origin, waiting.room);
            shed.push(waiting.job);
        }
        shed
    }

    /// Lends room to a job or sheds one, if a job from `new` has exceeded a limit of the common part. Not more than one: when
    /// the room has become smaller, those who wait already keep their places.
    fn make_room(&mut self, new: &Origin, room: Room, chance: &mut impl Chance<J>, shed: &mut Vec<J>) {
        if let Some((leaving, limit)) = self.surplus(new, false, room, chance)
            && let Some(mut waiting) = self.jobs.remove(&leaving)
        {
            self.common.remove(leaving, &waiting.origin);
            // A full part is full of others, who would take the room back at once: then it is better to be told now.
            if !matches!(limit, Limit::Part) && self.lend(leaving, &waiting.origin, room) {
                waiting.room = Where::Lent;
                self.jobs.insert(leaving, waiting);
            } else {
                shed.push(waiting.job);
            }
        }
    }

    /// Takes a job that is not among those that wait into lent room, if there is some for it.
    fn lend(&mut self, number: u64, origin: &Origin, room: Room) -> bool {
        self.jobs.len() < room.all && self.lent.lend(number, origin.network)
    }

    /// Removes a job from the counts of where it waits.
    fn leave(&mut self, number: u64, origin: &Origin, room: Where) {
        match room {
            Where::Reserve => self.reserve.remove(number, origin),
            Where::Common => self.common.remove(number, origin),
            Where::Lent => self.lent.remove(number, origin.network),
        }
    }

    /// The number of a job that leaves its part, because a job from `new` has exceeded this limit.
    fn surplus(
        &self,
        new: &Origin,
        reserved: bool,
        room: Room,
        chance: &mut impl Chance<J>,
    ) -> Option<(u64, Limit)> {
        let limit = self.exceeded(new, reserved, room)?;
        let mut heavy = self.heavy(new, reserved, limit);
        // So that the newest of all is the last one.
        heavy.sort_by_key(|source| source.jobs.last());
        let is_early = |number: &u64| !self.jobs.get(number).is_some_and(|one| chance.is_late(&one.job));
        let all = || heavy.iter().map(|source| source.jobs);
        let late = all().map(|jobs| &jobs[jobs.partition_point(is_early)..]);
        let late: Vec<&[u64]> = late.filter(|jobs| !jobs.is_empty()).collect();
        let equals = if late.is_empty() { all().collect() } else { late };
        let mut drawn = chance.draw(equals.iter().map(|jobs| jobs.len()).sum());
        for jobs in equals {
            match jobs.get(drawn) {
                Some(number) => return Some((*number, limit)),
                None => drawn -= jobs.len(),
            }
        }
        None
    }

    /// A limit of a part that a job from `new` has exceeded.
    fn exceeded(&self, new: &Origin, reserved: bool, room: Room) -> Option<Limit> {
        let (part, places) =
            if reserved { (&self.reserve, room.reserve) } else { (&self.common, room.common) };
        let limits = [
            (Limit::Known, reserved.then_some(PER_KNOWN)),
            (Limit::Network, Some((places / 4).max(room.least))),
            (Limit::Site, Some(2 * (places / 4).max(room.least))),
            (Limit::Organization, (!reserved).then_some((places / 2).max(room.least))),
            (Limit::Part, Some(places)),
        ];
        let exceeded =
            |limit: Limit, most: Option<usize>| most.is_some_and(|most| part.waiting(limit, new) > most);
        limits.into_iter().find(|(limit, most)| exceeded(*limit, *most)).map(|(limit, _)| limit)
    }

    /// The jobs that the limit concerns and that belong to heavy networks or organizations. Thus a new job is one of them
    /// unless it is clearly lighter, and is refused at once; else an old one would leave for it again and again where all
    /// weigh about the same, and hear of it after a wait. None that is lighter than a new job leaves for it. Nobody hears of
    /// who leaves the reserve: there only the heaviest do.
    fn heavy(&self, new: &Origin, reserved: bool, limit: Limit) -> Vec<Source<'_>> {
        let part = if reserved { &self.reserve } else { &self.common };
        // The reserve is apart from a storm on an organization.
        let weights_of = |network: usize, organization: usize| match reserved {
            true => (network, 0),
            false => (network.max(organization), network.min(organization)),
        };
        let weights = |source: &Source<'_>| weights_of(source.network_weight, source.organization_weight);
        let is_heavy = |weight: usize, heaviest: usize| {
            weight == heaviest || (!reserved && HEAVY * weight.saturating_sub(1) >= heaviest)
        };
        let mut concerned = part.sources(limit, new);
        let mut keep_heavy = |weight: &dyn Fn(&Source<'_>) -> usize| {
            let heaviest = concerned.iter().map(weight).max().unwrap_or(0);
            concerned.retain(|source| is_heavy(weight(source), heaviest));
        };
        keep_heavy(&|source| weights(source).0);
        keep_heavy(&|source| weights(source).1);
        let own = weights_of(part.weight(new.network), part.organization_weight(&new.organization));
        if !reserved && concerned.iter().any(|source| weights(source) == own) {
            concerned.retain(|source| weights(source) >= own);
        }
        concerned
    }
}

/// A limit on the jobs of a part that have something in common with a new one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// Of the same known browser and account.
    Known,
    /// Of the same network.
    Network,
    /// Of the same site, if it is one of IPv6.
    Site,
    /// About the same organization.
    Organization,
    /// All.
    Part,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    /// Nothing is lent.
    const ROOM: Room = Room { reserve: 4, common: 12, least: 1, all: 0 };
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// No job is late, and of equals this one leaves: a number, or the newest.
    struct Drawn(usize);
    fn newest() -> Drawn {
        Drawn(usize::MAX)
    }

    impl<J> Chance<J> for Drawn {
        fn is_late(&self, _: &J) -> bool {
            false
        }
        fn draw(&mut self, most: usize) -> usize {
            if self.0 == usize::MAX { most - 1 } else { self.0 % most }
        }
    }

    fn stranger(network: u8, organization: &str) -> Origin {
        Origin {
            network: Network::of([10, 0, 0, network].into()),
            organization: organization.to_owned(),
            known: None,
        }
    }

    /// From a network of a site of IPv6.
    fn of_sites(site: u8, network: u8, organization: &str) -> Origin {
        let address = std::net::Ipv6Addr::from([0x2001, 0xdb8, site.into(), network.into(), 0, 0, 0, 1]);
        Origin { network: Network::of(address.into()), ..stranger(0, organization) }
    }

    fn known(network: u8, who: &str) -> Origin {
        Origin { known: Some(who.to_owned()), ..stranger(network, "acme") }
    }

    /// A queue whose common part seven networks have filled at two organizations.
    fn attacked() -> FairQueue<&'static str> {
        let mut queue = FairQueue::default();
        for turn in 0..100_u8 {
            let organization = if turn % 2 == 0 { "acme" } else { "platform" };
            queue.push(stranger(turn % 7, organization), "attack", ROOM, *START, &mut Drawn(turn.into()));
        }
        assert_eq!(queue.len(), ROOM.common);
        queue
    }

    #[test]
    fn a_new_browser_gets_in_and_one_of_the_heaviest_is_shed() {
        for organization in ["quiet", "acme"] {
            for draw in 0..ROOM.common {
                let mut queue = attacked();
                let shed = queue.push(stranger(200, organization), "user", ROOM, *START, &mut Drawn(draw));
                assert_eq!(shed, ["attack"], "{organization}");
            }
        }
    }

    #[test]
    fn later_attacks_do_not_shed_a_light_network() {
        let mut queue = attacked();
        queue.push(stranger(200, "quiet"), "user", ROOM, *START, &mut Drawn(0));
        for turn in 0..1000_u32 {
            let origin = stranger((turn % 7) as u8, if turn % 3 == 0 { "acme" } else { "platform" });
            let shed = queue.push(origin, "attack", ROOM, *START, &mut Drawn(turn as usize));
            assert!(!shed.contains(&"user"));
        }
    }

    #[test]
    fn strangers_do_not_enter_the_reserve() {
        let mut queue = attacked();
        for who in 0..4_u8 {
            assert!(
                queue
                    .push(known(100 + who, &who.to_string()), "known", ROOM, *START, &mut Drawn(0))
                    .is_empty()
            );
        }
        assert_eq!(queue.len(), ROOM.common + ROOM.reserve);
        let shed = queue.push(known(150, "five"), "known", ROOM, *START, &mut newest());
        assert_eq!(shed, ["attack"], "one more takes a place of the common part, as a light network");
    }

    #[test]
    fn known_browsers_that_an_attacker_made_give_way() {
        let mut queue = FairQueue::default();
        let room = Room { reserve: 12, ..ROOM };
        for who in 0..200_u8 {
            queue.push(known(who % 5, &who.to_string()), "attack", room, *START, &mut Drawn(who.into()));
        }
        for _ in 0..PER_KNOWN {
            assert_eq!(queue.push(known(200, "olga"), "owner", room, *START, &mut newest()), ["attack"]);
        }
        let owners =
            queue.jobs.values().filter(|one| one.job == "owner" && one.room == Where::Reserve).count();
        assert_eq!(owners, PER_KNOWN);
    }

    #[test]
    fn a_network_that_came_lately_is_heavier_than_a_new_one() {
        for draw in 0..5 {
            let mut queue = FairQueue::default();
            for turn in 0..12_u8 {
                queue.push(stranger(turn % 4, &turn.to_string()), "attack", ROOM, *START, &mut Drawn(0));
                queue.pop();
            }
            for turn in 0..12_u8 {
                queue.push(stranger(turn % 4, &turn.to_string()), "attack", ROOM, *START, &mut Drawn(0));
            }
            assert_eq!(queue.push(stranger(100, "a"), "user", ROOM, *START, &mut Drawn(draw)), ["attack"]);
            for turn in 0..100_u8 {
                let shed = queue.push(stranger(turn % 4, "b"), "attack", ROOM, *START, &mut Drawn(draw * 7));
                assert_eq!(shed, ["attack"]);
            }
            assert!(queue.common.recently() <= RECENT * ROOM.common);
        }
    }

    /// Jobs that are true came lately.
    struct Late(usize);

    impl Chance<bool> for Late {
        fn is_late(&self, job: &bool) -> bool {
            *job
        }
        fn draw(&mut self, most: usize) -> usize {
            self.0 % most
        }
    }

    #[test]
    fn of_equals_one_that_came_lately_is_shed() {
        let room = Room { common: 16, ..ROOM };
        for (new, late) in [(true, true), (false, false)] {
            let mut places = std::collections::BTreeSet::new();
            for draw in 0..100 {
                let mut queue = FairQueue::default();
                for job in [false, false, late, late] {
                    assert!(queue.push(stranger(1, "acme"), job, room, *START, &mut Late(0)).is_empty());
                }
                assert_eq!(queue.push(stranger(1, "acme"), new, room, *START, &mut Late(draw)), [late]);
                places.extend((0..5).filter(|number| !queue.jobs.contains_key(number)));
            }
            let expected = if late { vec![2, 3, 4] } else { vec![0, 1, 2, 3, 4] };
            assert_eq!(places.into_iter().collect::<Vec<u64>>(), expected);
        }
    }

    #[test]
    fn a_new_one_is_refused_at_once_unless_it_is_clearly_lighter() {
        let room = Room { common: 16, ..ROOM };
        for (ran, expected) in [(1, true), (0, false)] {
            let mut queue = FairQueue::default();
            for _ in 0..ran {
                queue.push(stranger(9, "9"), false, room, *START, &mut Late(0));
                queue.pop();
            }
            for network in (0..4).cycle().take(room.common) {
                let old = stranger(network, &network.to_string());
                assert!(queue.push(old, false, room, *START, &mut Late(0)).is_empty());
            }
            // Each of the others has four that wait. One beside the new one is a quarter of that.
            let shed = queue.push(stranger(9, "9"), true, room, *START, &mut Late(0));
            assert_eq!(shed, [expected], "{ran} ran before");
        }
    }

    #[test]
    fn a_lighter_one_does_not_leave_for_a_heavier_new_one() {
        let room = Room { common: 16, ..ROOM };
        let attack = |network: u8| stranger(network, &network.to_string());
        for draw in 0..20 {
            let mut queue = FairQueue::default();
            for network in (0..4).cycle().take(16) {
                queue.push(attack(network), true, room, *START, &mut Late(0));
                queue.pop();
            }
            // Four that wait are heavy, beside three that wait and four that ran. All came lately.
            for network in (0..4).cycle().take(12) {
                assert!(queue.push(attack(network), true, room, *START, &mut Late(0)).is_empty());
            }
            for _ in 0..4 {
                assert!(queue.push(stranger(9, "class"), true, room, *START, &mut Late(0)).is_empty());
            }
            assert_eq!(queue.push(attack(0), true, room, *START, &mut Late(draw)), [true]);
            assert_eq!(queue.common.waiting(Limit::Network, &stranger(9, "class")), 4, "{draw}");
        }
    }

    #[test]
    fn one_job_more_of_a_network_costs_the_same_in_a_long_queue() {
        /// Counts what it is asked.
        struct Counting(std::cell::Cell<usize>);
        impl Chance<u8> for Counting {
            fn is_late(&self, _: &u8) -> bool {
                self.0.set(self.0.get() + 1);
                false
            }
            fn draw(&mut self, most: usize) -> usize {
                most - 1
            }
        }
        let cost = |places: usize| {
            let room = Room::of(places, 1).without_lent();
            let mut queue = FairQueue::default();
            for number in 0..8 * places {
                let network = [10, 1, (number >> 8) as u8, number as u8];
                let origin = Origin {
                    network: Network::of(network.into()),
                    ..stranger(0, &format!("o{}", number % 5))
                };
                queue.push(origin, 0, room, *START, &mut Counting(0.into()));
                if number < 7 * places {
                    queue.pop();
                }
            }
            for _ in 0..room.common / 4 {
                queue.push(stranger(1, "acme"), 1, room, *START, &mut Counting(0.into()));
            }
            let mut counting = Counting(0.into());
            let new = stranger(1, "acme");
            let shed = queue.push(new.clone(), 1, room, *START, &mut counting);
            assert_eq!(shed, [1], "{places}");
            (queue.common.sources(Limit::Network, &new).len(), counting.0.get())
        };
        let (short, long) = (cost(40), cost(40 << 5));
        assert_eq!((short.0, long.0), (1, 1), "sources that are weighed");
        // A search for those that came lately in each of these sources.
        assert!(long.1 <= short.1 + 5, "{short:?} {long:?}");
    }

    #[test]
    fn what_is_counted_is_what_waits_and_ran_lately() {
        let mut queue = FairQueue::default();
        for turn in 0..500_u16 {
            let [_, low] = turn.to_be_bytes();
            let origin = match turn % 3 {
                0 => known(low % 11, &format!("{}", turn % 17)),
                1 => stranger(low % 7, "acme"),
                _ if turn % 5 == 0 => of_sites(low % 2, low % 9, "acme"),
                _ => stranger(low % 13, "platform"),
            };
            queue.push(origin, turn, ROOM, *START, &mut Drawn(turn.into()));
            if turn % 4 == 0 {
                queue.pop();
            }
            for (room, part) in [(Where::Reserve, &queue.reserve), (Where::Common, &queue.common)] {
                let waiting = || queue.jobs.values().filter(|one| one.room == room);
                let asking =
                    [known(3, "5"), stranger(2, "acme"), stranger(4, "platform"), of_sites(1, 3, "acme")];
                for new in asking {
                    let of_site = |one: &&Waiting<_>| one.origin.network.site() == new.network.site();
                    let concerned = |limit: Limit| match limit {
                        Limit::Known => waiting().filter(|one| one.origin.known == new.known).count(),
                        Limit::Network => waiting().filter(|one| one.origin.network == new.network).count(),
                        Limit::Site => {
                            waiting().filter(|one| of_site(one) && new.network.site().is_some()).count()
                        }
                        Limit::Organization => {
                            waiting().filter(|one| one.origin.organization == new.organization).count()
                        }
                        Limit::Part => waiting().count(),
                    };
                    let limits = [Limit::Network, Limit::Site, Limit::Organization, Limit::Part];
                    let limits = limits.into_iter().chain(new.known.is_some().then_some(Limit::Known));
                    for limit in limits {
                        let sources = part.sources(limit, &new);
                        let jobs = sources.iter().flat_map(|source| source.jobs);
                        assert!(jobs.clone().all(|number| queue.jobs[number].room == room));
                        let counts = (part.waiting(limit, &new), jobs.count());
                        assert_eq!(counts, (concerned(limit), concerned(limit)), "{turn} {limit:?} {new:?}");
                    }
                }
            }
        }
        while queue.pop().is_some() {}
        for part in [&mut queue.common, &mut queue.reserve] {
            part.forget_all_but(0);
            assert!(part.is_empty(), "nothing is left behind");
        }
    }

    #[test]
    fn the_networks_of_a_site_have_two_quarters_and_leave_room_for_a_new_browser() {
        let mut queue = FairQueue::default();
        for network in 0..240 {
            queue.push(of_sites(0, network, &network.to_string()), "attack", ROOM, *START, &mut Drawn(0));
        }
        assert_eq!(queue.len(), 6);
        // At one organization, beside attackers of other networks, and with jobs that ran before.
        for turn in 0..1000_u32 {
            let [.., low] = turn.to_be_bytes();
            let origin = if turn % 4 == 0 { stranger(low % 3, "acme") } else { of_sites(0, low, "acme") };
            queue.push(origin, "attack", ROOM, *START, &mut Drawn(turn as usize));
            if turn % 3 == 0 {
                queue.pop();
            }
        }
        for user in 0..20 {
            let origin = stranger(100 + user, "acme");
            let shed = queue.push(origin, "user", ROOM, *START, &mut Drawn(user.into()));
            assert!(!shed.contains(&"user"), "{user}");
            for network in 0..240 {
                let shed = queue.push(
                    of_sites(0, network, "acme"),
                    "attack",
                    ROOM,
                    *START,
                    &mut Drawn(network.into()),
                );
                assert!(!shed.contains(&"user"), "{user}: {network}");
            }
            while queue.pop().is_some_and(|job| job != "user") {}
        }
    }

    #[test]
    fn a_network_has_a_quarter_and_an_organization_half() {
        let mut queue = FairQueue::default();
        for organization in ["a", "b", "c", "d"] {
            queue.push(stranger(1, organization), "job", ROOM, *START, &mut Drawn(0));
        }
        assert_eq!(queue.len(), 3);
        for network in 10..30 {
            queue.push(stranger(network, "e"), "job", ROOM, *START, &mut Drawn(0));
        }
        assert_eq!(queue.len(), 9);
    }

    /// Draws from a seed. Times are in seconds.
    struct Simulated {
        now: f64,
        seed: u64,
    }

    impl Simulated {
        /// From 0 to below 1, by a linear congruential generator (Knuth's MMIX).
        fn random(&mut self) -> f64 {
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    impl Chance<f64> for Simulated {
        fn is_late(&self, arrived: &f64) -> bool {
            self.now - arrived < super::super::hash::SHED_WITHIN.as_secs_f64()
        }
        fn draw(&mut self, most: usize) -> usize {
            (self.random() * most as f64) as usize
        }
    }

    #[test]
    fn who_is_refused_hears_it_at_once_at_any_load() {
        const CAPACITY: f64 = 60.0;
        for multiple in [1.0, 1.2, 1.5, 3.0, 10.0] {
            let mut chance = Simulated { now: 0.0, seed: 7 };
            let mut queue = FairQueue::default();
            let (mut thread_free, mut refused) = (0.0, Vec::new());
            for turn in 0..(CAPACITY * multiple * 20.0) as u32 {
                chance.now += -(1.0 - chance.random()).ln() / (CAPACITY * multiple);
                while thread_free <= chance.now {
                    let Some(arrived) = queue.pop() else { break };
                    thread_free = f64::max(thread_free, arrived) + 1.0 / CAPACITY;
                }
                // The room follows the time of a hash, which is longer now and then.
                let places = if chance.random() < 0.3 { 60 } else { 90 };
                let account = (turn % 100) as u8;
                let origin = stranger(account, &(account % 10).to_string());
                let at = *START + std::time::Duration::from_secs_f64(chance.now);
                let arrived = chance.now;
                let shed = queue.push(origin, arrived, Room::of(places, 1), at, &mut chance);
                refused.extend(shed.into_iter().map(|since| arrived - since));
            }
            refused.sort_by(f64::total_cmp);
            let place = refused.len() * 99 / 100;
            let p99 = refused.get(place).copied().unwrap_or(0.0);
            assert!(p99 < 0.05, "{multiple} times the capacity: {} refused, p99 {p99} s", refused.len());
        }
    }
}
