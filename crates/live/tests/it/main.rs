//! A whole back end over HTTP.

mod app;
mod client;
mod live;
mod rpc;
mod standing;
