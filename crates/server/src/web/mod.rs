//! Everything between the socket and a handler: connections, common headers, authentication,
//! bodies, errors.
//!
//! - `listener.rs`: the accept loop, its limits and the graceful stop. `places.rs`: the places for connections.
//!   `watched_stream.rs`: clients that do not read. `log_interval.rs`: one log line for many events.
//! - `middleware.rs`: CORS, `Sarsen-Version`, metrics. `request_id.rs`: `X-Request-Id`.
//!   `current_request.rs`: what log lines need to know of the request.
//! - `idempotency.rs`: `Idempotency-Key`.
//! - `dispatch.rs`: from the path and the method to the handler. `path.rs`: the parameters of the route.
//!   `percent.rs`: percent-encoding.
//! - `auth.rs`: extractors for the client's address and for access tokens; `cidr.rs`: blocks of addresses; `host.rs`: the
//!   hosts of this server; `administration.rs`: for administrators, whose types name what a handler may change;
//!   `service_key.rs`: for the API keys of services. `untrusted_proxies.rs`: `X-Forwarded-For` that is ignored.
//! - `fetch_metadata.rs`: the site from which a browser's request comes.
//! - `fields/`: the fields of bodies and query strings, and all their errors.
//! - `json.rs`: JSON bodies, query strings, pages of lists, times. `error.rs`: problem documents (RFC 9457).

pub(crate) mod administration;
pub(crate) mod auth;
pub(crate) mod cidr;
pub(crate) mod current_request;
pub(crate) mod dispatch;
pub(crate) mod error;
pub(crate) mod fetch_metadata;
pub(crate) mod fields;
pub(crate) mod host;
pub(crate) mod idempotency;
pub(crate) mod json;
pub(crate) mod listener;
pub(crate) mod log_interval;
pub(crate) mod middleware;
pub(crate) mod path;
pub(crate) mod percent;
mod places;
pub(crate) mod request_id;
pub(crate) mod service_key;
pub(crate) mod untrusted_proxies;
pub(crate) mod watched_stream;
