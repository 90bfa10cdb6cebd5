//! One connection, from its first byte to its end: by HTTP/1.1 or HTTP/2, in the clear or over TLS.

use super::forwarded::Peer;
use super::handshakes::Handshakes;
use super::http2;
use super::large_head;
use super::listener::Limits;
use super::places::{Place, Pulse, Room};
use super::preface::Detecting;
use super::request_body::RequestBody;
use super::service::{ConnectionCounts, Service};
use super::small_parts::SmallParts;
use super::tls::{Protocol, Tls};
use super::watched_stream::WatchedStream;
use http::header::CONNECTION;
use http::{HeaderValue, Request};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How connections end when the server stops.
#[derive(Clone)]
pub(crate) struct Ends {
    /// No new connections and no new requests: open requests finish …
    pub(crate) stopped: watch::Receiver<bool>,
    /// … or their time is over.
    pub(crate) cut: watch::Receiver<bool>,
}

/// What serves connections.
pub(crate) struct Server<S> {
    service: Arc<S>,
    http1: http1::Builder,
    handshakes: Handshakes,
    limits: Limits,
}

impl<S: Service> Server<S> {
    pub(crate) fn new(service: Arc<S>, limits: Limits) -> Server<S> {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            .max_buf_size(limits.head_bytes.max(8192))
            // Responses are small: one copy costs less than a list of buffers. (`pipeline_flush` would do the same,
            // but holds responses back while the client has sent more than was read, so 431 and 413 never arrive.)
            .writev(false);
        let handshakes = Handshakes::new(limits.unshared.clone());
        Server { service, http1, handshakes, limits }
    }

    pub(crate) fn counts(&self) -> &ConnectionCounts {
        self.service.counts()
    }

    /// Serves one connection until its end.
    pub(crate) fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        place: Place,
        mut ends: Ends,
    ) -> impl Future<Output = ()> + Send + use<S> {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY");
        }
        let peer = Peer { address: peer.ip(), body_time: self.limits.body_time };
        let (pulse, room) = (place.pulse.clone(), place.room());
        let stream = WatchedStream::new(stream, pulse.clone(), self.limits.pace);
        let open = Open::count(&self.service, place);
        async move {
            let _open = open;
            let ended = match &self.limits.tls {
                None => match self.http1(Detecting::new(stream), peer, (&pulse, &room), &mut ends).await {
                    // In a box: most connections do not need its space.
                    Ok(Some(stream)) => Box::pin(self.http2(stream, peer, (pulse, room), ends)).await,
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                },
                Some(tls) => Box::pin(self.encrypted(tls, stream, peer, (pulse, room), ends)).await,
            };
            if let Err(error) = ended {
                // A client may disconnect at any time.
                tracing::debug!(%error, "a connection broke");
            }
        }
    }

    async fn encrypted(
        &self,
        tls: &Tls,
        stream: WatchedStream,
        peer: Peer,
        (pulse, room): (Arc<Pulse>, Room),
        mut ends: Ends,
    ) -> Result<(), hyper::Error> {
        let handshake = self.handshakes.begin(peer.address, Instant::now());
        let accepting = async {
            // Most do not wait, and need no timer.
            if !handshake.wait().is_zero() {
                tokio::time::sleep(handshake.wait()).await;
            }
            tls.accept(stream).await
        };
        let accepted = tokio::select! {
            accepted = accepting => accepted,
            () = handshake.ended() => {
                self.counts().refuse();
                return Ok(());
            }
            _ = ends.stopped.wait_for(|stopped| *stopped) => return Ok(()),
        };
        drop(handshake);
        match accepted {
            Ok((stream, Protocol::Http2)) => self.http2(stream, peer, (pulse, room), ends).await,
            Ok((stream, Protocol::Http1)) => {
                self.http1(Detecting::http1(stream), peer, (&pulse, &room), &mut ends).await.map(drop)
            }
            Ok((_, Protocol::Challenge)) => Ok(()),
            Err(error) => {
                self.counts().fail_handshake();
                tracing::debug!(%error, "a handshake failed");
                Ok(())
            }
        }
    }

    async fn http2<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: I,
        peer: Peer,
        place: (Arc<Pulse>, Room),
        ends: Ends,
    ) -> Result<(), hyper::Error> {
        let ended = http2::serve(stream, self.service.clone(), peer, place, &self.limits, ends).await;
        if ended.as_ref().is_err_and(http2::is_flood) {
            self.counts().end_flood();
        }
        ended
    }

    /// Serves HTTP/1.1. Returns the connection if it is one of HTTP/2.
    async fn http1<I: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: Detecting<I>,
        peer: Peer,
        (pulse, room): (&Arc<Pulse>, &Room),
        ends: &mut Ends,
    ) -> Result<Option<Detecting<I>>, hyper::Error> {
        let stopped = ends.stopped.clone();
        let service = hyper::service::service_fn(|request: Request<Incoming>| {
            pulse.begin_handling();
            let (head, body) = request.into_parts();
            let (body, watch) = RequestBody::watched(body, room.clone(), &head.headers);
            let answer = self.service.call(peer, Request::from_parts(head, body));
            let (pulse, stopped) = (pulse.clone(), stopped.clone());
            async move {
                let mut answer = answer.await;
                let is_complete = match watch {
                    Some(watch) => watch.finish().await,
                    None => true,
                };
                pulse.end_handling();
                pulse.set_stream(answer.body().size_hint().exact().is_none());
                if !is_complete || *stopped.borrow() {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(answer.map(SmallParts::new))
            }
        });
        let mut connection = self.http1.serve_connection(TokioIo::new(stream), service);
        // A request may be on its way on a connection that looks idle: it is answered, and its response says that it was the
        // last one.
        let last_requests = async {
            if ends.stopped.wait_for(|stopped| *stopped).await.is_ok() {
                tokio::time::sleep(self.limits.last_request_time).await;
            }
        };
        let by_itself = tokio::select! {
            biased;
            ended = &mut connection => Some(ended),
            () = last_requests => None,
        };
        let ended = match by_itself {
            Some(ended) => ended,
            None => {
                Pin::new(&mut connection).graceful_shutdown();
                tokio::select! {
                    ended = &mut connection => ended,
                    _ = ends.cut.wait_for(|cut| *cut) => Ok(()),
                }
            }
        };
        let http1::Parts { io, read_buf, .. } = connection.into_parts();
        match (io.into_inner().into_held_back(), ended) {
            (Ok(io), ended) => {
                let is_too_large = ended.as_ref().is_err_and(hyper::Error::is_parse_too_large);
                // In a box: few connections need its space.
                Box::pin(large_head::refuse(&*self.service, io, &read_buf, is_too_large)).await;
                ended.map(|()| None)
            }
            (Err(_), Err(error)) => Err(error),
            (Err(io), Ok(())) => Ok(io.into_http2()),
        }
    }
}

/// An open connection, for the metrics and its place. The task that serves it owns it.
struct Open<S: Service> {
    service: Arc<S>,
    _place: Place,
}

impl<S: Service> Open<S> {
    fn count(service: &Arc<S>, place: Place) -> Open<S> {
        service.counts().opened();
        Open { service: service.clone(), _place: place }
    }
}

impl<S: Service> Drop for Open<S> {
    fn drop(&mut self) {
        self.service.counts().closed();
    }
}
