//! Live authorization state: the streams of `GET /api/live`.
//!
//! - `subscriber.rs`: who may open one. `streams.rs`: how many there may be, and their end when the server stops.
//! - `user_stream.rs`: for a user's token. It shows a state and runs its query again when a key of it changes; it ends with its session.
//! - `service_stream.rs`: for the API key of a service. It gets every event of the service's users, from a cursor on.
//!   `hub.rs`: the one reader of the log in this process, for all of these streams. `pages.rs`: how much is read at once.
//! - `reads.rs`: how many streams read at once. `frame.rs`: the text of events. `bodies.rs`: their JSON. `body.rs`: the body of the response.
//!
//! A stream that a client does not read holds at most a few frames: that of a user skips states in between, that of a service
//! ends, and its client resumes from its cursor. A heartbeat is sent only while this instance knows of changes in time, so
//! a client without one knows that its copy is stale.

pub(crate) mod bodies;
mod body;
mod frame;
mod hub;
mod pages;
mod reads;
mod service_stream;
mod streams;
mod subscriber;
mod user_stream;

pub(crate) use pages::Log;
pub(crate) use streams::Streams;
pub(crate) use subscriber::Subscriber;
