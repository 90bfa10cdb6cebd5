//! The listener over real sockets.

mod floods;
mod frames;
mod http1;
mod http2;
mod service;
mod tls;
