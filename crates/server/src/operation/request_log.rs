//! The request log: one line a request, with its method, route, status and duration, and never a value of its query.
//!
//! A request only puts its entry into a bounded queue. A thread writes the entries through the log, so that no request
//! waits for a terminal or a disk. Entries that find the queue full are dropped and counted.

use crate::app::App;
use crate::web::auth::{Peer, forwarded};
use http::{HeaderValue, Method, Request};
use identity::ids::ClientId;
use parking_lot::{Condvar, Mutex};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Entries in the queue at most.
const QUEUED_MAX: usize = 8192;
/// How long the writer lets entries gather: waking it for each one would cost more than the rest.
const GATHER: Duration = Duration::from_millis(50);

/// The log, when it is on.
pub(crate) struct RequestLog {
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    entries: Mutex<Entries>,
    /// There is an entry, or no more will come.
    filled: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Entries {
    waiting: Vec<Entry>,
    is_closed: bool,
}

/// The client that a request authenticated; an extension of requests that are logged. Empty for others.
#[derive(Clone, Default)]
pub(crate) struct ClientSlot(Option<Arc<OnceLock<ClientId>>>);

impl ClientSlot {
    /// The slot of a request.
    pub(crate) fn of(extensions: &http::Extensions) -> ClientSlot {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Notes the client, if the request is logged.
    pub(crate) fn set(&self, client: &ClientId) {
        if let Some(slot) = &self.0 {
            // A request has one client.
            let _ = slot.set(client.clone());
        }
    }
}

/// A request that is being handled.
pub(crate) struct Started {
    method: Method,
    address: IpAddr,
    client: ClientSlot,
    at: Instant,
}

impl Started {
    /// Notes what the log needs of a request. `None`: the log is off.
    pub(crate) fn note<B>(app: &App, peer: Peer, request: &mut Request<B>) -> Option<Box<Started>> {
        app.request_log.as_ref()?;
        let client = ClientSlot(Some(Arc::default()));
        request.extensions_mut().insert(client.clone());
        let address = forwarded(request.headers(), peer.address, &app.settings.trusted_proxies);
        Some(Box::new(Started { method: request.method().clone(), address, client, at: Instant::now() }))
    }
}

struct Entry {
    started: Box<Started>,
    route: &'static str,
    status: u16,
    duration: Duration,
    request_id: HeaderValue,
}

impl RequestLog {
    /// Starts the writer.
    pub(crate) fn start() -> RequestLog {
        let queue = Arc::new(Queue::default());
        let written = queue.clone();
        let writer = std::thread::Builder::new().name("request-log".into()).spawn(move || written.write());
        let writer =
            writer.inspect_err(|error| tracing::error!(%error, "the request log could not start")).ok();
        RequestLog { queue, writer }
    }

    /// Logs a request that was answered.
    pub(crate) fn push(
        &self,
        started: Box<Started>,
        route: &'static str,
        status: u16,
        request_id: &HeaderValue,
    ) {
        let entry =
            Entry { duration: started.at.elapsed(), started, route, status, request_id: request_id.clone() };
        self.queue.push(entry);
    }

    /// Entries that found the queue full.
    pub(crate) fn dropped(&self) -> u64 {
        self.queue.dropped.load(Relaxed)
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        self.queue.entries.lock().is_closed = true;
        self.queue.filled.notify_one();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the request log panicked");
        }
    }
}

impl Queue {
    fn push(&self, entry: Entry) {
        let mut entries = self.entries.lock();
        if entries.waiting.len() == QUEUED_MAX {
            drop(entries);
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        entries.waiting.push(entry);
        let is_first = entries.waiting.len() == 1;
        drop(entries);
        if is_first {
            self.filled.notify_one();
        }
    }

    fn write(&self) {
        let mut batch = Vec::new();
        loop {
            let mut entries = self.entries.lock();
            self.filled.wait_while(&mut entries, |entries| entries.waiting.is_empty() && !entries.is_closed);
            self.filled.wait_while_for(&mut entries, |entries| !entries.is_closed, GATHER);
            std::mem::swap(&mut batch, &mut entries.waiting);
            let is_closed = entries.is_closed;
            drop(entries);
            batch.drain(..).for_each(|entry| entry.write());
            if is_closed {
                return;
            }
        }
    }
}

impl Entry {
    fn write(self) {
        let Started { method, address, client, .. } = *self.started;
        let client = client.0.as_ref().and_then(|slot| slot.get()).map(ClientId::as_str);
        // Well-formed ids are text.
        let request_id = self.request_id.to_str().unwrap_or_default();
        let duration_ms = self.duration.as_micros() as f64 / 1000.0;
        tracing::info!(
            target: "request", %method, route = self.route, status = self.status, duration_ms, request_id, %address,
            client, "answered"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let address = IpAddr::from([127, 0, 0, 1]);
        let started =
            Started { method: Method::GET, address, client: ClientSlot::default(), at: Instant::now() };
        let request_id = HeaderValue::from_static("0123456789abcdef");
        Entry {
            started: Box::new(started),
            route: "/healthz",
            status: 200,
            duration: Duration::ZERO,
            request_id,
        }
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let queue = Queue::default();
        for _ in 0..QUEUED_MAX + 3 {
            queue.push(entry());
        }
        assert_eq!((queue.entries.lock().waiting.len(), queue.dropped.load(Relaxed)), (QUEUED_MAX, 3));
        queue.entries.lock().is_closed = true;
        queue.write();
        assert!(queue.entries.lock().waiting.is_empty(), "the rest is written at the end");
    }
}
