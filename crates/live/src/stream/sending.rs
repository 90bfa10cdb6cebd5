//! What a stream sends, taken when its connection can take bytes, and the body of its response.

use super::{State, Stream};
use crate::frame::{self, Held, Pieces};
use crate::planted::{self, Bug, is_planted};
use axum::body::Bytes;
use http_body::{Body, Frame as BodyFrame};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use store::{Backoff, Version};

/// Bytes that are encoded before the socket is asked again.
const CHUNK: usize = 32 * 1024;
/// How soon a stream looks again whether a version was published.
const LOOK_AGAIN: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(160));

impl Stream {
    /// The next bytes: notices, then the newest frames of what is behind. `LookAgain`: a frame waits for the standing.
    fn take(&self, state: &mut State) -> Taken {
        let mut out = Pieces::default();
        let mut must_wait = false;
        while out.bytes < CHUNK
            && let Some(notice) = state.notices.pop_front()
        {
            out.answers += usize::from(notice.text.starts_with("event: error"));
            out.push(&notice.text);
        }
        if !state.ended {
            must_wait = self.write_frames(state, &mut out);
            if out.is_empty() && state.heartbeat {
                out.push(":\n\n");
            }
        }
        if must_wait && out.is_empty() {
            return Taken::LookAgain;
        }
        if !must_wait {
            state.looks = 0;
        }
        state.heartbeat = false;
        // Most streams have none after their first event.
        state.notices.shrink_to_fit();
        match (out.is_empty(), state.ended) {
            (true, true) => Taken::Ended,
            (true, false) => Taken::Nothing,
            (false, _) => {
                state.last_sent = Instant::now();
                Taken::Bytes(out)
            }
        }
    }

    /// Writes the frames of what is behind. Returns true if some must wait for the standing, or for the log of changes.
    fn write_frames(&self, state: &mut State, out: &mut Pieces) -> bool {
        let mut same: Vec<(Version, Version, Vec<String>)> = Vec::new();
        let mut must_wait = false;
        let mut waiting = VecDeque::new();
        while out.bytes < CHUNK
            && let Some(slot) = state.behind.pop_front()
        {
            let standing = state.standing.clone();
            let Some(Some(subscription)) = state.subscriptions.get_mut(slot as usize) else { continue };
            let known = subscription.group().and_then(|group| {
                let group = group.state.lock();
                group.frame.clone().zip(group.checked).zip(group.confirmed)
            });
            let Some(((frame, checked), confirmed)) = known else {
                subscription.is_behind = false;
                continue;
            };
            // An equal result is confirmed by any later run. Another one must itself have all that the client has seen.
            let is_held = subscription.held.as_ref().is_some_and(|held| *held.digest == *frame.digest);
            let shown = if is_held { checked } else { frame.settled };
            let is_older = |held: Version| shown.partial_cmp(&held).is_none_or(std::cmp::Ordering::is_lt);
            if subscription.not_before.as_ref().is_some_and(|waits| is_older(waits.0)) {
                // The group runs again for this version, and marks the subscription then.
                subscription.is_behind = false;
                continue;
            }
            // The standing is known for every version that was published here, if its group is current after that.
            let is_judged =
                standing.is_none_or(|standing| self.engine.has_published(&frame) && standing.is_current());
            // While the log cannot be read another instance may have changed what is cached here. It is no first answer then, nor
            // between the return of a database that was restarted and the run that this causes.
            let store = &self.engine.store;
            let is_of_now = store.is_fresh() && confirmed.epoch() == store.version().epoch();
            let is_known = subscription.sent.is_some() || is_of_now;
            if !is_judged || !is_known || planted::holds_frames() {
                must_wait = true;
                waiting.push_back(slot);
                continue;
            }
            subscription.is_behind = false;
            let held = subscription.held.take();
            let sent = subscription.sent.as_ref().filter(|(_, digest)| *digest == frame.digest);
            if sent.is_some_and(|(version, _)| version.epoch() == frame.version.epoch()) {
                continue;
            }
            // An equal result of another epoch is confirmed, like one that the client has said it holds.
            let held = match sent {
                Some((version, digest)) => {
                    Some(Box::new(Held { version: *version, digest: digest.to_string() }))
                }
                None => held,
            };
            let is_same = |held: &Held| *held.digest == *frame.digest || is_planted(Bug::SameOnReturn);
            if let Some(held) = held.filter(|held| is_same(held)) {
                let version = if frame.version.replaces(held.version) { frame.version } else { held.version };
                subscription.sent = Some((version, frame.digest.clone()));
                let settled = if version.replaces(confirmed) { confirmed } else { version };
                let key = subscription.key.to_string();
                match same.iter_mut().find(|(of, before, _)| (*of, *before) == (version, settled)) {
                    Some((.., keys)) => keys.push(key),
                    None => same.push((version, settled, vec![key])),
                }
                continue;
            }
            frame.write(&subscription.key, subscription.sent.as_ref(), subscription.rows, out);
            subscription.sent = Some((frame.version, frame.digest.clone()));
            subscription.not_before = None;
            self.engine.metrics.events.fetch_add(1, Ordering::Relaxed);
        }
        state.behind.append(&mut waiting);
        for (version, settled, keys) in same {
            out.push(&frame::same(&keys.join(","), version, settled));
        }
        must_wait
    }

    /// Waits until there is something to send.
    pub(crate) fn poll_events(self: &Arc<Stream>, context: &mut Context<'_>) -> Poll<Option<Pieces>> {
        let mut state = self.state.lock();
        match self.take(&mut state) {
            Taken::Bytes(pieces) => {
                self.engine.metrics.bytes.fetch_add(pieces.bytes as u64, Ordering::Relaxed);
                Poll::Ready(Some(pieces))
            }
            Taken::Ended => Poll::Ready(None),
            Taken::Nothing => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
            Taken::LookAgain => {
                state.waker = Some(context.waker().clone());
                if std::mem::replace(&mut state.looks_again, true) {
                    return Poll::Pending;
                }
                // A popular query may run again before a stream looks, so the pause grows only if thousands may wait for long:
                // while the log of changes or the standing cannot be read.
                let is_current = state.standing.as_ref().is_none_or(|standing| standing.is_current());
                let is_usual = is_current && self.engine.store.is_fresh();
                state.looks = if is_usual { 0 } else { (state.looks + 1).min(5) };
                let pause = LOOK_AGAIN.after(u32::from(state.looks)).take();
                drop(state);
                let stream = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    stream.state.lock().looks_again = false;
                    stream.wake();
                });
                Poll::Pending
            }
        }
    }
}

enum Taken {
    Bytes(Pieces),
    Nothing,
    LookAgain,
    Ended,
}

/// The body of the response. Dropping it ends the stream.
pub(crate) struct StreamBody {
    pub(crate) stream: Arc<Stream>,
    on_end: Option<Box<dyn FnOnce() + Send>>,
    /// Taken from the stream, and not from here yet.
    ready: VecDeque<Bytes>,
}

impl StreamBody {
    /// The body of a stream, and what to do when it has ended.
    pub(crate) fn new(stream: Arc<Stream>, on_end: impl FnOnce() + Send + 'static) -> StreamBody {
        StreamBody { stream, on_end: Some(Box::new(on_end)), ready: VecDeque::new() }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(BodyFrame::data(piece))));
            }
            match std::task::ready!(self.stream.poll_events(context)) {
                Some(pieces) => self.ready = pieces.finish(),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        self.stream.leave();
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }
}
