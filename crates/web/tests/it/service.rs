//! A service whose requests wait, stream and send much, and which counts what it does.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use web::{ConnectionCounts, Limits, Peer, RequestBody, Running, Service};

/// What the service has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) counts: ConnectionCounts,
    pub(crate) calls: AtomicUsize,
    pub(crate) held: AtomicUsize,
    pub(crate) held_max: AtomicUsize,
    pub(crate) is_finished: AtomicUsize,
    release: Notify,
}

pub(crate) struct Samples(Arc<Seen>);

/// A part, then nothing for as long as the client likes.
pub(crate) enum Content {
    Whole(Option<Bytes>),
    Stream(Option<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Content::Whole(part) => Poll::Ready(part.take().map(|part| Ok(Frame::data(part)))),
            Content::Stream(part) => {
                part.take().map_or(Poll::Pending, |part| Poll::Ready(Some(Ok(Frame::data(part)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(part) => SizeHint::with_exact(part.as_ref().map_or(0, Bytes::len) as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

impl Service for Samples {
    type Body = Content;

    fn call(
        &self,
        _: Peer,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<Content>> + Send + use<> {
        let seen = self.0.clone();
        async move {
            seen.calls.fetch_add(1, SeqCst);
            let path = request.uri().path().to_owned();
            let content = match &*path {
                "/" => Content::Whole(Some(Bytes::from_static(b"ok"))),
                "/read" => {
                    let read = web::body::read(request.into_body(), Duration::from_secs(10), 1 << 20).await;
                    Content::Whole(read.ok().map(|_| Bytes::from_static(b"ok")))
                }
                "/much" => Content::Whole(Some(vec![7; 4 * 1024 * 1024].into())),
                "/stream" => Content::Stream(Some(Bytes::from_static(b"first"))),
                "/held" => {
                    let held = Held(seen.clone());
                    let now = seen.held.fetch_add(1, SeqCst) + 1;
                    seen.held_max.fetch_max(now, SeqCst);
                    seen.release.notified().await;
                    drop(held);
                    Content::Whole(Some(Bytes::from_static(b"released")))
                }
                _ => Content::Whole(None),
            };
            let mut response = Response::new(content);
            *response.status_mut() = StatusCode::OK;
            response
        }
    }

    fn refuse_head(&self, head: &Request<()>) -> Response<Content> {
        let accepts = head.headers().get("accept").and_then(|value| value.to_str().ok()).unwrap_or("nothing");
        let text = format!("{} is too large for {accepts}", head.uri().path());
        let mut response = Response::new(Content::Whole(Some(text.into())));
        *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        response
    }

    fn counts(&self) -> &ConnectionCounts {
        &self.0.counts
    }

    fn release(&self) {
        self.0.release.notify_waiters();
    }

    async fn finish(&self) {
        self.0.is_finished.fetch_add(1, SeqCst);
    }
}

struct Held(Arc<Seen>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, SeqCst);
    }
}

/// A listener on a free port.
pub(crate) async fn start(limit: impl FnOnce(&mut Limits)) -> (Running, SocketAddr, Arc<Seen>) {
    let (seen, mut limits) = (Arc::<Seen>::default(), Limits::default());
    limit(&mut limits);
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let running = web::serve(Samples(seen.clone()), &[loopback], limits).await.expect("serves");
    let address = running.addresses[0];
    (running, address, seen)
}

/// Waits until a thing is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap_or_else(|_| panic!("{what}"));
}
