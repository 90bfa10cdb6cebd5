//! What lies between the crate `web` (sockets, limits, addresses) and a handler: common headers, authentication, bodies,
//! errors.
//!
//! - `serving.rs`: serves the app on sockets, with its jobs.
//! - `middleware.rs`: CORS, `Sarsen-Version`, metrics.
//! - `idempotency.rs`: `Idempotency-Key`.
//! - `auth.rs`: extractors for the client's address and for access tokens; `administration.rs`: for administrators, whose
//!   types name what a handler may change; `service_key.rs`: for the API keys of services.
//! - `fetch_metadata.rs`: the site from which a browser's request comes.
//! - `fields.rs`: the rules of the domain for the fields of bodies and query strings, whose errors `endpoint` finds.
//! - `json.rs`: JSON bodies, query strings, pages of lists, times. `error.rs`: problem documents (RFC 9457).

pub(crate) mod administration;
pub(crate) mod auth;
pub(crate) mod error;
pub(crate) mod fetch_metadata;
pub(crate) mod fields;
pub(crate) mod handles;
pub(crate) mod idempotency;
pub(crate) mod json;
pub(crate) mod middleware;
pub(crate) mod service_key;
pub(crate) mod serving;

pub(crate) use endpoint::path;
