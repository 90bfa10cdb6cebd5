//! What a listener serves.

use super::forwarded::Peer;
use super::request_body::RequestBody;
use bytes::Bytes;
use http::{Request, Response};
use metrics::Page;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a listener serves: one value for all connections.
pub trait Service: Send + Sync + 'static {
    /// The body of a response. One without an exact size is a stream, which may have long pauses.
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    /// Answers a request. The connection reserves space for the future as long as it is open: box what waits.
    fn call(
        &self,
        peer: Peer,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + use<Self>;

    /// Answers a request whose head is too large (431). `head` is what was read of it: the path, and headers as far as they came.
    fn refuse_head(&self, head: &Request<()>) -> Response<Self::Body>;

    /// Where the listener counts connections.
    fn counts(&self) -> &ConnectionCounts;

    /// A stop has begun, and no connection is accepted any more: answers held requests, and ends streams.
    fn release(&self) {}

    /// The last connection has ended: closes what the service has opened.
    fn finish(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The connections of a listener, for metrics.
#[derive(Default)]
pub struct ConnectionCounts {
    open: AtomicU64,
    refused: AtomicU64,
    refused_streams: AtomicU64,
    failed_handshakes: AtomicU64,
    floods: AtomicU64,
}

impl ConnectionCounts {
    /// Adds them to a page.
    pub fn show(&self, page: &mut Page) {
        page.gauge("http_connections", "Open connections", self.open());
        page.counter(
            "http_connections_refused_total",
            "Connections that were closed because their network had too many, or too many TLS handshakes at once",
            self.refused(),
        );
        page.counter(
            "http_streams_refused_total",
            "HTTP/2 requests that were reset because their network had too many connections and requests",
            self.refused_streams(),
        );
        page.counter(
            "http_handshakes_failed_total",
            "TLS handshakes that failed or took too long",
            self.failed_handshakes(),
        );
        page.counter(
            "http_floods_closed_total",
            "HTTP/2 connections that were closed because of a flood of frames or resets",
            self.floods(),
        );
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// Connections that were reset because their network had too many of them, or of handshakes.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Requests of HTTP/2 that were reset because their network had too much.
    pub fn refused_streams(&self) -> u64 {
        self.refused_streams.load(Relaxed)
    }

    /// TLS handshakes that failed: no common version, a client that does not trust the certificate, silence.
    pub fn failed_handshakes(&self) -> u64 {
        self.failed_handshakes.load(Relaxed)
    }

    /// Connections of HTTP/2 that were closed because of a flood: of resets, heads, or frames that ask for nothing.
    pub fn floods(&self) -> u64 {
        self.floods.load(Relaxed)
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn refuse_stream(&self) {
        self.refused_streams.fetch_add(1, Relaxed);
    }

    pub(crate) fn fail_handshake(&self) {
        self.failed_handshakes.fetch_add(1, Relaxed);
    }

    pub(crate) fn end_flood(&self) {
        self.floods.fetch_add(1, Relaxed);
    }
}
