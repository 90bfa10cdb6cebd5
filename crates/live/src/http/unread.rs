//! Long answers of calls and polls that clients have not read yet. A caller may call on thousands of connections and read nothing:
//! what it leaves in memory is limited like the answers of its live queries.

use crate::Problem;
use crate::account::Counted;
use crate::context::Context;
use crate::frame::Weight;
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

/// Shorter answers are not counted: a connection takes more than they do.
const LONG: usize = 4 * 1024;

/// A connection copies what it is given, so it is given so many bytes at a time.
const PIECE: usize = 32 * 1024;

/// Bytes by caller.
#[derive(Default)]
pub(crate) struct Unread(Arc<Mutex<HashMap<String, usize>>>);

/// The bytes of an answer, which count until it is dropped.
pub(super) struct Charged {
    bytes: usize,
    caller: Counted,
    by_caller: Arc<Mutex<HashMap<String, usize>>>,
    _weight: Weight,
}

impl Drop for Charged {
    fn drop(&mut self) {
        let mut by_caller = self.by_caller.lock();
        for one in &self.caller.0 {
            let Some(bytes) = by_caller.get_mut(&one.name) else { continue };
            *bytes -= self.bytes;
            if *bytes == 0 {
                by_caller.remove(&one.name);
            }
        }
    }
}

/// An answer; it counts until a connection has its last piece, or has ended.
struct Held {
    text: String,
    _charged: Charged,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

struct InPieces(Bytes);

impl http_body::Body for InPieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.0.len().min(PIECE);
        // The whole rest, so that nothing of the answer stays here.
        let piece =
            if length == self.0.len() { std::mem::take(&mut self.0) } else { self.0.split_to(length) };
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

impl Unread {
    /// Refuses a command whose answer could not be given: afterwards it is too late.
    pub(super) fn check(&self, context: &Context, caller: impl FnOnce() -> Counted) -> Result<(), Problem> {
        let by_caller = self.0.lock();
        if by_caller.is_empty() {
            return Ok(());
        }
        let most = context.0.limits.answer_bytes_per_caller_max;
        let is_above =
            |(name, most): (&str, usize)| by_caller.get(name).is_some_and(|unread| *unread >= most);
        match caller().limits(most).any(is_above) {
            true => Err(too_many(most)),
            false => Ok(()),
        }
    }

    /// The body of an answer. One of a query is refused if its caller has left too much unread, or all callers have.
    pub(super) fn hold(
        &self,
        context: &Context,
        text: String,
        caller: impl FnOnce() -> Counted,
        is_query: bool,
    ) -> Result<Body, Problem> {
        if text.len() < LONG {
            return Ok(text.into());
        }
        let charged = self.charge(context, text.len(), text.len(), caller(), is_query)?;
        Ok(Body::new(InPieces(Bytes::from_owner(Held { text, _charged: charged }))))
    }

    /// Counts the answer of a poll, of which others have all but `own_bytes`. None: it is short.
    pub(super) fn hold_poll(
        &self,
        context: &Context,
        (bytes, own_bytes): (usize, usize),
        caller: Counted,
    ) -> Result<Option<Charged>, Problem> {
        (bytes >= LONG).then(|| self.charge(context, bytes, own_bytes, caller, true)).transpose()
    }

    /// Counts so many bytes for a caller, and `new_bytes` of them for all.
    fn charge(
        &self,
        context: &Context,
        bytes: usize,
        new_bytes: usize,
        caller: Counted,
        may_refuse: bool,
    ) -> Result<Charged, Problem> {
        let (limits, all) = (&context.0.limits, &context.0.engine.answer_bytes);
        let most = limits.answer_bytes_per_caller_max;
        // As for live queries, half of the room is for users if there are any.
        let is_stranger = caller.is_network() && context.0.registry.authenticator.is_some();
        let all_max = if is_stranger { limits.answer_bytes_max / 2 } else { limits.answer_bytes_max };
        let mut by_caller = self.0.lock();
        let is_above = |(name, most): (&str, usize)| {
            // A caller with nothing unread gets an answer of any length.
            by_caller.get(name).is_some_and(|unread| *unread > 0 && *unread + bytes > most)
        };
        if may_refuse && caller.limits(most).any(is_above) {
            return Err(too_many(most));
        }
        if may_refuse && new_bytes >= LONG && all.load(Relaxed) + new_bytes > all_max {
            let detail = format!(
                "The answers that this server keeps take more than {all_max} bytes (`answer_bytes_max`). Try again later."
            );
            return Err(Problem::unavailable(detail, Duration::from_secs(5)));
        }
        caller.0.iter().for_each(|one| *by_caller.entry(one.name.clone()).or_default() += bytes);
        let weight = Weight::new(new_bytes, all);
        Ok(Charged { bytes, caller, by_caller: self.0.clone(), _weight: weight })
    }
}

fn too_many(most: usize) -> Problem {
    let detail = format!(
        "You have not read answers of {most} bytes (`answer_bytes_per_caller_max`). Read them, or close their connections."
    );
    Problem { retry_after: Some(Duration::from_secs(1)), ..Problem::limit(detail) }
}
