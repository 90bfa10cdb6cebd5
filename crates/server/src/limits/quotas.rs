//! The number of device codes that a client has pending: bounded, so that a broken or hostile one cannot fill the disk. When
//! half of the room is taken, one network gets at most a tenth of what is left, and a site a fifth, so that a few networks
//! cannot take all of it.
//!
//! Counted in memory by the minute of creation. A code counts for its whole life, also after the decision.

use identity::Time;
use identity::ids::ClientId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use web::network::{Counted, Network};

const MINUTE_MS: i64 = 60_000;
/// The minutes of a code's life, and one for rounding.
const MINUTES: usize = 16;

#[derive(Default)]
pub(crate) struct Quota(Mutex<HashMap<ClientId, Counts>>);

#[derive(Default)]
struct Counts {
    newest_minute: i64,
    by_minute: [Minute; MINUTES],
}

#[derive(Default)]
struct Minute {
    all: usize,
    by_network: HashMap<Counted, usize>,
}

impl Quota {
    /// Counts a new code of a client, or returns the time to wait for room.
    pub(crate) fn admit(
        &self,
        client: &ClientId,
        address: IpAddr,
        most: usize,
        now: Time,
    ) -> Result<(), Duration> {
        let minute = now.millis() / MINUTE_MS;
        let mut clients = self.0.lock();
        if let Some(counts) = clients.get_mut(client) {
            return counts.admit(Network::of(address), most, minute);
        }
        clients.retain(|_, counts| (minute - counts.newest_minute).abs() < MINUTES as i64);
        let mut counts = Counts { newest_minute: minute, ..Counts::default() };
        let admitted = counts.admit(Network::of(address), most, minute);
        clients.insert(client.clone(), counts);
        admitted
    }
}

impl Counts {
    fn admit(&mut self, network: Network, most: usize, minute: i64) -> Result<(), Duration> {
        // Two requests may come here in another order than they read the clock.
        if minute + 1 < self.newest_minute {
            *self = Counts { newest_minute: minute, ..Counts::default() };
        }
        self.turn(minute);
        let all: usize = self.by_minute.iter().map(|minute| minute.all).sum();
        let left = most.saturating_sub(all);
        let has_share = |counted: Counted| self.of(counted) >= counted.share() * left.div_ceil(10);
        if left == 0 || (left <= most / 2 && network.counted().any(has_share)) {
            return Err(Duration::from_secs(60));
        }
        let current = &mut self.by_minute[minute.rem_euclid(MINUTES as i64) as usize];
        current.all += 1;
        network.counted().for_each(|counted| *current.by_network.entry(counted).or_default() += 1);
        Ok(())
    }

    fn of(&self, counted: Counted) -> usize {
        self.by_minute.iter().filter_map(|minute| minute.by_network.get(&counted)).sum()
    }

    /// Forgets the minutes that are over.
    fn turn(&mut self, minute: i64) {
        let passed = (minute - self.newest_minute).clamp(0, MINUTES as i64);
        for step in 0..passed {
            self.by_minute[(minute - step).rem_euclid(MINUTES as i64) as usize] = Minute::default();
        }
        self.newest_minute = self.newest_minute.max(minute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::secrets::testing::Seeded;

    fn start() -> Time {
        Time::from_millis(1_800_000_000_000)
    }

    fn client(seed: u64) -> ClientId {
        ClientId::new(start(), &Seeded::new(seed))
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    #[test]
    fn a_client_that_asks_for_too_many_waits_and_others_do_not() {
        let (pending, one, other) = (Quota::default(), client(1), client(2));
        for number in 0..100 {
            assert!(pending.admit(&one, address(number), 100, start()).is_ok());
        }
        let later = |minutes: u64| start() + Duration::from_secs(minutes * 60);
        assert!(pending.admit(&one, address(200), 100, later(14)).is_err());
        assert!(pending.admit(&other, address(200), 100, start()).is_ok());
        assert!(pending.admit(&one, address(200), 100, later(16)).is_ok());
    }

    #[test]
    fn a_clock_that_is_set_back_begins_a_new_count() {
        let (pending, one) = (Quota::default(), client(1));
        let before = start() - Duration::from_secs(3600);
        for number in 0..100 {
            assert!(pending.admit(&one, address(number), 100, start()).is_ok());
        }
        let a_moment_before = start() - Duration::from_millis(1);
        assert!(pending.admit(&one, address(200), 100, a_moment_before).is_err(), "that is no new count");
        for number in 0..100 {
            assert!(pending.admit(&one, address(number), 100, before).is_ok());
        }
        assert!(pending.admit(&one, address(200), 100, before).is_err());
        assert!(pending.admit(&one, address(200), 100, before + Duration::from_secs(16 * 60)).is_ok());
    }

    #[test]
    fn one_network_has_a_tenth_of_what_is_left_when_half_is_taken() {
        let (pending, one) = (Quota::default(), client(1));
        let admit = |number| pending.admit(&one, address(number), 1000, start()).is_ok();
        assert!((0..490).all(|_| admit(1)), "alone, it may have more");
        assert!((0..10).all(|_| admit(2)));
        assert!(!admit(1), "half is taken");
        assert_eq!((0..100).filter(|_| admit(2)).count(), 37, "with its 10 a tenth of the 463 that are left");
        assert_eq!((0..100).filter(|_| admit(3)).count(), 43);
        assert!((4..424).all(admit), "there is room for others");
        assert!(!admit(9999), "the client has its own limit");
    }

    #[test]
    fn a_few_sites_leave_room_for_others() {
        let (pending, one) = (Quota::default(), client(1));
        let admit = |site: u32, network: u32| {
            let address = format!("2001:db8:{site:x}:{network:x}::1").parse().expect("an address");
            pending.admit(&one, address, 10_000, start()).is_ok()
        };
        let of_site = |site: u32| {
            // Each network of the site asks until it is refused.
            (0..500).map(|network| (0..10_000).take_while(|_| admit(site, network)).count()).sum::<usize>()
        };
        let taken: Vec<usize> = (0..10).map(of_site).collect();
        assert!(taken[0] <= 5_000 && taken[1] <= 1_000, "{taken:?}");
        for number in 0..50 {
            assert!(
                pending.admit(&one, address(number), 10_000, start()).is_ok(),
                "{number} after {taken:?}"
            );
        }
    }
}
