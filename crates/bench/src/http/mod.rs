//! HTTP/1.1 as a load generator needs it: prebuilt request bytes, one reused buffer a connection, no allocation
//! per answer. Speaks plain `http` only and knows nothing of what the requests mean.

mod connection;
mod request;
mod response;
mod target;

pub use connection::Connection;
pub use request::{RequestDraft, form_body};
pub use response::{Malformed, Progress, Response, ResponseReader};
pub use target::Target;
