//! One virtual user: a keep-alive connection, opened again when it closes. Each answer is checked and recorded here.

use std::rc::Rc;

use tokio::time::Instant;

use super::random::Random;
use super::run::Run;
use crate::http::{Connection, Response};
use crate::measure::{Cause, RequestKind, Verdict};

pub struct VirtualUser {
    /// From 0. It selects the source address, the target and the account.
    pub index: usize,
    pub random: Random,
    /// Operations begun so far.
    pub operations: usize,
    run: Rc<Run>,
    connection: Option<Counted>,
}

/// A connection that counts as open until it is dropped.
struct Counted {
    connection: Connection,
    run: Rc<Run>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.run.connected.set(self.run.connected.get() - 1);
    }
}

impl VirtualUser {
    pub fn new(run: &Rc<Run>, index: usize) -> VirtualUser {
        let random = Random::new(run.seed, index as u64);
        VirtualUser { index, random, operations: 0, run: run.clone(), connection: None }
    }

    /// Sends one request and records the result. The latency and the time limit count from `started`, which may be in the
    /// past.
    pub async fn send(
        &mut self,
        kind: RequestKind,
        request: &[u8],
        started: Instant,
        judge: impl FnOnce(&Response<'_>) -> Verdict,
    ) -> Verdict {
        let result = self.exchange(request, started).await;
        let verdict = match (result, self.response()) {
            (Ok(()), Some(response)) => judge(&response),
            (Ok(()), None) => Verdict::Failed(Cause::Closed),
            (Err(cause), _) => {
                self.connection = None;
                Verdict::Failed(cause)
            }
        };
        self.run.recorder.borrow_mut().record(kind, started, Instant::now(), &verdict);
        verdict
    }

    /// The last answer, until the next request is sent.
    pub fn response(&self) -> Option<Response<'_>> {
        self.connection.as_ref()?.connection.response()
    }

    /// The body of the last answer; empty when there is none.
    pub fn body(&self) -> &[u8] {
        self.response().map_or(&[], |response| response.body)
    }

    /// Connects before the first request. A failure shows at that request.
    pub(super) async fn connect(&mut self) {
        let _ = self.ensure_connected(Instant::now()).await;
    }

    async fn exchange(&mut self, request: &[u8], started: Instant) -> Result<(), Cause> {
        if Instant::now() >= started + self.run.timeout {
            return Err(Cause::NeverSent);
        }
        self.ensure_connected(started).await?;
        let Some(counted) = &mut self.connection else { return Err(Cause::Closed) };
        let left = (started + self.run.timeout).saturating_duration_since(Instant::now());
        counted.connection.exchange(request, left).await
    }

    /// Replaces a connection that the server closed between two requests, which is not a failure.
    async fn ensure_connected(&mut self, started: Instant) -> Result<(), Cause> {
        if let Some(Counted { connection, .. }) = &self.connection {
            let announced = connection.response().is_some_and(|response| response.close);
            if !announced && !connection.is_closed() {
                return Ok(());
            }
            self.connection = None;
        }
        let target = &self.run.targets[self.index % self.run.targets.len()];
        let left = (started + self.run.timeout).saturating_duration_since(Instant::now());
        let connection = Connection::open(target, self.index, left).await?;
        self.run.connected.set(self.run.connected.get() + 1);
        self.connection = Some(Counted { connection, run: self.run.clone() });
        Ok(())
    }
}
