//! What serves one operation of an HTTP interface. The platform and the back ends on `live` stand on it, so that both read a
//! request by the same rules.
//!
//! - `routes.rs`: from the path and the method to the handler. `path.rs`: the parameters of the route.
//! - `fields/`: the fields of bodies and query strings, and everything that is wrong with them.
//! - `problem.rs`: problem documents (RFC 9457).
//! - `idempotency/`: `Idempotency-Key`; how a command is run once with it needs the feature `store`.
//! - `sse.rs`: what a stream of events is, on the wire.
//! - `words.rs`: texts of errors as sentences.
//!
//! It knows no product and, without its feature `store`, no database, and is generic over the state that handlers share. What clients see of an
//! error (status, code, words) is decided in the crate above.

pub mod fields;
pub mod idempotency;
pub mod path;
pub mod problem;
pub mod routes;
pub mod sse;
pub mod words;
