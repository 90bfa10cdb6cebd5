//! Everything between the socket and a handler: accepting connections, what every answer gets, who is asking,
//! bodies in and out, errors.
//!
//! - `listener.rs`: the accept loop, its limits and the graceful stop. `places.rs`: which connections there is room for.
//!   `watched_stream.rs`: clients that do not read. `log_interval.rs`: one log line for many events.
//! - `middleware.rs`: CORS, `Sarsen-Version`, counting. `request_id.rs`: `X-Request-Id`.
//! - `idempotency.rs`: `Idempotency-Key`.
//! - `dispatch.rs`: from the path and the method to the handler. `path.rs`: the parameters of the route.
//! - `auth.rs`: extractors for the client's address and for access tokens; `cidr.rs`: blocks of addresses; `host.rs`:
//!   hosts that are answered for; `administration.rs`: for administrators, whose types say what a handler may change;
//!   `service_key.rs`: for the API keys of services.
//! - `fetch_metadata.rs`: which site a browser's request comes from.
//! - `fields/`: the fields of bodies and query strings, and everything that is wrong with them.
//! - `json.rs`: JSON bodies, query strings, pages of lists, times. `error.rs`: problem documents (RFC 9457).

pub(crate) mod administration;
pub(crate) mod auth;
pub(crate) mod cidr;
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
mod places;
pub(crate) mod request_id;
pub(crate) mod service_key;
pub(crate) mod watched_stream;
