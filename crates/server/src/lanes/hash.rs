//! The lane of password hashing. The queue is as long as the deadline allows; `fair_queue.rs` decides who may wait in
//! it. A job keeps its place when its request ends.

use super::fair_queue::{Chance, FairQueue, Origin, Room};
use identity::passwords::Memory;
use identity::secrets::Random;
use metrics::{Histogram, Page};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use web::network::Network;

/// How long a job may wait before it starts, and half of that of one in lent room.
const DEADLINE: Duration = Duration::from_millis(1500);
/// How long a job may be shed, if others of the same weight came later.
pub(super) const SHED_WITHIN: Duration = Duration::from_millis(35);
/// How long a thread without a job keeps the memory of the last one.
const MEMORY_KEPT: Duration = Duration::from_secs(2);
/// The lowest priority, as `nice` counts: requests come first.
pub(crate) const LOWEST_PRIORITY: i32 = 19;

/// The error of a job for which the lane had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// When to try again.
    pub retry_after: Duration,
}

/// The origin of a job.
#[derive(Debug, Clone)]
pub(crate) struct Asker<'a> {
    /// The client's address.
    pub address: IpAddr,
    /// The slug of the organization.
    pub organization: &'a str,
    /// The browser and the account, if the browser is known for the account.
    pub known: Option<String>,
}

/// The lane. Its threads end when it is dropped.
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
    /// From a job's arrival to its start.
    waits: Histogram,
    runs: Histogram,
    random: Arc<dyn Random>,
    /// Whether chance is off, so that of equals the newest is shed, and no room is lent. Only tests turn it off.
    sheds_newest: AtomicBool,
}

#[derive(Default)]
struct Queue {
    jobs: FairQueue<Job>,
    running: usize,
    is_closed: bool,
}

struct Job {
    arrived: Instant,
    run: Box<dyn FnOnce(&mut Memory) + Send>,
    /// Whether its caller still waits for it.
    wanted: Box<dyn Fn() -> bool + Send>,
}

impl HashLane {
    /// Starts the threads, with a priority as `nice` counts; as many as there are processors when `threads` is none.
    pub(crate) fn start(threads: Option<usize>, nice: i32, random: Arc<dyn Random>) -> HashLane {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or(cores).max(1);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            average_ns: AtomicU64::new(30_000_000),
            refused: AtomicU64::new(0),
            waits: Histogram::default(),
            runs: Histogram::default(),
            random,
            sheds_newest: AtomicBool::new(false),
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

    /// Runs `job` on the lane, in the memory that its thread keeps. [`Full`] if there is no room for it, or none any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        asker: Asker<'_>,
        job: impl FnOnce(&mut Memory) -> T + Send + 'static,
    ) -> Result<T, Full> {
        let (reply, answer) = oneshot::channel();
        let reply = Arc::new(Mutex::new(Some(reply)));
        let asked = reply.clone();
        let job = Job {
            arrived: Instant::now(),
            run: Box::new(move |memory| {
                let result = job(memory);
                if let Some(reply) = reply.lock().take() {
                    // Nobody may wait any more; the work is done all the same.
                    let _ = reply.send(result);
                }
            }),
            wanted: Box::new(move || asked.lock().as_ref().is_some_and(|reply| !reply.is_closed())),
        };
        let origin = Origin {
            network: Network::of(asker.address),
            organization: asker.organization.to_owned(),
            known: asker.known,
        };
        let wait = self.shared.admit(origin, job, self.threads);
        // A job that was shed has dropped its reply.
        answer.await.map_err(|_| Full { retry_after: wait.max(Duration::from_secs(1)) })
    }

    /// How many strangers and known browsers may wait now. From here on, chance is off, and no room is lent.
    #[cfg(feature = "testing")]
    pub(crate) fn room_without_chance(&self) -> (usize, usize) {
        self.shared.sheds_newest.store(true, Ordering::Relaxed);
        let room = self.shared.room(self.threads);
        (room.common, room.reserve)
    }

    /// Adds the lane to a page.
    pub(crate) fn show(&self, page: &mut Page) {
        let Shared { waits, runs, refused, .. } = &*self.shared;
        page.gauge("hash_waiting", "Passwords that wait to be checked or hashed", self.waiting());
        page.counter("hash_done_total", "Passwords that were checked or hashed", runs.count());
        page.counter(
            "hash_refused_total",
            "Passwords that were not checked because too many waited (429)",
            refused.load(Ordering::Relaxed),
        );
        let lane = || vec![("lane", "hash".to_owned())];
        let help = "From the arrival of a job to its start";
        page.histograms("lane_wait_seconds", help, [(lane(), waits)]);
        page.histograms("lane_run_duration_seconds", "Runs of the jobs of a lane", [(lane(), runs)]);
    }

    /// Jobs that have not started.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.queue.lock().jobs.len()
    }
}

impl Drop for HashLane {
    fn drop(&mut self) {
        self.shared.queue.lock().is_closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    /// Takes a job, and sheds one if there is no room. Returns how long a new job would wait.
    fn admit(&self, origin: Origin, job: Job, threads: usize) -> Duration {
        let room = self.room(threads);
        let mut queue = self.queue.lock();
        let wait = self.average() * ((queue.jobs.len() + queue.running) / threads) as u32;
        let now = Instant::now();
        let shed = queue.jobs.push(origin, job, room, now, &mut ByChance { shared: self, now });
        drop(queue);
        self.refused.fetch_add(shed.len() as u64, Ordering::Relaxed);
        self.arrived.notify_one();
        wait
    }

    fn average(&self) -> Duration {
        Duration::from_nanos(self.average_ns.load(Ordering::Relaxed)).max(Duration::from_millis(1))
    }

    /// As many places as threads can serve within the deadline.
    fn room(&self, threads: usize) -> Room {
        let room = Room::of((DEADLINE.as_nanos() / self.average().as_nanos()) as usize * threads, threads);
        #[cfg(any(test, feature = "testing"))]
        if self.sheds_newest.load(Ordering::Relaxed) {
            return room.without_lent();
        }
        room
    }

    /// A number below `most`.
    fn draw(&self, most: usize) -> usize {
        if self.sheds_newest.load(Ordering::Relaxed) {
            return most.saturating_sub(1);
        }
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes);
        (u64::from_le_bytes(bytes) % most.max(1) as u64) as usize
    }

    fn work(&self, nice: i32) {
        // Where the system does not allow it, the lane works at normal priority.
        let _ = rustix::process::setpriority_process(None, nice);
        let mut memory = Memory::default();
        loop {
            let job = {
                let mut queue = self.queue.lock();
                let job = loop {
                    match queue.jobs.pop() {
                        Some(job) => break job,
                        None if queue.is_closed => return,
                        None if memory.is_empty() => self.arrived.wait(&mut queue),
                        None => {
                            if self.arrived.wait_for(&mut queue, MEMORY_KEPT).timed_out() {
                                let unused = std::mem::take(&mut memory);
                                MutexGuard::unlocked(&mut queue, || drop(unused));
                            }
                        }
                    }
                };
                queue.running += 1;
                job
            };
            if (job.wanted)() {
                let began = Instant::now();
                self.waits.observe(began.saturating_duration_since(job.arrived));
                // A job that panics drops its reply: its caller gets an error, the thread goes on.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (job.run)(&mut memory))).is_err()
                {
                    tracing::error!("a job on the hash lane panicked");
                }
                let took = began.elapsed();
                self.runs.observe(took);
                let took = took.as_nanos() as u64;
                let average = self.average_ns.load(Ordering::Relaxed);
                self.average_ns.store(average - average / 8 + took / 8, Ordering::Relaxed);
            }
            self.queue.lock().running -= 1;
        }
    }
}

/// Chance decides which of several equals is shed. Of those that came lately, if there are any: who is refused shall hear
/// it at once, not after a wait.
struct ByChance<'s> {
    shared: &'s Shared,
    now: Instant,
}

impl Chance<Job> for ByChance<'_> {
    fn is_late(&self, job: &Job) -> bool {
        self.now.saturating_duration_since(job.arrived) < SHED_WITHIN
    }

    fn draw(&mut self, most: usize) -> usize {
        self.shared.draw(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::secrets::testing::Seeded;
    use std::sync::mpsc;

    fn from<'a>(address: &str, organization: &'a str) -> Asker<'a> {
        Asker { address: address.parse().expect("an address"), organization, known: None }
    }

    #[tokio::test]
    async fn a_class_that_signs_in_at_once_waits_and_is_let_in() {
        let lane = Arc::new(HashLane::start(Some(1), 0, Arc::new(Seeded::new(1))));
        // Thirty can wait, seven of them in the reserve.
        lane.shared.average_ns.store(50_000_000, Ordering::Relaxed);
        let (release, blocked) = mpsc::channel::<()>();
        let busy = lane.clone();
        let first = tokio::spawn(async move {
            let wait = move |_: &mut Memory| blocked.recv().is_err();
            busy.run(from("10.0.0.9", "a"), wait).await
        });
        while lane.shared.queue.lock().running == 0 {
            tokio::task::yield_now().await;
        }
        let mut class = Vec::new();
        for number in 0..40 {
            let lane = lane.clone();
            class.push(tokio::spawn(async move { lane.run(from("10.0.0.1", "a"), move |_| number).await }));
        }
        while lane.waiting() < 40 {
            tokio::task::yield_now().await;
        }
        // Another browser takes back one place.
        let other = lane.clone();
        let other = tokio::spawn(async move { other.run(from("10.0.0.2", "b"), |_| ()).await });
        while lane.shared.refused.load(Ordering::Relaxed) < 1 {
            tokio::task::yield_now().await;
        }
        drop(release);
        assert_eq!(other.await.expect("joins"), Ok(()));
        assert_eq!(first.await.expect("joins"), Ok(true));
        let mut served = 0;
        for (number, job) in class.into_iter().enumerate() {
            match job.await.expect("joins") {
                Ok(result) => served += usize::from(result == number),
                Err(Full { retry_after }) => assert!(retry_after <= Duration::from_secs(3)),
            }
        }
        assert_eq!(served, 39);
    }

    #[tokio::test]
    async fn a_network_has_its_quarter_and_a_shed_job_is_an_error() {
        let lane = Arc::new(HashLane::start(Some(1), 0, Arc::new(Seeded::new(1))));
        lane.shared.average_ns.store(100_000_000, Ordering::Relaxed);
        lane.shared.sheds_newest.store(true, Ordering::Relaxed);
        let (release, blocked) = mpsc::channel::<()>();
        let busy = lane.clone();
        let first = tokio::spawn(async move {
            let wait = move |_: &mut Memory| blocked.recv().is_err();
            busy.run(from("10.0.0.1", "a"), wait).await
        });
        while lane.shared.queue.lock().running == 0 {
            tokio::task::yield_now().await;
        }
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let lane = lane.clone();
            waiting.push(tokio::spawn(async move { lane.run(from("10.0.0.1", "a"), |_| ()).await }));
        }
        while lane.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        let refused = lane.run(from("10.0.0.1", "a"), |_| ()).await;
        assert!(refused.is_err(), "the fourth of one network");
        let other = lane.clone();
        let other = tokio::spawn(async move { other.run(from("10.0.0.2", "b"), |_| 7).await });
        while lane.waiting() < 4 {
            tokio::task::yield_now().await;
        }
        drop(release);
        assert_eq!(other.await.expect("joins"), Ok(7));
        assert_eq!(first.await.expect("joins"), Ok(true));
        for job in waiting {
            assert!(job.await.expect("joins").is_ok());
        }
        assert_eq!(lane.shared.refused.load(Ordering::Relaxed), 1);
    }
}
