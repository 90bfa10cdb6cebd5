//! A hash lane that is as full as a storm of sign-ins makes it, for as long as a test likes.

use super::TestServer;
use crate::app::App;
use crate::lanes::{Asker, Full};
use parking_lot::{Condvar, Mutex};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// Jobs that wait; none of them ends before [`FullLane::open`].
pub struct FullLane {
    app: App,
    gate: Arc<Gate>,
    jobs: Vec<Waiting>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<(), Full>> + Send>>;

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
    }
}

impl TestServer {
    /// Fills the part of the lane that is open to strangers. Of equals, the newest is shed from now on.
    pub async fn fill_lane(&self) -> FullLane {
        let mut lane = FullLane { app: self.app.clone(), gate: Arc::default(), jobs: Vec::new() };
        // These keep the threads busy.
        let threads = lane.app.settings.hash_threads.unwrap_or(0);
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { threads };
        lane.add(threads, false).await;
        while self.app.hash_lane.waiting() > 0 {
            tokio::task::yield_now().await;
        }
        // After the last job before: its time changes the room, perhaps later than its answer comes.
        let (common, _) = self.app.hash_lane.room_without_chance();
        lane.add(common, false).await;
        lane
    }
}

impl FullLane {
    /// Fills the reserve for known browsers, too.
    pub async fn fill_to_the_brim(&mut self) {
        let (_, reserve) = self.app.hash_lane.room_without_chance();
        self.add(reserve, true).await;
    }

    /// Lets all that wait go on, and waits until they have.
    pub async fn open(self) {
        *self.gate.is_open.lock() = true;
        self.gate.opened.notify_all();
        for job in self.jobs {
            assert_eq!(job.await, Ok(()));
        }
    }

    /// Adds jobs, each of a network and an organization of its own.
    async fn add(&mut self, count: usize, is_known: bool) {
        for _ in 0..count {
            let number = self.jobs.len() as u32;
            let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number).into();
            let organization = format!("org-{number}");
            let (app, gate) = (self.app.clone(), self.gate.clone());
            let mut job: Waiting = Box::pin(async move {
                let known = is_known.then(|| organization.clone());
                let asker = Asker { address, organization: &organization, known };
                app.hash_lane.run(asker, move |_| gate.wait()).await
            });
            // It is taken before it waits for anything.
            let refused =
                std::future::poll_fn(|context| Poll::Ready(job.as_mut().poll(context).is_ready())).await;
            assert!(!refused, "job {number} was refused");
            self.jobs.push(job);
        }
    }
}
