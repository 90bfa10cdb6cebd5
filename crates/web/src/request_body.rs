//! The body of a request: what it weighs, and what its handler left unread.
//!
//! A body that arrives counts for the share of its network, because its reader keeps it until it is complete: 1 for each 32
//! KiB after the first ones. Where the share is used up, the rest waits at its client until there is room or the time for a
//! body is over.
//!
//! A connection of HTTP/1.1 whose request was answered before its body was read cannot go on: the rest of the body would be
//! read as the next request. What has arrived is read and thrown away; if that is not all, the response says
//! `Connection: close` (RFC 9112 section 9.6), and the rest is read for a moment so that the client receives the response
//! and no reset. A stream of HTTP/2 ends by itself.

use super::places::{Room, Weight};
use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// Bytes that may arrive after the response and are thrown away.
const DISCARDED_MAX: usize = 512 * 1024;
/// How long that may take.
const DISCARD_TIME: Duration = Duration::from_secs(2);
/// Bytes that may have arrived with the head: the largest body of the API.
const ARRIVED_MAX: usize = 64 * 1024;
/// How often the connection may read on before what it reads has not arrived yet. It gives parts of a body to their reader one
/// at a time.
const TURNS_MAX: usize = 3;

/// Bytes that weigh as much as a connection.
const WEIGHS_ONE: usize = 32 * 1024;
/// How often a body that waits for room looks for it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The body of a request.
pub struct RequestBody {
    incoming: Option<Incoming>,
    rest: Option<Arc<Mutex<Rest>>>,
    held: Held,
}

/// What the reader of a body holds of it.
struct Held {
    room: Room,
    bytes: usize,
    weights: Vec<Weight>,
    waits: Option<Pin<Box<Sleep>>>,
}

impl Held {
    fn new(room: Room) -> Held {
        Held { room, bytes: 0, weights: Vec::new(), waits: None }
    }

    /// Ready when what has arrived is within the share of its network.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.weights.len() < self.bytes / WEIGHS_ONE {
            match self.room.add() {
                Ok(weight) => self.weights.push(weight),
                Err(_) => {
                    let again = || Box::pin(tokio::time::sleep(LOOK_AGAIN));
                    ready!(self.waits.get_or_insert_with(again).as_mut().poll(context));
                    self.waits = None;
                }
            }
        }
        Poll::Ready(())
    }
}

/// What is left of a body.
enum Rest {
    /// The handler has it.
    Held,
    /// The handler has dropped it before its end.
    Unread(Incoming),
    /// The handler has read it to its end.
    Read,
}

impl RequestBody {
    /// The body of a request whose connection does not need to know how it ends.
    pub(crate) fn new(incoming: Incoming, room: Room) -> RequestBody {
        RequestBody { incoming: Some(incoming), rest: None, held: Held::new(room) }
    }

    /// The body of a request of HTTP/1.1, and what its connection sees of it; none if there is no body.
    pub(crate) fn watched(
        incoming: Incoming,
        room: Room,
        headers: &HeaderMap,
    ) -> (RequestBody, Option<Watch>) {
        if incoming.is_end_stream() {
            return (RequestBody::new(incoming, room), None);
        }
        let rest = Arc::new(Mutex::new(Rest::Held));
        let watch = Watch { rest: rest.clone(), is_awaited: headers.contains_key(EXPECT) };
        (RequestBody { incoming: Some(incoming), rest: Some(rest), held: Held::new(room) }, Some(watch))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        ready!(self.held.poll_room(context));
        let RequestBody { incoming: Some(incoming), held, .. } = &mut *self else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(incoming).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            held.bytes += frame.data_ref().map_or(0, Bytes::len);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(rest), Some(incoming)) = (&self.rest, self.incoming.take()) {
            *rest.lock() = if incoming.is_end_stream() { Rest::Read } else { Rest::Unread(incoming) };
        }
    }
}

/// What the connection sees of a body.
pub(crate) struct Watch {
    rest: Arc<Mutex<Rest>>,
    /// The client sends the body only when it is asked to.
    is_awaited: bool,
}

impl Watch {
    /// Called when the response is made: whether the body has been read, or has arrived and is thrown away. If not, its rest
    /// is read for a moment in the background.
    pub(crate) async fn finish(self) -> bool {
        let rest = std::mem::replace(&mut *self.rest.lock(), Rest::Held);
        let mut incoming = match rest {
            Rest::Read => return true,
            Rest::Held => return false,
            Rest::Unread(incoming) => incoming,
        };
        if self.is_awaited {
            // Reading would ask for it.
            return false;
        }
        if has_arrived(&mut incoming).await {
            return true;
        }
        tokio::spawn(tokio::time::timeout(DISCARD_TIME, discard(incoming)));
        false
    }
}

/// Reads what has arrived. Returns whether that was all.
async fn has_arrived(incoming: &mut Incoming) -> bool {
    let (mut bytes, mut turns) = (0, 0);
    poll_fn(|context| {
        loop {
            match Pin::new(&mut *incoming).poll_frame(context) {
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                Poll::Ready(Some(Ok(frame))) => {
                    bytes += frame.data_ref().map_or(0, Bytes::len);
                    turns = 0;
                    if incoming.is_end_stream() || bytes > ARRIVED_MAX {
                        return Poll::Ready(incoming.is_end_stream());
                    }
                }
                Poll::Pending if turns == TURNS_MAX => return Poll::Ready(false),
                Poll::Pending => {
                    turns += 1;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    })
    .await
}

async fn discard(mut incoming: Incoming) {
    let mut bytes = 0;
    while bytes < DISCARDED_MAX {
        match poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
            _ => return,
        }
    }
}
