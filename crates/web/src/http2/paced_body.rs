//! The body of an HTTP/2 response, watched for a client that grants no window for it.
//!
//! A part of the body is pending until the connection has taken all of it; the next one is read only then, so a stream
//! holds one part. The rule for clients that do not read is that of a connection ([`Pending`]).

use super::super::watched_stream::{Pace, Pending};
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// What the body of a response and the task of its stream share.
#[derive(Default)]
pub(crate) struct StreamPulse(Mutex<State>);

#[derive(Default)]
struct State {
    is_stream: bool,
    /// Whether a part is pending.
    is_pending: bool,
    pending: Option<Pending>,
    /// The task that waits until the part is taken.
    waits: Option<Waker>,
}

impl StreamPulse {
    /// When the client counts as too slow, unless it takes more; none while nothing is pending. Wakes the task when nothing
    /// is pending any more.
    pub(crate) fn ends_at(&self, pace: Pace, context: &Context<'_>) -> Option<Instant> {
        let mut state = self.0.lock();
        if !state.is_pending {
            return None;
        }
        state.waits = Some(context.waker().clone());
        state.pending.as_ref().map(|pending| pending.ends_at(pace, state.is_stream))
    }

    fn begin(&self, now: Instant) {
        let mut state = self.0.lock();
        state.is_pending = true;
        // The rate of a stream counts from each part on, that of another response from its first one.
        if state.is_stream || state.pending.is_none() {
            state.pending = Some(Pending::new(now));
        }
    }

    fn accept(&self, bytes: usize, now: Instant) {
        if let Some(pending) = &mut self.0.lock().pending {
            pending.accept(bytes, now);
        }
    }

    fn taken(&self) {
        let mut state = self.0.lock();
        state.is_pending = false;
        let waits = state.waits.take();
        drop(state);
        if let Some(waker) = waits {
            waker.wake();
        }
    }
}

/// A body; none for the answer to HEAD.
pub(crate) struct PacedBody<B> {
    body: Option<Pin<Box<B>>>,
    pulse: Arc<StreamPulse>,
}

impl<B: Body> PacedBody<B> {
    pub(crate) fn new(body: Option<B>, pulse: Arc<StreamPulse>) -> PacedBody<B> {
        pulse.0.lock().is_stream = body.as_ref().is_some_and(|body| body.size_hint().exact().is_none());
        PacedBody { body: body.map(Box::pin), pulse }
    }
}

impl<B: Body<Data = Bytes>> Body for PacedBody<B> {
    type Data = Part;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, B::Error>>> {
        {
            let mut state = self.pulse.0.lock();
            if state.is_pending {
                state.waits = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        let PacedBody { body, pulse } = &mut *self;
        let Some(body) = body else { return Poll::Ready(None) };
        let frame = body.as_mut().poll_frame(context);
        frame.map_ok(|frame| {
            frame.map_data(|bytes| {
                pulse.begin(Instant::now());
                Part { bytes, pulse: pulse.clone() }
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), |body| body.size_hint())
    }
}

/// A part of a body. The connection drops it when it has taken all of it.
pub(crate) struct Part {
    bytes: Bytes,
    pulse: Arc<StreamPulse>,
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.pulse.accept(count, Instant::now());
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.pulse.taken();
    }
}
