//! Lists and scans that a replica answers, as long as it keeps up.
//!
//! An instance reads from one node at a time: from the first replica of its list that can be reached and is
//! not far behind the primary, else from the primary. Whoever has seen a state, by a version that he carries
//! or because this process wrote it, is not answered from an older one: the very snapshot that answers must hold
//! that state. A replica that does not have it within moments leaves the query to the primary, and so does
//! one that is lost on the way, and one that is ahead: what the primary does not show yet nobody is shown, for
//! his next request may be answered there.

use super::{Link, Purpose, Session, View};
use crate::job::Query;
use crate::queue::Queue;
use crate::store::Shared;
use crate::threads::{pause, spawn};
use crate::{Error, Options, Snapshot, Version};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Which node is read from is looked into this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A replica that does not have the state that the primary had this long ago is not read from. This bounds
/// what a caller may see who carries no version.
const LAG_MAX: Duration = Duration::from_secs(1);
/// How long a query waits for the replica to get the state that it needs.
const PATIENCE: Duration = Duration::from_millis(20);
/// Between two looks of a query at the replica's state.
const PAUSE: Duration = Duration::from_millis(1);
/// When every thread has been busy for this long with what it does, the replica is too slow, or silent.
const BUSY_LONG: Duration = Duration::from_millis(200);
/// No replica is read from.
const NONE: usize = usize::MAX;

/// Queries on their way to a replica, and which one that is.
pub(crate) struct Replicas {
    pub(crate) queries: Queue<Box<dyn Query>>,
    chosen: AtomicUsize,
    /// Threads that answer, and those of them that are busy.
    threads: usize,
    busy: AtomicUsize,
    /// When the last of them began or ended something, in milliseconds after `born`.
    moved_ms: AtomicU64,
    born: Instant,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// What could be seen on the primary, and when; not older than [`LAG_MAX`] but for the first.
    primary: VecDeque<(Instant, View)>,
    /// The state that the replica must have before it is read from again.
    needed: Version,
    stopped: bool,
}

impl Replicas {
    pub(crate) fn new(options: &Options) -> Replicas {
        Replicas {
            queries: Queue::new(1, options.readers, options.writer.deadline),
            chosen: AtomicUsize::new(NONE),
            threads: options.readers.max(1),
            busy: AtomicUsize::new(0),
            moved_ms: AtomicU64::new(0),
            born: Instant::now(),
            state: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Whether a replica is read from at the moment. One that has fallen silent holds up those who have asked it, for
    /// as long as TCP does; nobody else.
    pub(crate) fn in_use(&self) -> bool {
        self.chosen() != NONE && !self.is_stuck()
    }

    fn is_stuck(&self) -> bool {
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        self.busy.load(Ordering::Relaxed) == self.threads
            && self.born.elapsed().saturating_sub(moved) > BUSY_LONG
    }

    fn moves(&self) {
        self.moved_ms.store(self.born.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn chosen(&self) -> usize {
        self.chosen.load(Ordering::Acquire)
    }

    /// Takes no more queries, and ends the threads when those that wait are answered.
    pub(crate) fn close(&self) {
        self.queries.close();
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Reads from the primary until the replica has the state `needed`.
    fn leave(&self, replica: usize, needed: Version, why: &str) {
        let mut state = self.state.lock();
        state.needed = state.needed.max(needed);
        let left = self.chosen.compare_exchange(replica, NONE, Ordering::AcqRel, Ordering::Acquire);
        if left.is_ok() && replica != NONE {
            tracing::info!(replica, why, "lists are read from the primary");
        }
    }

    fn choose(&self, replica: usize) {
        let before = self.chosen.swap(replica, Ordering::AcqRel);
        if before != replica {
            tracing::info!(replica, "lists are read from a replica");
        }
    }

    /// What a replica must show to be read from now. Not only what is whole there: while a transaction stays open on
    /// the primary that does not move, however far the replica falls behind.
    fn required(&self, primary: View) -> View {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.primary.push_back((now, primary));
        let old = |(at, _): &(Instant, View)| now.saturating_duration_since(*at) >= LAG_MAX;
        while state.primary.get(1).is_some_and(old) {
            state.primary.pop_front();
        }
        // At first that is the state of the start: a replica may have stood still for hours before.
        let bound = state.primary.front().map_or(primary, |(_, seen)| *seen);
        View { whole: bound.whole.max(state.needed), next: bound.next }
    }

    /// Waits until it is time to look again; false when there is nothing to look for any more.
    fn rest(&self) -> bool {
        let mut state = self.state.lock();
        if !state.stopped {
            self.wake.wait_for(&mut state, LOOK_EVERY);
        }
        !state.stopped
    }
}

/// Starts the threads that read from replicas, and the one that chooses the replica.
pub(super) fn serve<S: Session>(
    primary: &Arc<S::Address>,
    replicas: &[Arc<S::Address>],
    shared: &Arc<Shared>,
) -> Result<Vec<JoinHandle<()>>, Error> {
    if replicas.is_empty() {
        return Ok(Vec::new());
    }
    let (addresses, own) = (replicas.to_vec(), shared.clone());
    let mut threads = vec![spawn("sarsen-replicas", move || choose_replica::<S>(&addresses, &own))?];
    for _ in 0..shared.options.readers.max(1) {
        let (primary, addresses) = (Link::new(primary.clone()), replicas.to_vec());
        let shared = shared.clone();
        threads.push(spawn("sarsen-replica", move || answer_queries::<S>(primary, &addresses, &shared))?);
    }
    Ok(threads)
}

fn choose_replica<S: Session>(addresses: &[Arc<S::Address>], shared: &Shared) {
    let replicas = &shared.replicas;
    let mut links: Vec<Link<S>> = addresses.iter().cloned().map(Link::new).collect();
    loop {
        let required = replicas.required(View { whole: shared.feed.version(), next: shared.feed.next() });
        let ready = links.iter_mut().position(|link| {
            let view = link.begin(Purpose::Query, Instant::now()).map(|session| session.view());
            link.finish();
            matches!(view, Ok(Some(view)) if view.whole >= required.whole && view.next >= required.next)
        });
        match ready {
            Some(replica) => replicas.choose(replica),
            None => replicas.leave(replicas.chosen(), 0, "no replica is up to date"),
        }
        if !replicas.rest() {
            return;
        }
    }
}

/// Serves queries until the queue is closed and empty.
fn answer_queries<S: Session>(mut primary: Link<S>, addresses: &[Arc<S::Address>], shared: &Shared) {
    let replicas = &shared.replicas;
    let mut links: Vec<Link<S>> = addresses.iter().cloned().map(Link::new).collect();
    let mut taken: VecDeque<Box<dyn Query>> = VecDeque::new();
    while replicas.queries.take(&mut taken, 1) {
        for mut query in taken.drain(..) {
            replicas.queries.started();
            if !query.start() {
                continue;
            }
            let replica = replicas.chosen();
            replicas.moves();
            replicas.busy.fetch_add(1, Ordering::Relaxed);
            let link = links.get_mut(replica);
            let read = link.is_some_and(|link| read(&mut *query, &mut primary, link, replica, shared));
            replicas.moves();
            replicas.busy.fetch_sub(1, Ordering::Relaxed);
            if read {
                shared.stats.replica_reads.fetch_add(1, Ordering::Relaxed);
                query.answer(None);
            } else if let Err((query, error)) = shared.queries.push(query) {
                query.answer(Some(error));
            }
        }
    }
}

/// Runs a query on a replica; false when it is the primary's.
fn read<S: Session>(
    query: &mut dyn Query,
    primary: &mut Link<S>,
    link: &mut Link<S>,
    replica: usize,
    shared: &Shared,
) -> bool {
    let (began, replicas) = (Instant::now(), &shared.replicas);
    loop {
        let session = match link.begin(Purpose::Query, Instant::now()) {
            Ok(session) => session,
            Err(error) => {
                replicas.leave(replica, 0, &error.to_string());
                return false;
            }
        };
        if let Some(view) = session.view().filter(|view| view.whole >= query.needed()) {
            if !primary_shows_it_too(session, primary, began) {
                if let Some((_, error)) = session.trouble() {
                    replicas.leave(replica, 0, &error.to_string());
                }
                link.finish();
                replicas.queries.pace.ran(1, began.elapsed());
                return false;
            }
            shared.feed.shows(view.next);
            query.run(&mut Snapshot::new(session, shared.options.check));
            // Lost, in the way of what the replica had to do, its disk full: the primary knows no such troubles. What
            // takes too long takes as long there.
            let met = session.trouble();
            let failed = met.is_some_and(|(_, error)| !matches!(error, Error::TooSlow { .. }));
            link.finish();
            replicas.queries.pace.ran(1, began.elapsed());
            return !failed;
        }
        link.finish();
        if began.elapsed() >= PATIENCE {
            replicas.queries.pace.ran(1, began.elapsed());
            // A caller may name a state that there is not, of a database before it was restored or made up: that
            // concerns nobody else. One that there is has been shown here when the primary has answered.
            if query.needed() <= shared.feed.shown() {
                replicas.leave(replica, query.needed(), "it does not have yet what a caller has seen");
            }
            return false;
        }
        pause(PAUSE);
    }
}

/// Waits until the primary shows all that the session's snapshot does: who is answered from this snapshot is answered
/// by the primary next. Not for long: a commit that waits for another replica may wait for ever.
fn primary_shows_it_too<S: Session>(session: &mut S, primary: &mut Link<S>, began: Instant) -> bool {
    loop {
        match session.is_ahead_of(primary) {
            Ok(false) => return true,
            Ok(true) if began.elapsed() < PATIENCE => pause(PAUSE),
            Ok(true) | Err(_) => return false,
        }
    }
}
