//! Limits for TLS handshakes. One costs the server a signature, thousands of times what its packets cost the client.
//!
//! A network has a number of handshakes at once, and a rate; the /48 of an IPv6 address, which one customer may have, has
//! twice the number and four times the rate. Handshakes above the rate wait for their turn. One above the number ends the
//! oldest, which has waited longest for its client. Addresses without a share of places have no limit here either.

use super::cidr::Cidr;
use super::network::{Counted, Network};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Handshakes of one network at once, with those that wait.
const AT_ONCE: usize = 64;
/// From one handshake of a network to the next in the long run: 100 a second, some 2 % of a core.
const EVERY: Duration = Duration::from_millis(10);
/// How far a network may be ahead of that: 500 handshakes in a burst.
const AHEAD: Duration = Duration::from_secs(5);
/// The longest wait for a handshake.
const DEBT_MAX: Duration = Duration::from_secs(30);
/// Networks in memory before those that are forgotten whose burst is whole again.
const NETWORKS_MAX: usize = 1_000;

/// The handshakes of each network.
pub(crate) struct Handshakes {
    exempt: Vec<Cidr>,
    networks: Mutex<Networks>,
}

/// The number at once, and the time from one handshake to the next.
fn limits(counted: Counted) -> (usize, Duration) {
    if counted.is_site() { (2 * AT_ONCE, EVERY / 4) } else { (AT_ONCE, EVERY) }
}

#[derive(Default)]
struct Networks {
    counted: HashMap<Counted, Own>,
    /// How many there may be before the next look at those that can be forgotten.
    room: usize,
    next_id: u64,
}

struct Own {
    /// By their numbers, the oldest first.
    running: BTreeMap<u64, Arc<Notify>>,
    /// When the last handshake would begin without a burst.
    until: Instant,
}

/// A handshake; dropping it ends it.
pub(crate) struct Handshake<'a> {
    of: &'a Handshakes,
    address: Option<IpAddr>,
    id: u64,
    end: Arc<Notify>,
    wait: Duration,
}

impl Handshakes {
    pub(crate) fn new(exempt: Vec<Cidr>) -> Handshakes {
        Handshakes { exempt, networks: Mutex::default() }
    }

    /// Begins a handshake with a client.
    pub(crate) fn begin(&self, address: IpAddr, now: Instant) -> Handshake<'_> {
        let end = Arc::new(Notify::new());
        if self.exempt.iter().any(|block| block.contains(address)) {
            return Handshake { of: self, address: None, id: 0, end, wait: Duration::ZERO };
        }
        let mut networks = self.networks.lock();
        networks.forget(now);
        networks.next_id += 1;
        let id = networks.next_id;
        let mut longest = Duration::ZERO;
        for counted in Network::of(address).counted() {
            let (at_once, every) = limits(counted);
            let own = networks.counted.entry(counted);
            let own = own.or_insert_with(|| Own { running: BTreeMap::new(), until: now });
            if own.running.len() >= at_once
                && let Some((_, oldest)) = own.running.pop_first()
            {
                oldest.notify_one();
            }
            own.running.insert(id, end.clone());
            longest = longest.max(own.until.saturating_duration_since(now).saturating_sub(AHEAD));
            // After a flood of connections, others of the same address do not wait for as long as the flood lasted.
            own.until = (own.until.max(now) + every).min(now + AHEAD + DEBT_MAX);
        }
        Handshake { of: self, address: Some(address), id, end, wait: longest }
    }
}

impl Networks {
    /// Forgets networks that may begin a whole burst, when there are many.
    fn forget(&mut self, now: Instant) {
        if self.counted.len() < self.room.max(NETWORKS_MAX) {
            return;
        }
        self.counted.retain(|_, own| !own.running.is_empty() || own.until > now);
        self.room = 2 * self.counted.len();
    }
}

impl Handshake<'_> {
    /// How long to wait before it.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// Waits until a later handshake of its network takes its place.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut networks = self.of.networks.lock();
        for counted in Network::of(address).counted() {
            if let Some(own) = networks.counted.get_mut(&counted) {
                own.running.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn has_ended(handshake: &Handshake<'_>) -> bool {
        let mut ended = std::pin::pin!(handshake.ended());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        ended.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn the_oldest_handshake_of_a_network_goes_for_a_new_one() {
        let (handshakes, now) = (Handshakes::new(Cidr::LOOPBACK.to_vec()), Instant::now());
        let begin = |text: &str| handshakes.begin(address(text), now);
        let running: Vec<_> = (0..AT_ONCE).map(|_| begin("2001:db8::1")).collect();
        let own: Vec<_> = (0..2 * AT_ONCE).map(|_| begin("127.0.0.1")).collect();
        let _other = begin("203.0.113.9");
        assert!(!running.iter().chain(&own).any(has_ended), "there is room, and this machine has no limit");
        let new = begin("2001:db8::2");
        assert!(has_ended(&running[0]), "the same network");
        assert!(!running[1..].iter().chain([&new]).any(has_ended));
        drop(running);
        let next: Vec<_> = (0..AT_ONCE - 1).map(|_| begin("2001:db8::3")).collect();
        assert!(!next.iter().chain([&new]).any(has_ended), "the ended ones have left their places");
    }

    #[test]
    fn a_network_waits_no_longer_after_a_long_flood() {
        let (handshakes, now) = (Handshakes::new(Vec::new()), Instant::now());
        (0..300_000).for_each(|_| drop(handshakes.begin(address("203.0.113.9"), now)));
        assert_eq!(handshakes.begin(address("203.0.113.9"), now).wait(), DEBT_MAX);
    }

    #[test]
    fn the_networks_of_a_site_share() {
        let (handshakes, now) = (Handshakes::new(Vec::new()), Instant::now());
        let networks: Vec<IpAddr> = (0..200).map(|net| address(&format!("2001:db8:0:{net:x}::1"))).collect();
        let running: Vec<_> = networks.iter().map(|address| handshakes.begin(*address, now)).collect();
        assert_eq!(running.iter().filter(|one| has_ended(one)).count(), 200 - 2 * AT_ONCE);
        drop(running);
        let waits = (0..50).flat_map(|_| &networks).map(|address| handshakes.begin(*address, now).wait());
        let longest = waits.max().unwrap_or_default();
        assert!(longest > 15 * AHEAD / 5, "10,200 handshakes at 400 a second, after a burst: {longest:?}");
    }

    #[test]
    fn handshakes_above_the_rate_wait_for_their_turn() {
        let (handshakes, start) = (Handshakes::new(Vec::new()), Instant::now());
        let wait = |after: Duration| handshakes.begin(address("203.0.113.9"), start + after).wait();
        for _ in 0..=500 {
            assert_eq!(wait(Duration::ZERO), Duration::ZERO, "a burst");
        }
        assert_eq!(wait(Duration::ZERO), EVERY);
        assert_eq!(wait(Duration::ZERO), 2 * EVERY);
        assert_eq!(wait(3 * EVERY), Duration::ZERO);
        assert_eq!(wait(3 * EVERY), EVERY);
        assert_eq!(handshakes.begin(address("203.0.113.10"), start).wait(), Duration::ZERO);
        assert_eq!(wait(Duration::from_secs(60)), Duration::ZERO, "the burst is whole again");
    }

    #[test]
    fn networks_without_handshakes_are_forgotten() {
        let (handshakes, start) = (Handshakes::new(Vec::new()), Instant::now());
        for number in 0..50 * NETWORKS_MAX {
            let now = start + Duration::from_millis(number as u64);
            let client = IpAddr::from((number as u32).to_be_bytes());
            drop(handshakes.begin(client, now));
        }
        assert!(handshakes.networks.lock().counted.len() <= 2 * NETWORKS_MAX);
    }
}
