//! Limits for TLS handshakes. One costs the server a signature, thousands of times what its packets cost the client.
//!
//! A network has a number of handshakes at once, and a rate. Handshakes above the rate wait for their turn; those above
//! the number are refused. Addresses without a share of places have no limit here either.

use super::cidr::Cidr;
use super::network::network;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Handshakes of one network at once, with those that wait.
const AT_ONCE: usize = 64;
/// From one handshake of a network to the next in the long run: 100 a second, some 2 % of a core.
const EVERY: Duration = Duration::from_millis(10);
/// How far a network may be ahead of that: 500 handshakes in a burst.
const AHEAD: Duration = Duration::from_secs(5);
/// Networks in memory before those that are forgotten whose burst is whole again.
const NETWORKS_MAX: usize = 1_000;

/// The handshakes of each network.
pub(crate) struct Handshakes {
    exempt: Vec<Cidr>,
    networks: Mutex<Networks>,
}

#[derive(Default)]
struct Networks {
    by_address: HashMap<IpAddr, OfNetwork>,
    /// How many there may be before the next look at those that can be forgotten.
    room: usize,
}

struct OfNetwork {
    running: usize,
    /// When the last handshake would begin without a burst.
    until: Instant,
}

/// A handshake; dropping it ends it.
pub(crate) struct Handshake<'a> {
    of: &'a Handshakes,
    network: Option<IpAddr>,
    wait: Duration,
}

impl Handshakes {
    pub(crate) fn new(exempt: Vec<Cidr>) -> Handshakes {
        Handshakes { exempt, networks: Mutex::default() }
    }

    /// Begins a handshake with a client. None if its network has too many.
    pub(crate) fn begin(&self, address: IpAddr, now: Instant) -> Option<Handshake<'_>> {
        if self.exempt.iter().any(|block| block.contains(address)) {
            return Some(Handshake { of: self, network: None, wait: Duration::ZERO });
        }
        let network = network(address.to_canonical());
        let mut networks = self.networks.lock();
        networks.forget(now);
        let own = networks.by_address.entry(network).or_insert(OfNetwork { running: 0, until: now });
        if own.running >= AT_ONCE {
            return None;
        }
        own.running += 1;
        let wait = own.until.saturating_duration_since(now).saturating_sub(AHEAD);
        own.until = own.until.max(now) + EVERY;
        Some(Handshake { of: self, network: Some(network), wait })
    }
}

impl Networks {
    /// Forgets networks that may begin a whole burst, when there are many.
    fn forget(&mut self, now: Instant) {
        if self.by_address.len() < self.room.max(NETWORKS_MAX) {
            return;
        }
        self.by_address.retain(|_, network| network.running > 0 || network.until > now);
        self.room = 2 * self.by_address.len();
    }
}

impl Handshake<'_> {
    /// How long to wait before it.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        let Some(network) = self.network else { return };
        if let Some(own) = self.of.networks.lock().by_address.get_mut(&network) {
            own.running -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_has_a_number_of_handshakes_at_once() {
        let (handshakes, now) = (Handshakes::new(Cidr::LOOPBACK.to_vec()), Instant::now());
        let begin = |text: &str| handshakes.begin(address(text), now);
        let running: Vec<_> = (0..AT_ONCE).map(|_| begin("2001:db8::1").expect("a handshake")).collect();
        assert!(begin("2001:db8::2").is_none(), "the same network");
        assert!(begin("203.0.113.9").is_some());
        let own: Vec<_> = (0..2 * AT_ONCE).map(|_| begin("127.0.0.1")).collect();
        assert!(own.iter().all(Option::is_some), "this machine");
        drop(running);
        assert!(begin("2001:db8::2").is_some());
    }

    #[test]
    fn handshakes_above_the_rate_wait_for_their_turn() {
        let (handshakes, start) = (Handshakes::new(Vec::new()), Instant::now());
        let wait = |after: Duration| {
            handshakes.begin(address("203.0.113.9"), start + after).expect("a handshake").wait()
        };
        for _ in 0..=500 {
            assert_eq!(wait(Duration::ZERO), Duration::ZERO, "a burst");
        }
        assert_eq!(wait(Duration::ZERO), EVERY);
        assert_eq!(wait(Duration::ZERO), 2 * EVERY);
        assert_eq!(wait(3 * EVERY), Duration::ZERO);
        assert_eq!(wait(3 * EVERY), EVERY);
        let other = handshakes.begin(address("203.0.113.10"), start).expect("a handshake");
        assert_eq!(other.wait(), Duration::ZERO);
        assert_eq!(wait(Duration::from_secs(60)), Duration::ZERO, "the burst is whole again");
    }

    #[test]
    fn networks_without_handshakes_are_forgotten() {
        let (handshakes, start) = (Handshakes::new(Vec::new()), Instant::now());
        for number in 0..50 * NETWORKS_MAX {
            let now = start + Duration::from_millis(number as u64);
            let client = IpAddr::from((number as u32).to_be_bytes());
            assert!(handshakes.begin(client, now).is_some());
        }
        assert!(handshakes.networks.lock().by_address.len() <= 2 * NETWORKS_MAX);
    }
}
