//! HTTP/1.1 for a load generator: prebuilt requests, one reused buffer a connection, no allocation per answer. It has no
//! TLS, and no knowledge of the requests.

mod connection;
mod event_stream;
mod request;
mod response;
mod target;

pub use connection::Connection;
pub use event_stream::{Event, EventReader, EventStream};
pub use request::{RequestDraft, form_body};
pub use response::{Malformed, Progress, Response, ResponseReader};
pub use target::Target;
