//! The timer of one connection, for how long its client may take for a request's head and be idle before it.
//!
//! The HTTP stack asks for a new timer with each request, and takes it back when the head is there. Here they all
//! stand for one of the runtime, which is moved only when it rings: at most once in that time, and not twice a request.

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::Duration;

/// To be given to one connection: it has one deadline at a time, and each is later than the last.
pub(crate) struct IdleTimer(Arc<Mutex<Pin<Box<tokio::time::Sleep>>>>);

impl IdleTimer {
    /// Rings for nobody yet.
    pub(crate) fn new() -> IdleTimer {
        IdleTimer(Arc::new(Mutex::new(Box::pin(tokio::time::sleep(Duration::ZERO)))))
    }
}

impl Timer for IdleTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Idle { deadline: deadline.into(), timer: self.0.clone() })
    }
}

struct Idle {
    deadline: tokio::time::Instant,
    timer: Arc<Mutex<Pin<Box<tokio::time::Sleep>>>>,
}

impl Sleep for Idle {}

impl Future for Idle {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.timer.lock();
        while timer.as_mut().poll(context).is_ready() {
            if timer.deadline() >= self.deadline {
                return Poll::Ready(());
            }
            // It rang for an earlier request, whose head has come.
            timer.as_mut().reset(self.deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn a_deadline_that_was_taken_back_does_not_ring_for_the_next() {
        let (timer, began) = (IdleTimer::new(), Instant::now());
        let mut first = timer.sleep_until(began + Duration::from_millis(20));
        assert!(poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())).await);
        drop(first);
        timer.sleep_until(began + Duration::from_millis(100)).await;
        assert!(began.elapsed() >= Duration::from_millis(100));
        timer.sleep(Duration::from_millis(20)).await;
        assert!(began.elapsed() >= Duration::from_millis(120));
    }
}
