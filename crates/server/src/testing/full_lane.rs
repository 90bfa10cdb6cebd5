//! A hash lane that is as full as a storm of sign-ins makes it, for as long as a test likes.

use super::TestServer;
use crate::app::App;
use crate::lanes::{Asker, Full};
use identity::organizations::PLATFORM;
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
    /// Fills the lane as far as strangers can.
    pub async fn fill_lane(&self) -> FullLane {
        let mut lane = FullLane { app: self.app.clone(), gate: Arc::default(), jobs: Vec::new() };
        while lane.takes(None).await {}
        lane
    }
}

impl FullLane {
    /// Takes what is left for owners and known browsers, too.
    pub async fn fill_to_the_brim(&mut self) {
        while self.takes(Some(PLATFORM)).await {}
    }

    /// Lets all that wait go on, and waits until they have.
    pub async fn open(self) {
        *self.gate.is_open.lock() = true;
        self.gate.opened.notify_all();
        for job in self.jobs {
            assert_eq!(job.await, Ok(()));
        }
    }

    /// Whether there is room for one job more, from a network of its own and, unless one is named, for an organization
    /// of its own.
    async fn takes(&mut self, organization: Option<&str>) -> bool {
        let number = self.jobs.len() as u32;
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number).into();
        let organization = organization.map_or_else(|| format!("org-{number}"), str::to_owned);
        let (app, gate) = (self.app.clone(), self.gate.clone());
        let mut job = Box::pin(async move {
            let asker = Asker { address, organization: &organization, device: None };
            app.hash_lane.run(asker, move || gate.wait()).await
        });
        // It is taken or refused before it waits for anything.
        let refused =
            std::future::poll_fn(|context| Poll::Ready(job.as_mut().poll(context).is_ready())).await;
        if !refused {
            self.jobs.push(job);
        }
        !refused
    }
}
