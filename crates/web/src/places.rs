//! The places for connections: their weight, their owners, and which connection is closed for a new one.
//!
//! - A connection weighs what it takes of memory: one of HTTP/1.1 weighs 1, one of HTTP/2 weighs 2 and 1 more for each
//!   request whose response the client has not taken. The body of a request weighs 1 for each 32 KiB after the first ones.
//! - One network has a share of its own, and a /48 of IPv6 twice that, however much is free. While more than half of the
//!   places are taken, it has a tenth at most. A connection beyond that is reset, and so is a request of HTTP/2.
//! - When all are taken, the connection that has made no progress for the longest time is closed for the next one: a
//!   client that does not read, is idle, or has sent no request yet. Progress means that the kernel accepted bytes of a
//!   response. A connection whose request is being handled keeps its place.
//! - What open connections add (HTTP/2, and its requests) may go beyond the places by half, so that a full server still
//!   answers the connections that it has. New connections wait until there is room.

use super::cidr::Cidr;
use super::log_interval::LogInterval;
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
    /// Places: the weight of all connections.
    pub places: usize,
    /// The most weight of one network.
    pub per_network: usize,
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
    refusals: LogInterval,
}

#[derive(Default)]
struct Taken {
    connections: HashMap<u64, Connection>,
    /// Of all connections and their requests.
    weight: usize,
    networks: HashMap<Counted, usize>,
    next_id: u64,
    /// The connections with the oldest progress at the last comparison of all, and its time.
    stalest: VecDeque<(u64, u64)>,
}

/// The network that a connection counts for; none where its address is exempt.
#[derive(Clone, Copy)]
struct Owner(Option<Network>);

impl Owner {
    fn counted(self) -> impl Iterator<Item = Counted> {
        self.0.into_iter().flat_map(Network::counted)
    }
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
    owner: Owner,
    /// The object to which the connection reports its progress.
    pub(crate) pulse: Arc<Pulse>,
}

impl Place {
    /// The number of the connection.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// For what the connection weighs beyond its place.
    pub(crate) fn room(&self) -> Room {
        Room { places: self.places.clone(), owner: self.owner }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.connections.remove(&self.id);
        taken.leave(self.owner);
        drop(taken);
        self.places.freed.notify_one();
    }
}

/// Room for what a connection weighs beyond its place.
#[derive(Clone)]
pub(crate) struct Room {
    places: Arc<Places>,
    owner: Owner,
}

/// One more of weight; dropping it frees it.
pub(crate) struct Weight(Room);

impl Room {
    /// One more, for HTTP/2 or for a request of it. `Err`: it is refused. An exempt address has always room.
    pub(crate) fn add(&self) -> Result<Weight, Refusal> {
        let Room { places, owner } = self;
        let most = if owner.0.is_none() { usize::MAX } else { places.rules.places + places.rules.places / 2 };
        places.enter(&mut places.taken.lock(), *owner, most)?;
        Ok(Weight(self.clone()))
    }

    /// See [`Places::log_refusal`].
    pub(crate) fn log_refusal(&self, address: IpAddr) {
        self.places.log_refusal(address, Instant::now());
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        let Room { places, owner } = &self.0;
        places.taken.lock().leave(*owner);
        places.freed.notify_one();
    }
}

impl Places {
    pub(crate) fn new(rules: Rules, now: Instant) -> Places {
        let refusals = LogInterval::minute();
        Places { rules, start: now, taken: Mutex::default(), freed: Notify::new(), refusals }
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
    pub(crate) fn admit_now(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        self.take(address, Instant::now()).ok()
    }

    /// Writes the line about connections and requests that were refused, once a minute.
    pub(crate) fn log_refusal(&self, address: IpAddr, now: Instant) {
        if let Some(refused) = self.refusals.due(now) {
            let share = self.share(self.taken.lock().weight);
            tracing::warn!(
                %address, refused, share,
                "connections or requests of HTTP/2 were refused: one network has too many \
                 (connections_per_network_max)"
            );
        }
    }

    /// A place for a connection from `address`, if there is one now.
    fn take(self: &Arc<Self>, address: IpAddr, now: Instant) -> Result<Place, Refusal> {
        let owner = self.owner(address);
        let mut taken = self.taken.lock();
        self.enter(&mut taken, owner, self.rules.places)?;
        let id = taken.next_id;
        taken.next_id += 1;
        let pulse = Arc::new(Pulse::new(self.start, now));
        taken.connections.insert(id, Connection { pulse: pulse.clone(), task: None });
        drop(taken);
        Ok(Place { places: self.clone(), id, owner, pulse })
    }

    /// Counts one more for `owner`, if the weight of all stays within `most` and its own within its share.
    fn enter(&self, taken: &mut Taken, owner: Owner, most: usize) -> Result<(), Refusal> {
        let share = self.share(taken.weight);
        let has_share = |counted: Counted| {
            let most = share.saturating_mul(counted.share());
            taken.networks.get(&counted).is_some_and(|weight| *weight >= most)
        };
        if owner.counted().any(has_share) {
            return Err(Refusal::Share);
        }
        if taken.weight >= most {
            return Err(Refusal::Full);
        }
        taken.weight += 1;
        for counted in owner.counted() {
            *taken.networks.entry(counted).or_default() += 1;
        }
        Ok(())
    }

    /// The share of one network when all weigh so much.
    fn share(&self, weight: usize) -> usize {
        let Rules { places, per_network, .. } = self.rules;
        if weight > places / 2 { per_network.min((places / 10).max(1)) } else { per_network }
    }

    /// Who connections from `address` count for.
    fn owner(&self, address: IpAddr) -> Owner {
        let is_exempt = self.rules.exempt.iter().any(|block| block.contains(address));
        Owner((!is_exempt).then(|| Network::of(address)))
    }

    /// Registers the task that serves a connection. It is aborted when its place is needed.
    pub(crate) fn set_task(&self, id: u64, task: AbortHandle) {
        // A task that has ended has already freed its place.
        if let Some(connection) = self.taken.lock().connections.get_mut(&id) {
            connection.task = Some(task);
        }
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
    fn leave(&mut self, owner: Owner) {
        self.weight -= 1;
        for counted in owner.counted() {
            if let Some(weight) = self.networks.get_mut(&counted) {
                *weight -= 1;
                if *weight == 0 {
                    self.networks.remove(&counted);
                }
            }
        }
    }

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

    /// Room for `count`, of which a network may have `per_network`.
    fn shared(count: usize, per_network: usize, now: Instant) -> Arc<Places> {
        let exempt = Cidr::LOOPBACK.to_vec();
        Arc::new(Places::new(Rules { places: count, per_network, exempt, stale_after: SECOND }, now))
    }

    fn places(count: usize, now: Instant) -> Arc<Places> {
        shared(count, count, now)
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
    fn one_network_has_its_share_from_the_first_connection_on() {
        let now = Instant::now();
        let places = shared(1000, 5, now);
        let take = |text: &str| places.take(address(text), now);
        let own: Vec<Place> = (0..5).map(|_| take("203.0.113.9").expect("its share")).collect();
        assert_eq!(take("203.0.113.9").err(), Some(Refusal::Share), "though nearly all is free");
        let of_site: Vec<Place> =
            (0..10).map(|net| take(&format!("2001:db8:0:{net:x}::1")).expect("two shares")).collect();
        assert_eq!(take("2001:db8:0:ff::1").err(), Some(Refusal::Share), "the /48");
        let local: Vec<Place> = (0..20).map(|_| take("::1").expect("this machine has no share")).collect();
        assert!(take("2001:db8:1::1").is_ok(), "another /48");
        drop(own);
        assert!(take("203.0.113.9").is_ok());
        drop((of_site, local));
        assert!(places.taken.lock().networks.is_empty() && places.taken.lock().weight == 0);
    }

    #[test]
    fn http_2_and_its_requests_weigh_more() {
        let now = Instant::now();
        let places = shared(1000, 10, now);
        let own = address("203.0.113.9");
        let place = places.take(own, now).expect("a place");
        let room = place.room();
        let http2 = room.add().expect("room");
        let streams: Vec<Weight> = (0..8).map(|_| room.add().expect("room")).collect();
        assert_eq!(room.add().err(), Some(Refusal::Share), "ten");
        assert_eq!(places.take(own, now).err(), Some(Refusal::Share), "a connection weighs the same");
        let local = places.take(address("127.0.0.1"), now).expect("a place");
        let many: Vec<Weight> = (0..100).map(|_| local.room().add().expect("this machine")).collect();
        assert_eq!(places.taken.lock().weight, 10 + 101);
        drop(streams);
        assert!(room.add().is_ok(), "the client has taken the responses");
        drop((many, local, http2, place));
        let taken = places.taken.lock();
        assert!(taken.networks.is_empty() && taken.weight == 0);
    }

    #[test]
    fn a_full_server_has_room_for_requests_of_its_connections() {
        let now = Instant::now();
        let places = shared(20, 100, now);
        let own: Vec<Place> = (1..=20)
            .map(|number| places.take(address(&format!("203.0.113.{number}")), now).expect("a place"))
            .collect();
        assert_eq!(places.take(address("203.0.113.99"), now).err(), Some(Refusal::Full));
        let added: Vec<Weight> = own[..10].iter().map(|one| one.room().add().expect("room")).collect();
        assert_eq!(own[10].room().add().err(), Some(Refusal::Full), "half as much again");
        drop(added);
        assert_eq!(places.take(address("127.0.0.1"), now).err(), Some(Refusal::Full));
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
