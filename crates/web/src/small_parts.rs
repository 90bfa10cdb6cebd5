//! A response of HTTP/1.1 in parts, so that a client that does not read it holds little memory.
//!
//! hyper copies a part of a body into the buffer of its connection however large it is, and takes the next one when there is
//! room. A response of 300 KB in one part, which all requests share, was 300 KB for each client that does not read.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The longest part; the buffer has as much besides.
const PART_MAX: usize = 16 * 1024;

/// A body whose parts are small.
pub(crate) struct SmallParts<B> {
    body: B,
    rest: Bytes,
}

impl<B> SmallParts<B> {
    pub(crate) fn new(body: B) -> SmallParts<B> {
        SmallParts { body, rest: Bytes::new() }
    }

    /// The next part of what is there.
    fn part(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(PART_MAX)))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for SmallParts<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.part())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match frame {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.len() > PART_MAX => {
                    self.rest = data;
                    Poll::Ready(Some(Ok(self.part())))
                }
                Ok(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(other) => Poll::Ready(Some(Ok(other))),
            },
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt as _, Full};

    #[tokio::test]
    async fn a_large_part_becomes_many_and_the_length_stays() {
        for length in [0, 1, PART_MAX, PART_MAX + 1, 5 * PART_MAX + 7] {
            let sent: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut body = SmallParts::new(Full::new(Bytes::from(sent.clone())));
            let mut read = Vec::new();
            assert_eq!(body.size_hint().exact(), Some(length as u64));
            while let Some(frame) = body.frame().await {
                let part = frame.expect("a part").into_data().expect("data");
                assert!(part.len() <= PART_MAX);
                read.extend_from_slice(&part);
                assert_eq!(body.size_hint().exact(), Some((length - read.len()) as u64));
                assert_eq!(body.is_end_stream(), read.len() == length);
            }
            assert_eq!(read, sent);
        }
    }
}
