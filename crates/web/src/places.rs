//! The places for connections: their number, their owners, and which connection is closed for a new one.
//!
//! - While more than half of the places are taken, one network holds a tenth at most. A connection beyond that is
//!   reset.
//! - A connection of HTTP/2 has a few requests at once for its place; each further one takes a place too, while it lasts,
//!   or is refused. Otherwise one network could hold the memory of many times as many connections.
//! - When all are taken, the connection that has made no progress for the longest time is closed for the next one: a
//!   client that does not read, is idle, or has sent no request yet. Progress means that the kernel accepted bytes of a
//!   response. A connection whose request is being handled keeps its place.

use super::cidr::Cidr;
use super::network::{Counted, Network};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The number of connections that one search for the stalest ones returns, because it reads all of them.
const STALEST: usize = 256;
/// How often a full server looks again for a connection to close.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Requests at once that a connection has for its place.
const STREAMS_OF_A_PLACE: usize = 8;

/// What a connection's I/O, its requests and [`Places`] share.
pub(crate) struct Pulse {
    start: Instant,
    /// The time when the kernel last accepted bytes of a response; at first, the time when the connection was accepted.
    progressed_ms: AtomicU64,
    /// Requests that are being handled.
    handling: AtomicUsize,
    is_stream: AtomicBool,
}

impl Pulse {
    /// The pulse of a connection that was accepted now.
    pub(crate) fn new(start: Instant, now: Instant) -> Pulse {
        Pulse {
            start,
            progressed_ms: AtomicU64::new(millis(start, now)),
            handling: AtomicUsize::new(0),
            is_stream: AtomicBool::new(false),
        }
    }

    /// The kernel accepted bytes of a response.
    pub(crate) fn progressed(&self, now: Instant) {
        self.progressed_ms.store(millis(self.start, now), Relaxed);
    }

    /// A request is being handled.
    pub(crate) fn begin_handling(&self) {
        self.handling.fetch_add(1, Relaxed);
    }

    /// Its response was made.
    pub(crate) fn end_handling(&self) {
        self.handling.fetch_sub(1, Relaxed);
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
    /// Further requests of connections.
    streams: usize,
    networks: HashMap<Counted, usize>,
    next_id: u64,
    /// The connections with the oldest progress at the last comparison of all, and its time.
    stalest: VecDeque<(u64, u64)>,
}

struct Connection {
    pulse: Arc<Pulse>,
    task: Option<AbortHandle>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// For the requests of the connection.
    pub(crate) fn room(&self) -> Room {
        Room { places: self.places.clone(), address: self.address }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.connections.remove(&self.id);
        self.places.leave(&mut taken, self.address);
        drop(taken);
        self.places.freed.notify_one();
    }
}

/// Room for the requests of a connection.
pub(crate) struct Room {
    places: Arc<Places>,
    address: IpAddr,
}

/// A place for a request; dropping it frees it.
pub(crate) struct StreamPlace {
    places: Arc<Places>,
    address: IpAddr,
}

impl Room {
    /// Room for one more request of a connection that has so many. `Err`: it is refused.
    pub(crate) fn admit(&self, requests: usize) -> Result<Option<StreamPlace>, Refusal> {
        let Room { places, address } = self;
        if requests < STREAMS_OF_A_PLACE || places.is_exempt(*address) {
            return Ok(None);
        }
        let mut taken = places.taken.lock();
        places.enter(&mut taken, *address)?;
        taken.streams += 1;
        Ok(Some(StreamPlace { places: places.clone(), address: *address }))
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.streams -= 1;
        self.places.leave(&mut taken, self.address);
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
        self.enter(&mut taken, address)?;
        let id = taken.next_id;
        taken.next_id += 1;
        let pulse = Arc::new(Pulse::new(self.start, now));
        taken.connections.insert(id, Connection { pulse: pulse.clone(), task: None });
        drop(taken);
        Ok(Place { places: self.clone(), id, address, pulse })
    }

    /// Counts a place for `address`, if there is one.
    fn enter(&self, taken: &mut Taken, address: IpAddr) -> Result<(), Refusal> {
        let (count, places) = (taken.connections.len() + taken.streams, self.rules.places);
        let counted = self.counted(address);
        if count > places / 2 {
            let share = (places / 10).max(1);
            let has_share = |counted: &Counted| {
                taken.networks.get(counted).is_some_and(|count| *count >= counted.share() * share)
            };
            if counted.iter().any(has_share) {
                return Err(Refusal::Share);
            }
        }
        if count >= places {
            return Err(Refusal::Full);
        }
        for network in counted {
            *taken.networks.entry(network).or_default() += 1;
        }
        Ok(())
    }

    fn leave(&self, taken: &mut Taken, address: IpAddr) {
        for network in self.counted(address) {
            if let Some(count) = taken.networks.get_mut(&network) {
                *count -= 1;
                if *count == 0 {
                    taken.networks.remove(&network);
                }
            }
        }
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        self.rules.exempt.iter().any(|block| block.contains(address))
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
        if self.is_exempt(address) {
            return Vec::new();
        }
        Network::of(address).counted().collect()
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
        self.task.is_some() && self.pulse.handling.load(Relaxed) == 0 && self.progressed_ms() <= before
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

    #[test]
    fn further_requests_of_a_connection_take_places() {
        let now = Instant::now();
        let places = places(100, now);
        let (own, others) = (address("203.0.113.9"), address("203.0.113.10"));
        let place = places.take(own, now).expect("a place");
        let room = place.room();
        assert!((0..8).all(|requests| matches!(room.admit(requests), Ok(None))), "for its own place");
        let further: Vec<_> = (8..58).map(|requests| room.admit(requests).expect("room")).collect();
        assert_eq!(room.admit(58).err(), Some(Refusal::Share), "beyond half");
        assert_eq!(places.take(own, now).err(), Some(Refusal::Share));
        let other = places.take(others, now).expect("another network has its share");
        let local = places.take(address("127.0.0.1"), now).expect("a place").room();
        assert!(matches!(local.admit(100), Ok(None)), "this machine");
        drop(further);
        assert!(room.admit(8).is_ok_and(|further| further.is_some()));
        drop((place, other));
        let taken = places.taken.lock();
        assert!(taken.networks.is_empty() && taken.streams == 0);
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
        handling.pulse.begin_handling();
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
        handling.pulse.end_handling();
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
