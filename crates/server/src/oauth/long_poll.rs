//! Long polling for the device grant: holds polls of pending codes, and detects polls that come too early.
//!
//! Poll times are in memory, in two generations that replace each other, so their memory is bounded for any number of
//! codes. A poll whose previous time was dropped counts as the first one.

use identity::Time;
use identity::ids::DeviceId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use web::network::{Counted, Network};

/// The interval at which a device should poll.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// The tolerance for early polls, because clocks and networks are not exact.
const TOLERANCE: Duration = Duration::from_secs(1);
/// The maximum number of held polls, in total and from one network; from a site twice as many.
const HELD_MAX: usize = 20_000;
const HELD_PER_NETWORK_MAX: usize = 200;
/// The maximum number of poll times in one generation, and its minimum age.
const REMEMBERED: usize = 40_000;
const GENERATION: Duration = Duration::from_secs(30);

/// How to answer a poll of a pending code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The first poll of the code is answered at once.
    First,
    /// The poll is on time and may be held.
    OnTime,
    /// The poll is too early.
    TooSoon,
}

#[derive(Default)]
pub(crate) struct LongPolls {
    state: Mutex<State>,
    hasher: RandomState,
    /// Set when the server stops. Then no poll is held.
    closing: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
struct State {
    held: HashMap<DeviceId, Held>,
    counts: HashMap<Counted, usize>,
    young: HashMap<u64, Poll>,
    old: HashMap<u64, Poll>,
    turned_at: Time,
    counter: u64,
}

struct Held {
    number: u64,
    network: Network,
    wake: Arc<Notify>,
}

#[derive(Clone, Copy)]
struct Poll {
    at: Time,
    interval_s: u32,
}

/// A held poll. Dropping it frees its place.
pub(crate) struct HeldPoll {
    long_polls: Arc<LongPolls>,
    device: DeviceId,
    number: u64,
    wake: Arc<Notify>,
}

impl LongPolls {
    /// Records a poll and returns how to answer it.
    pub(crate) fn pace(&self, device: &DeviceId, now: Time) -> Pace {
        let key = self.hasher.hash_one(device);
        let mut state = self.state.lock();
        if state.young.len() >= REMEMBERED || now.since(state.turned_at) > GENERATION {
            state.old = std::mem::take(&mut state.young);
            state.turned_at = now;
        }
        let normal = INTERVAL.as_secs() as u32;
        let earlier = state.young.get(&key).or_else(|| state.old.get(&key)).copied();
        let (pace, interval_s) = match earlier {
            None => (Pace::First, normal),
            Some(poll) => {
                let gap = now.since(poll.at) + TOLERANCE;
                let asked = Duration::from_secs(poll.interval_s.into());
                if gap < asked / 2 {
                    (Pace::TooSoon, (poll.interval_s + normal).min(60))
                } else if gap >= asked {
                    (Pace::OnTime, normal)
                } else {
                    (Pace::OnTime, poll.interval_s)
                }
            }
        };
        state.young.insert(key, Poll { at: now, interval_s });
        pace
    }

    /// Takes a place for a poll and releases an older poll of the same code. Returns `None` if all places are taken.
    pub(crate) fn hold(self: &Arc<LongPolls>, device: &DeviceId, address: IpAddr) -> Option<HeldPoll> {
        let network = Network::of(address);
        let mut state = self.state.lock();
        if let Some(older) = state.held.remove(device) {
            older.wake.notify_one();
            state.leave(older.network);
        }
        let closing = self.closing.load(std::sync::atomic::Ordering::Relaxed);
        let has_share = |counted: Counted| {
            let held = state.counts.get(&counted).copied().unwrap_or_default();
            held >= counted.share() * HELD_PER_NETWORK_MAX
        };
        if closing || state.held.len() >= HELD_MAX || network.counted().any(has_share) {
            return None;
        }
        network.counted().for_each(|counted| *state.counts.entry(counted).or_default() += 1);
        state.counter += 1;
        let (number, wake) = (state.counter, Arc::new(Notify::new()));
        state.held.insert(device.clone(), Held { number, network, wake: wake.clone() });
        Some(HeldPoll { long_polls: self.clone(), device: device.clone(), number, wake })
    }

    /// Releases every held poll and holds no more.
    pub(crate) fn close(&self) {
        self.closing.store(true, std::sync::atomic::Ordering::Relaxed);
        for held in self.state.lock().held.values() {
            held.wake.notify_one();
        }
    }

    /// The number of held polls.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().held.len()
    }
}

impl State {
    fn leave(&mut self, network: Network) {
        for counted in network.counted() {
            if let Some(count) = self.counts.get_mut(&counted) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&counted);
                }
            }
        }
    }
}

impl HeldPoll {
    /// Wakes this poll when the code changes. A poll that is woken without a decision answers `authorization_pending`.
    pub(crate) fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let wake = self.wake.clone();
        move || wake.notify_one()
    }

    /// Waits for a decision, a newer poll, the stop of the server, or the end of `longest`.
    pub(crate) async fn wait(&self, longest: Duration) {
        // The caller reads the state again to see which of them it was.
        let _ = tokio::time::timeout(longest, self.wake.notified()).await;
    }

    /// Whether this is still the newest poll of its code. A newer poll redeems the code itself.
    pub(crate) fn is_newest(&self) -> bool {
        self.long_polls.state.lock().held.get(&self.device).is_some_and(|held| held.number == self.number)
    }
}

impl Drop for HeldPoll {
    fn drop(&mut self) {
        let mut state = self.long_polls.state.lock();
        if state.held.get(&self.device).is_some_and(|held| held.number == self.number)
            && let Some(held) = state.held.remove(&self.device)
        {
            state.leave(held.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::secrets::testing::Seeded;

    fn device(seed: u64) -> DeviceId {
        DeviceId::new(Time::from_millis(1), &Seeded::new(seed))
    }

    fn at(seconds: f64) -> Time {
        Time::from_millis((seconds * 1000.0) as i64)
    }

    #[test]
    fn who_hurries_is_told_and_one_kept_interval_forgives() {
        let (long_polls, code) = (LongPolls::default(), device(1));
        assert_eq!(long_polls.pace(&code, at(0.0)), Pace::First);
        assert_eq!(long_polls.pace(&code, at(1.0)), Pace::TooSoon);
        assert_eq!(long_polls.pace(&code, at(3.0)), Pace::TooSoon, "now 10 s are asked for");
        assert_eq!(long_polls.pace(&code, at(17.0)), Pace::OnTime, "15 s, with a second of tolerance");
        assert_eq!(long_polls.pace(&code, at(19.0)), Pace::OnTime, "forgiven: 5 s again");
    }

    #[test]
    fn a_steady_poller_with_jitter_is_never_told_to_slow_down() {
        let (long_polls, code) = (LongPolls::default(), device(1));
        let mut now = 0.0;
        for poll in 0..120 {
            assert_ne!(long_polls.pace(&code, at(now)), Pace::TooSoon, "poll {poll}");
            now += 5.0 + [0.3, -0.4, 0.0, 0.9, -0.7][poll % 5];
        }
    }

    #[test]
    fn memory_for_poll_times_is_bounded() {
        let long_polls = LongPolls::default();
        for seed in 0..200_000 {
            long_polls.pace(&device(seed), at(seed as f64 / 10_000.0));
        }
        let state = long_polls.state.lock();
        assert!(state.young.len() + state.old.len() <= 2 * REMEMBERED);
    }

    #[tokio::test]
    async fn a_newer_poll_releases_the_older_one() {
        let (long_polls, code) = (Arc::new(LongPolls::default()), device(1));
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        let older = long_polls.hold(&code, address).expect("a place");
        let newer = long_polls.hold(&code, address).expect("a place");
        older.wait(Duration::from_secs(60)).await;
        assert!(!older.is_newest() && newer.is_newest());
        drop(older);
        assert_eq!(long_polls.count(), 1);
        drop(newer);
        assert_eq!(long_polls.count(), 0);
        assert!(long_polls.state.lock().counts.is_empty());
    }

    #[test]
    fn a_network_and_its_site_hold_so_many_polls() {
        let long_polls = Arc::new(LongPolls::default());
        let hold = |number: usize, address: &str| {
            long_polls.hold(&device(number as u64), address.parse().expect("an address"))
        };
        let most = HELD_PER_NETWORK_MAX;
        let one: Vec<_> = (0..most).map_while(|number| hold(number, "2001:db8:0:1::1")).collect();
        assert_eq!(one.len(), most);
        assert!(hold(most, "2001:db8:0:1::2").is_none(), "the same network");
        let rest = (most..).map_while(|number| hold(number, &format!("2001:db8:0:{:x}::1", number + 2)));
        let rest: Vec<_> = rest.collect();
        assert_eq!(rest.len(), most, "a site has twice as many, from however many networks");
        assert!(hold(3 * most, "2001:db8:1::1").is_some() && hold(3 * most, "203.0.113.9").is_some());
        drop((one, rest));
        assert!(long_polls.state.lock().counts.is_empty());
    }
}
