//! The streams of an HTTP/2 connection: a task for each request, which ends it when its client is too slow.

use super::super::places::{Pulse, Room, Weight};
use super::super::watched_stream::Pace;
use super::paced_body::StreamPulse;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

tokio::task_local! {
    static STREAM: Arc<StreamPulse>;
}

/// The pulse of the stream whose request is being handled.
pub(crate) fn current() -> Arc<StreamPulse> {
    STREAM.try_with(Arc::clone).unwrap_or_default()
}

/// The streams of a connection. hyper gives each request to it as a future that ends when the response is sent.
#[derive(Clone)]
pub(crate) struct Streams(Arc<Shared>);

struct Shared {
    /// The connection's.
    pulse: Arc<Pulse>,
    room: Room,
    /// Called for each request for which there is no room.
    refused: Box<dyn Fn() + Send + Sync>,
    pace: Pace,
    /// Held until the stream has ended, so that a stop waits for it.
    cut: watch::Receiver<bool>,
    open: AtomicUsize,
    /// When the last stream ended.
    quiet_since: Mutex<Instant>,
    /// The end of a response waits for a window, so that only the end of the connection ends it.
    too_slow: Notify,
}

impl Streams {
    pub(crate) fn new(
        pulse: Arc<Pulse>,
        room: Room,
        refused: impl Fn() + Send + Sync + 'static,
        pace: Pace,
        cut: watch::Receiver<bool>,
    ) -> Streams {
        // A connection of many streams has no rate: its streams have one each.
        pulse.set_stream(true);
        Streams(Arc::new(Shared {
            pulse,
            room,
            refused: Box::new(refused),
            pace,
            cut,
            open: AtomicUsize::new(0),
            quiet_since: Mutex::new(Instant::now()),
            too_slow: Notify::new(),
        }))
    }

    /// A request is being handled until the guard is dropped.
    pub(crate) fn handle(&self) -> Handling {
        self.0.pulse.begin_handling();
        Handling(self.0.clone())
    }

    /// Waits until no stream has been open for `time`.
    pub(crate) async fn quiet(&self, time: Duration) {
        loop {
            let quiet_since = *self.0.quiet_since.lock();
            let is_open = self.0.open.load(Relaxed) > 0;
            let until = if is_open { Instant::now() } else { quiet_since } + time;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }

    /// Waits until the connection has to end because of a stream.
    pub(crate) async fn too_slow(&self) {
        self.0.too_slow.notified().await;
    }
}

/// A request that is being handled.
pub(crate) struct Handling(Arc<Shared>);

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.pulse.end_handling();
    }
}

/// A stream that is open.
struct Open(
    Arc<Shared>,
    #[expect(dead_code, reason = "a stop waits until it is dropped")] watch::Receiver<bool>,
    #[expect(dead_code, reason = "it is free when it is dropped")] Weight,
);

impl Drop for Open {
    fn drop(&mut self) {
        *self.0.quiet_since.lock() = Instant::now();
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        // Dropping the stream resets it.
        let Ok(weight) = self.0.room.add() else { return (self.0.refused)() };
        self.0.open.fetch_add(1, Relaxed);
        let open = Open(self.0.clone(), self.0.cut.clone(), weight);
        tokio::spawn(async move {
            if run(stream, open.0.pace).await == End::Stuck {
                open.0.too_slow.notify_one();
            }
        });
    }
}

#[derive(PartialEq, Eq)]
enum End {
    Sent,
    /// The stream is reset as it is dropped.
    Slow,
    /// All was given to the connection, which cannot send it.
    Stuck,
}

async fn run(stream: impl Future<Output = ()>, pace: Pace) -> End {
    let pulse = Arc::<StreamPulse>::default();
    let mut stream = pin!(STREAM.scope(pulse.clone(), stream));
    let (mut is_given, mut timer) = (false, None);
    std::future::poll_fn(|context| {
        is_given = is_given || stream.as_mut().poll(context).is_ready();
        let Some(ends_at) = pulse.ends_at(pace, context) else {
            return if is_given { Poll::Ready(End::Sent) } else { Poll::Pending };
        };
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends_at.into())));
        if timer.deadline() != ends_at.into() {
            timer.as_mut().reset(ends_at.into());
        }
        timer.as_mut().poll(context).map(|()| if is_given { End::Stuck } else { End::Slow })
    })
    .await
}
