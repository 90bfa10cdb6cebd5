//! The ground of an HTTP server: from the socket to a [`Service`], with limits for clients that misbehave.
//!
//! It knows no routes, no database and no product; `server` (identity) and `live` stand on it. What it promises:
//!
//! - **Connections are bounded** ([`serve`]). While more than half of the places are taken, one network holds a tenth of
//!   them. A full server closes the connection that made no progress for the longest time, never one whose request is
//!   being handled.
//! - **HTTP/1.1 and HTTP/2 on one port**, with the same limits: what holds for a connection of HTTP/1.1 holds for a stream
//!   of HTTP/2. Floods of its frames close the connection.
//! - **TLS** when a certificate is given ([`Tls`]): it is replaced without a failed request. Handshakes of a network are
//!   bounded in number and in rate.
//! - **Heads are bounded** in bytes and in time, bodies too ([`body`]).
//! - **A client that does not read is reset**: without progress for 30 seconds, or below 1 KiB/s. A stream has no rate,
//!   and a connection to which nothing has to be sent may wait.
//! - **A stop loses no request**: no connection is accepted any more, [`Service::release`] ends held requests, open ones
//!   finish within a limit, then [`Service::finish`] runs. Connections of HTTP/1.1 may send one more request for a moment.
//! - **A connection that ends says so**: `Connection: close` after a response before the end of the request's body and
//!   while the server stops, GOAWAY on HTTP/2.
//!
//! # Layout
//! - `listener.rs`: the accept loop, its limits and the graceful stop. `service.rs`: what is served.
//! - `connection.rs`: a connection, by HTTP/1.1 or HTTP/2; `preface.rs` tells which; `large_head.rs`: heads
//!   that are too large. `http2/`: limits of its streams.
//!   `tls.rs`: certificates; `handshakes.rs`: limits of handshakes. `certificate.rs`: when a certificate ends.
//! - `places.rs`: the places for connections; `descriptors.rs`: how many there can be;
//!   `memory_limit.rs`: how much memory. `small_parts.rs`: responses of HTTP/1.1 in parts. `watched_stream.rs`: clients that
//!   do not read.
//! - `cidr.rs`: blocks of addresses. `network.rs`: which addresses count as one. `forwarded.rs`: the client's address
//!   behind a proxy, `forwarded_header.rs`: in the header `Forwarded`; `address_sources.rs`: how many requests have it, and headers that are ignored.
//! - `host.rs`: the hosts of a server. `percent.rs`: percent-encoding. `body.rs`: bodies; `request_body.rs`: what
//!   their handlers leave unread;
//!   `json_size.rs`: how much JSON they may have. `caller_counts.rs`: how often a caller did something.
//! - `panics.rs`: a panic as an error. `request_id.rs`: `X-Request-Id`. `current_request.rs`: what log lines need to know
//!   of the request. `request_log.rs`: a line a request. `log_interval.rs`: one log line for many events.
//! - `signals.rs`: the signals that stop a server.

pub mod address_sources;
pub mod asked_headers;
pub mod body;
mod caller_counts;
mod certificate;
pub mod cidr;
mod connection;
pub mod current_request;
mod descriptors;
pub mod forwarded;
mod forwarded_header;
mod handshakes;
pub mod host;
mod http2;
pub mod json_size;
mod large_head;
mod listener;
pub mod log_interval;
pub mod memory_limit;
pub mod network;
pub mod panics;
pub mod percent;
mod places;
mod preface;
mod request_body;
pub mod request_id;
pub mod request_log;
mod service;
mod signals;
mod small_parts;
mod tls;
mod watched_stream;

pub use caller_counts::CallerCounts;
pub use cidr::Cidr;
pub use forwarded::{AddressHeader, Peer};
pub use listener::{Bound, Limits, Running, serve, serve_on};
pub use request_body::RequestBody;
pub use request_log::{RequestLog, RequestLogFormat};
pub use service::{ConnectionCounts, Service};
pub use signals::Signals;
pub use tls::{Tls, TlsError};
pub use watched_stream::Pace;
