//! HTTP/1.1 for a load generator: prebuilt requests, one reused buffer a connection, no allocation per answer. It has no
//! knowledge of the requests. The same requests can be sent by HTTP/2 and over TLS ([`Wire`]), with more work.

mod connection;
mod event_stream;
mod http2;
mod request;
mod response;
mod target;
mod wire;

pub use browser::sse::Event;
pub use connection::Connection;
pub use event_stream::{EventReader, EventStream};
pub use request::{RequestDraft, form_body};
pub use response::{Malformed, Progress, Response, ResponseReader};
pub use target::Target;
pub use wire::Wire;
