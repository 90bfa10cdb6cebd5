//! The lane of password hashing. A job enters only if its predicted wait fits the deadline; the place
//! belongs to the job, not to the request; no address and no organization may fill it alone. The last of its room is
//! kept for those who run the server and for browsers in which somebody has signed in before: a storm of strangers
//! does not lock them out.

use crate::limits::network::network;
use identity::organizations::PLATFORM;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a job may wait before it starts.
const DEADLINE: Duration = Duration::from_millis(1500);
/// How long a job of a stranger may: an eighth of the room is kept for others.
const DEADLINE_OF_STRANGERS: Duration = Duration::from_nanos(DEADLINE.as_nanos() as u64 / 8 * 7);
/// How many jobs of one known browser may wait.
const PER_DEVICE: usize = 2;
/// The lowest priority, as `nice` counts: what serves others comes first.
pub(crate) const LOWEST_PRIORITY: i32 = 19;

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// When a new try has a fair chance.
    pub retry_after: Duration,
}

/// Who wants a password to be hashed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// From where.
    pub address: IpAddr,
    /// At which organization.
    pub organization: &'a str,
    /// The browser, if somebody has signed in with it before.
    pub device: Option<&'a str>,
}

impl Asker<'_> {
    /// What the share of each is counted by. A known browser does not have to do with the storm on its organization.
    fn origins(&self) -> [Origin; 2] {
        let second = match self.device {
            Some(device) => Origin::Device(device.to_owned()),
            None => Origin::Organization(self.organization.to_owned()),
        };
        [Origin::Network(network(self.address)), second]
    }

    fn deadline(&self) -> Duration {
        let is_stranger = self.device.is_none() && self.organization != PLATFORM;
        if is_stranger { DEADLINE_OF_STRANGERS } else { DEADLINE }
    }
}

/// The lane. Its threads end with the process.
pub(crate) struct HashLane {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Average time of a job, in nanoseconds.
    average_ns: AtomicU64,
    refused: AtomicU64,
    done: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: usize,
    per_origin: HashMap<Origin, usize>,
}

struct Job {
    run: Box<dyn FnOnce() + Send>,
    /// Whether somebody still waits for it.
    wanted: Box<dyn Fn() -> bool + Send>,
    origins: [Origin; 2],
    deadline: Duration,
}

/// Who causes work: what fairness counts by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Origin {
    Network(IpAddr),
    Organization(String),
    Device(String),
}

impl Origin {
    /// How many jobs of it may wait where there is room for so many in all: a quarter of the room for one network, half
    /// for one organization.
    fn share(&self, room: usize, threads: usize) -> usize {
        match self {
            Origin::Network(_) => (room / 4).max(threads),
            Origin::Organization(_) => (room / 2).max(threads),
            Origin::Device(_) => PER_DEVICE,
        }
    }
}

impl HashLane {
    /// Starts the threads, with a priority as `nice` counts; as many as there are processors when `threads` is none.
    pub(crate) fn start(threads: Option<usize>, nice: i32) -> HashLane {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or(cores).max(1);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            average_ns: AtomicU64::new(30_000_000),
            refused: AtomicU64::new(0),
            done: AtomicU64::new(0),
        });
        for _ in 0..threads {
            let shared = shared.clone();
            let started =
                std::thread::Builder::new().name("sarsen-hash".to_owned()).spawn(move || shared.work(nice));
            if let Err(error) = started {
                tracing::error!(%error, "a hash thread could not start");
            }
        }
        HashLane { shared, threads }
    }

    /// Runs `job` on the lane. [`Full`] at once when it could not start in time.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        asker: Asker<'_>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Full> {
        let (reply, answer) = oneshot::channel();
        let reply = Arc::new(Mutex::new(Some(reply)));
        let asked = reply.clone();
        let job = Job {
            run: Box::new(move || {
                let result = job();
                if let Some(reply) = reply.lock().take() {
                    // Nobody may wait any more; the work is done all the same.
                    let _ = reply.send(result);
                }
            }),
            wanted: Box::new(move || asked.lock().as_ref().is_some_and(|reply| !reply.is_closed())),
            origins: asker.origins(),
            deadline: asker.deadline(),
        };
        self.shared.admit(job, self.threads)?;
        answer.await.map_err(|_| Full { retry_after: Duration::from_secs(1) })
    }

    /// Jobs waiting, done and refused.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let waiting = self.shared.queue.lock().jobs.len();
        (waiting, self.shared.done.load(Ordering::Relaxed), self.shared.refused.load(Ordering::Relaxed))
    }
}

impl Shared {
    fn admit(&self, job: Job, threads: usize) -> Result<(), Full> {
        let mut queue = self.queue.lock();
        let each =
            Duration::from_nanos(self.average_ns.load(Ordering::Relaxed)).max(Duration::from_millis(1));
        let ahead = queue.jobs.len() + queue.running;
        let room = (DEADLINE.as_nanos() / each.as_nanos()) as usize * threads;
        let greedy = job.origins.iter().any(|origin| {
            queue.per_origin.get(origin).is_some_and(|waiting| *waiting >= origin.share(room, threads))
        });
        let wait = each * (ahead / threads) as u32;
        if greedy || (ahead >= threads && wait > job.deadline) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Full { retry_after: wait.max(Duration::from_secs(1)) });
        }
        for origin in &job.origins {
            *queue.per_origin.entry(origin.clone()).or_default() += 1;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.arrived.notify_one();
        Ok(())
    }

    fn work(&self, nice: i32) {
        // Where the system does not allow it, the lane works at normal priority.
        let _ = rustix::process::setpriority_process(None, nice);
        loop {
            let job = {
                let mut queue = self.queue.lock();
                let job = loop {
                    match queue.jobs.pop_front() {
                        Some(job) => break job,
                        None => self.arrived.wait(&mut queue),
                    }
                };
                queue.leave(&job.origins);
                queue.running += 1;
                job
            };
            if (job.wanted)() {
                let began = Instant::now();
                // A job that panics drops its reply: its caller gets an error, the thread goes on.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job.run)).is_err() {
                    tracing::error!("a job on the hash lane panicked");
                }
                let took = began.elapsed().as_nanos() as u64;
                let average = self.average_ns.load(Ordering::Relaxed);
                self.average_ns.store(average - average / 8 + took / 8, Ordering::Relaxed);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            self.queue.lock().running -= 1;
        }
    }
}

impl Queue {
    fn leave(&mut self, origins: &[Origin]) {
        for origin in origins {
            if let Some(count) = self.per_origin.get_mut(origin) {
                *count -= 1;
                if *count == 0 {
                    self.per_origin.remove(origin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn from<'a>(address: &str, organization: &'a str) -> Asker<'a> {
        Asker { address: address.parse().expect("an address"), organization, device: None }
    }

    /// A lane with room for fifteen, whose one thread is busy until the sender is dropped.
    async fn busy() -> (Arc<HashLane>, mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), Full>>) {
        let lane = Arc::new(HashLane::start(Some(1), 0));
        lane.shared.average_ns.store(100_000_000, Ordering::Relaxed);
        let (release, blocked) = mpsc::channel::<()>();
        let busy = lane.clone();
        let first = tokio::spawn(async move {
            busy.run(from("10.0.0.1", "a"), move || {
                let _ = blocked.recv();
            })
            .await
        });
        while lane.shared.queue.lock().running == 0 {
            tokio::task::yield_now().await;
        }
        (lane, release, first)
    }

    #[tokio::test]
    async fn strangers_leave_room_for_known_browsers_and_owners() {
        let (lane, release, first) = busy().await;
        let mut waiting = Vec::new();
        let mut ask = async |asker: Asker<'static>| {
            let (before, after) = (lane.counts(), lane.clone());
            waiting.push(tokio::spawn(async move { after.run(asker, || ()).await }));
            loop {
                let now = lane.counts();
                match (now.0 - before.0, now.2 - before.2) {
                    (0, 0) => tokio::task::yield_now().await,
                    (_, refused) => return refused == 0,
                }
            }
        };
        let organizations = ["a", "b", "c"];
        let mut strangers = 0;
        while ask(Asker {
            address: [10, 1, 0, strangers].into(),
            ..from("::1", organizations[usize::from(strangers) % 3])
        })
        .await
        {
            strangers += 1;
        }
        assert_eq!(strangers, 13, "seven eighths of the room");
        let known = |device| Asker { device: Some(device), ..from("10.2.0.1", "a") };
        assert!(ask(known("one")).await);
        assert!(ask(from("10.2.0.2", PLATFORM)).await);
        assert!(!ask(known("two")).await, "now the lane is full for all");
        drop(release);
        assert!(first.await.expect("joins").is_ok());
        for job in waiting {
            job.await.expect("joins").ok();
        }
    }

    #[tokio::test]
    async fn a_known_browser_may_not_fill_the_lane_either() {
        let (lane, release, first) = busy().await;
        let known = Asker { device: Some("one"), ..from("10.2.0.1", "a") };
        let mut waiting = Vec::new();
        for _ in 0..PER_DEVICE {
            let lane = lane.clone();
            waiting.push(tokio::spawn(async move { lane.run(known, || ()).await }));
        }
        while lane.counts().0 < PER_DEVICE {
            tokio::task::yield_now().await;
        }
        assert!(lane.run(known, || ()).await.is_err());
        drop(release);
        assert!(first.await.expect("joins").is_ok());
        for job in waiting {
            assert!(job.await.expect("joins").is_ok());
        }
    }

    #[tokio::test]
    async fn a_full_lane_refuses_at_once_and_keeps_room_for_others() {
        let (lane, release, first) = busy().await;
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let lane = lane.clone();
            waiting.push(tokio::spawn(async move { lane.run(from("10.0.0.1", "a"), || ()).await }));
        }
        while lane.counts().0 < 3 {
            tokio::task::yield_now().await;
        }
        let refused = lane.run(from("10.0.0.1", "a"), || ()).await;
        assert!(refused.is_err(), "one network has its quarter");
        let other = lane.clone();
        let other = tokio::spawn(async move { other.run(from("10.0.0.2", "b"), || 7).await });
        while lane.counts().0 < 4 {
            tokio::task::yield_now().await;
        }
        drop(release);
        assert_eq!(other.await.expect("joins"), Ok(7));
        assert!(first.await.expect("joins").is_ok());
        for job in waiting {
            assert!(job.await.expect("joins").is_ok());
        }
        assert_eq!(lane.counts().2, 1);
    }
}
