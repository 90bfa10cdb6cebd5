//! The places for connections: their number, their owners, and which connection is closed for a new one.
//!
//! - While more than half of the places are taken, one network holds a tenth at most. A connection beyond that is
//!   reset.
//! - When all are taken, the connection that has made no progress for the longest time is closed for the next one: a
//!   client that does not read, is idle, or has sent no request yet. Progress means that the kernel accepted bytes of a
//!   response. A connection whose request is being handled keeps its place.

use super::cidr::Cidr;
use super::network::{network, site};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The number of connections that one search for the stalest ones returns, because it reads all of them.
const STALEST: usize = 256;
/// How often a full server looks again for a connection to close.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a connection's I/O, its requests and [`Places`] share.
pub(crate) struct Pulse {
    start: Instant,
    /// The time when the kernel last accepted bytes of a response; at first, the time when the connection was accepted.
    progressed_ms: AtomicU64,
    is_handling: AtomicBool,
    is_stream: AtomicBool,
}

impl Pulse {
    /// The pulse of a connection that was accepted now.
    pub(crate) fn new(start: Instant, now: Instant) -> Pulse {
        Pulse {
            start,
            progressed_ms: AtomicU64::new(millis(start, now)),
            is_handling: AtomicBool::new(false),
            is_stream: AtomicBool::new(false),
        }
    }

    /// The kernel accepted bytes of a response.
    pub(crate) fn progressed(&self, now: Instant) {
        self.progressed_ms.store(millis(self.start, now), Relaxed);
    }

    /// A request is being handled, or its response was sent.
    pub(crate) fn set_handling(&self, is_handling: bool) {
        self.is_handling.store(is_handling, Relaxed);
    }

    /// Whether the response is one without a known length, which may have long pauses.
    pub(crate) fn set_stream(&self, is_stream: bool) {
        self.is_stream.store(is_stream, Relaxed);
    }

    /// See [`Pulse::set_stream`].
    pub(crate) fn is_stream(&self) -> bool {
        self.is_stream.load(Relaxed)
    }
}

fn millis(start: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(start).as_millis()).unwrap_or(u64::MAX)
}

/// The rules for places.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Places.
    pub places: usize,
    /// Addresses that many users share, without a share of their own: this machine, and listed proxies.
    pub exempt: Vec<Cidr>,
    /// A connection with more recent progress than this is never closed for another one.
    pub stale_after: Duration,
}

/// The places.
pub(crate) struct Places {
    rules: Rules,
    start: Instant,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    connections: HashMap<u64, Connection>,
    networks: HashMap<Counted, usize>,
    next_id: u64,
    /// The connections with the oldest progress at the last comparison of all, and its time.
    stalest: VecDeque<(u64, u64)>,
}

/// The key by which connections are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Counted {
    Network(IpAddr),
    /// Many networks.
    Site(IpAddr),
}

struct Connection {
    pulse: Arc<Pulse>,
    task: Option<AbortHandle>,
}

/// Why there is no place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The network has used its share.
    Share,
    /// All places are taken.
    Full,
}

/// A place; dropping it frees it.
pub(crate) struct Place {
    places: Arc<Places>,
    id: u64,
    address: IpAddr,
    /// The object to which the connection reports its progress.
    pub(crate) pulse: Arc<Pulse>,
}

impl Place {
    /// The number of the connection.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.connections.remove(&self.id);
        for network in self.places.counted(self.address) {
            if let Some(count) = taken.networks.get_mut(&network) {
                *count -= 1;
                if *count == 0 {
                    taken.networks.remove(&network);
                }
            }
        }
        drop(taken);
        self.places.freed.notify_one();
    }
}

impl Places {
    pub(crate) fn new(rules: Rules, now: Instant) -> Places {
        Places { rules, start: now, taken: Mutex::default(), freed: Notify::new() }
    }

    /// A place for a connection from `address`. Waits while all are taken and none can be freed. `None`: its network has
    /// used its share.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        loop {
            match self.take(address, Instant::now()) {
                Ok(place) => return Some(place),
                Err(Refusal::Share) => return None,
                Err(Refusal::Full) => {}
            }
            self.close_stalest(Instant::now());
            tokio::select! {
                () = self.freed.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// A place for a connection from `address`, if there is one now.
    fn take(self: &Arc<Self>, address: IpAddr, now: Instant) -> Result<Place, Refusal> {
        let mut taken = self.taken.lock();
        let (count, places) = (taken.connections.len(), self.rules.places);
        if count > places / 2 {
            let share = (places / 10).max(1);
            let has_share = |counted: &Counted| {
                let most = if matches!(counted, Counted::Site(_)) { 2 * share } else { share };
                taken.networks.get(counted).is_some_and(|count| *count >= most)
            };
            if self.counted(address).iter().any(has_share) {
                return Err(Refusal::Share);
            }
        }
        if count >= places {
            return Err(Refusal::Full);
        }
        let id = taken.next_id;
        taken.next_id += 1;
        let pulse = Arc::new(Pulse::new(self.start, now));
        taken.connections.insert(id, Connection { pulse: pulse.clone(), task: None });
        for network in self.counted(address) {
            *taken.networks.entry(network).or_default() += 1;
        }
        drop(taken);
        Ok(Place { places: self.clone(), id, address, pulse })
    }

    /// Registers the task that serves a connection. It is aborted when its place is needed.
    pub(crate) fn set_task(&self, id: u64, task: AbortHandle) {
        // A task that has ended has already freed its place.
        if let Some(connection) = self.taken.lock().connections.get_mut(&id) {
            connection.task = Some(task);
        }
    }

    /// The key for an address.
    fn counted(&self, address: IpAddr) -> Vec<Counted> {
        if self.rules.exempt.iter().any(|block| block.contains(address)) {
            return Vec::new();
        }
        let address = address.to_canonical();
        let site = site(address).map(Counted::Site);
        std::iter::once(Counted::Network(network(address))).chain(site).collect()
    }

    /// Closes the connection that has made no progress for the longest time. Returns whether there was one.
    pub(crate) fn close_stalest(&self, now: Instant) -> bool {
        let task = self.taken.lock().stalest(millis(self.start, now), self.rules.stale_after);
        if let Some(task) = &task {
            task.abort();
        }
        task.is_some()
    }
}

impl Taken {
    /// The task of the stalest connection that may be closed; each task is returned once.
    fn stalest(&mut self, now_ms: u64, stale_after: Duration) -> Option<AbortHandle> {
        let before = now_ms.checked_sub(u64::try_from(stale_after.as_millis()).ok()?)?;
        loop {
            let Some((progressed_ms, id)) = self.stalest.pop_front() else {
                if !self.compare_all(before) {
                    return None;
                }
                continue;
            };
            // It may have made progress since the comparison, or have ended.
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if connection.may_be_closed(before) && connection.progressed_ms() == progressed_ms {
                return connection.task.take();
            }
        }
    }

    /// Finds the connections with the oldest progress. Returns whether there are any.
    fn compare_all(&mut self, before: u64) -> bool {
        let closable = self.connections.iter().filter(|(_, connection)| connection.may_be_closed(before));
        let mut found: Vec<(u64, u64)> =
            closable.map(|(id, connection)| (connection.progressed_ms(), *id)).collect();
        if found.len() > STALEST {
            found.select_nth_unstable(STALEST);
            found.truncate(STALEST);
        }
        found.sort_unstable();
        self.stalest = found.into();
        !self.stalest.is_empty()
    }
}

impl Connection {
    fn progressed_ms(&self) -> u64 {
        self.pulse.progressed_ms.load(Relaxed)
    }

    fn may_be_closed(&self, before: u64) -> bool {
        self.task.is_some() && !self.pulse.is_handling.load(Relaxed) && self.progressed_ms() <= before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn places(count: usize, now: Instant) -> Arc<Places> {
        let rules = Rules { places: count, exempt: Cidr::LOOPBACK.to_vec(), stale_after: SECOND };
        Arc::new(Places::new(rules, now))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Takes a place and serves it by a task that never ends.
    fn serve(places: &Arc<Places>, address: IpAddr, now: Instant) -> (Place, tokio::task::JoinHandle<()>) {
        let place = places.take(address, now).expect("a place");
        let task = tokio::spawn(std::future::pending());
        places.set_task(place.id(), task.abort_handle());
        (place, task)
    }

    #[test]
    fn one_network_has_a_tenth_once_half_of_the_places_are_taken() {
        let now = Instant::now();
        let places = places(100, now);
        let take = |text: &str| places.take(address(text), now);
        let alone: Vec<Place> = (0..51).map(|_| take("203.0.113.9").expect("a place")).collect();
        assert_eq!(take("203.0.113.9").err(), Some(Refusal::Share), "beyond half");
        assert_eq!(take("::ffff:203.0.113.9").err(), Some(Refusal::Share), "the same address");
        let mut others: Vec<Place> = (0..10).map(|_| take("2001:db8::1").expect("its share")).collect();
        assert_eq!(take("2001:db8::2:1").err(), Some(Refusal::Share), "the same /64");
        others.extend((0..10).map(|_| take("2001:db8:0:1::1").expect("the share of another /64")));
        assert_eq!(take("2001:db8:0:2::1").err(), Some(Refusal::Share), "the /48 has two shares");
        others.extend((0..29).map(|_| take("127.0.0.1").expect("this machine")));
        assert_eq!(take("127.0.0.1").err(), Some(Refusal::Full));
        drop(alone);
        assert!(take("203.0.113.9").is_ok(), "less than half");
        drop(others);
        assert!(places.taken.lock().networks.is_empty() && places.taken.lock().connections.is_empty());
    }

    #[tokio::test]
    async fn the_connection_with_the_oldest_progress_is_closed_first() {
        let start = Instant::now();
        let places = places(4, start);
        let other = address("203.0.113.9");
        let (slow, slow_task) = serve(&places, other, start);
        let (silent, silent_task) = serve(&places, other, start + SECOND);
        let (handling, handling_task) = serve(&places, address("127.0.0.1"), start);
        let (fresh, fresh_task) = serve(&places, address("127.0.0.1"), start + 9 * SECOND);
        handling.pulse.set_handling(true);
        slow.pulse.progressed(start + 2 * SECOND);
        let now = start + 9 * SECOND + SECOND / 2;
        assert!(places.close_stalest(now));
        assert!(silent_task.await.expect_err("aborted").is_cancelled(), "it never sent a request");
        drop(silent);
        assert!(places.close_stalest(now));
        assert!(slow_task.await.expect_err("aborted").is_cancelled());
        drop(slow);
        assert!(!places.close_stalest(now), "one is handling a request, one made progress lately");
        assert!(!handling_task.is_finished() && !fresh_task.is_finished());
        handling.pulse.set_handling(false);
        assert!(places.close_stalest(now));
        assert!(handling_task.await.expect_err("aborted").is_cancelled());
        drop(fresh);
    }

    #[tokio::test]
    async fn a_connection_that_made_progress_since_all_were_compared_stays() {
        let start = Instant::now();
        let places = places(3, start);
        let served: Vec<_> =
            (0..3).map(|at| serve(&places, address("127.0.0.1"), start + at * SECOND)).collect();
        let now = start + 9 * SECOND;
        assert!(places.close_stalest(now));
        served[1].0.pulse.progressed(now);
        assert!(places.close_stalest(now));
        assert!(!places.close_stalest(now), "the rest made progress");
        let mut ended = Vec::new();
        for (_, task) in served {
            tokio::task::yield_now().await;
            ended.push(task.is_finished());
        }
        assert_eq!(ended, [true, false, true]);
    }
}
