//! Serves a connection of HTTP/2, with the limits of HTTP/1.1 on each of its streams.
//!
//! - Requests at once, bytes of a head and of bodies that nobody has read yet are bounded ([`serve`]).
//! - A stream whose client grants no window is reset after the time and by the rate of a connection whose client does not
//!   read (`paced_body.rs`, `streams.rs`).
//! - A connection without a request is closed after the time for an idle one.
//! - Floods of frames that ask for nothing close it (`frame_budget.rs`); hyper's h2 closes it for rapid resets and for
//!   floods of CONTINUATION.

mod frame_budget;
mod paced_body;
mod streams;

use super::connection::Ends;
use super::forwarded::Peer;
use super::large_head;
use super::listener::Limits;
use super::places::{Pulse, Room};
use super::request_body::RequestBody;
use super::service::Service;
use frame_budget::Budgeted;
use http::header::CONTENT_LENGTH;
use http::{Method, Request};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use paced_body::PacedBody;
use std::convert::Infallible;
use std::error::Error as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;
use tokio::io::{AsyncRead, AsyncWrite};

/// Requests of a connection at once. A browser with six tabs and their live streams needs a dozen.
const REQUESTS_AT_ONCE: u32 = 128;
/// Bytes of a request's body that the client may send before they are read: the largest body of the API.
const WINDOW: u32 = 64 * 1024;
/// The same for all requests of a connection together.
const WINDOW_OF_ALL: u32 = 256 * 1024;
/// Streams that a client may have reset before they were accepted.
const RESETS_UNSEEN: usize = 20;
/// Streams that the server may have reset because of the client's errors.
const RESETS_FOR_ERRORS: usize = 100;
/// How long a client may take to end a connection that it was asked to end.
const GOODBYE: Duration = Duration::from_secs(2);

/// Whether a connection was closed because of a flood, of frames or one that h2 found.
pub(crate) fn is_flood(error: &hyper::Error) -> bool {
    let Some(cause) = error.source() else { return false };
    if let Some(error) = cause.downcast_ref::<h2::Error>() {
        return error.is_library() && error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM);
    }
    // h2 keeps the text of an I/O error, not its type.
    let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| inner.to_string() == frame_budget::FLOOD)
}

/// Serves one connection until its end.
pub(crate) async fn serve<S: Service, I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    io: I,
    service: Arc<S>,
    peer: Peer,
    (pulse, room): (Arc<Pulse>, Room),
    limits: &Limits,
    ends: Ends,
) -> Result<(), hyper::Error> {
    let Ends { mut stopped, mut cut } = ends;
    let refused = {
        let (service, room) = (service.clone(), room.clone());
        move || {
            service.counts().refuse_stream();
            room.log_refusal(peer.address);
        }
    };
    // For the connection itself; its requests weigh more.
    let Ok(_weight) = room.add() else {
        service.counts().refuse();
        room.log_refusal(peer.address);
        return Ok(());
    };
    let of_bodies = room.clone();
    let streams = Streams::new(pulse, room, refused, limits.pace, cut.clone());
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS_AT_ONCE)
        // Up to here the service answers.
        .max_header_list_size(u32::try_from(2 * limits.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW_OF_ALL)
        .max_pending_accept_reset_streams(RESETS_UNSEEN)
        .max_local_error_reset_streams(RESETS_FOR_ERRORS);
    let (handled, head_bytes) = (streams.clone(), limits.head_bytes);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let is_head = request.method() == Method::HEAD;
        let handling = handled.handle();
        let answer = match large_head::size(&request) > head_bytes {
            true => Err(service.refuse_head(&large_head::head_of(&request))),
            false => Ok(service.call(peer, request.map(|body| RequestBody::new(body, of_bodies.clone())))),
        };
        async move {
            let mut answer = match answer {
                Ok(answer) => answer.await,
                Err(refusal) => refusal,
            };
            drop(handling);
            let length = answer.body().size_hint().exact();
            if let Some(length) = length.filter(|_| is_head) {
                // Of the body that a GET would get.
                answer.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
            }
            Ok::<_, Infallible>(
                answer.map(|body| PacedBody::new((!is_head).then_some(body), streams::current())),
            )
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Budgeted::new(io)), service));
    let mut is_ending = false;
    loop {
        let idle_time = if is_ending { GOODBYE } else { limits.header_time };
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            // The sender is gone when the server is.
            _ = cut.wait_for(|cut| *cut) => return Ok(()),
            () = streams.too_slow() => return Ok(()),
            _ = stopped.wait_for(|stopped| *stopped), if !is_ending => {}
            () = streams.quiet(idle_time) => {
                if is_ending {
                    return Ok(());
                }
            }
        }
        is_ending = true;
        connection.as_mut().graceful_shutdown();
    }
}
