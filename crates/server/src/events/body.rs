//! The body of a stream: what a task sends, until the task ends.

use bytes::Bytes;
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// Frames that wait for the client. More wait in the socket's buffers.
pub(super) const WAITING_MAX: usize = 4;

/// The receiving end. Dropping it, as when the client disconnects, closes the task's channel.
pub(super) struct StreamBody(pub(super) Receiver<Bytes>);

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
