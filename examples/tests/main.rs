//! Tests of the examples: each app runs in this process, on the database that `SARSEN_TEST_DATABASE` names, and is asked
//! over HTTP. `client.rs` is the client.

mod client;
mod counters;
mod exam_attempts;
mod load;
mod request_log;
