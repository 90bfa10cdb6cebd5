//! Reads the body of a request within limits of size and time.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use std::error::Error;
use std::time::Duration;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has more bytes than the limit (413).
    TooLarge,
    /// It ended before it was complete (400).
    Broken,
    /// It did not arrive in time (408).
    Late,
}

/// A body that is too large by no more than this is read and thrown away, so that the answer reaches a client or a proxy that
/// sends before it reads (RFC 9112, section 9.6). The connection of a larger one is closed while it is sent.
const DISCARDED_MAX: usize = 512 * 1024;
/// How long that may take.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Reads a body of at most `most` bytes.
pub async fn read<B>(body: B, time: Duration, most: usize) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let declared = body.size_hint().lower();
    if declared > most as u64 {
        if declared <= (most + DISCARDED_MAX) as u64 {
            // Whether it arrives or not, the answer is the same.
            let _ = tokio::time::timeout(time.min(DISCARD_TIME), discard(body)).await;
        }
        return Err(Failure::TooLarge);
    }
    match tokio::time::timeout(time, collect(Limited::new(body, most))).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::TooLarge),
        Ok(Err(_)) => Err(Failure::Broken),
        Err(_) => Err(Failure::Late),
    }
}

/// One buffer for all parts. A part keeps what it was read into in memory, so many small ones (chunks of a byte) would take
/// many times the size of the body if they were kept until it is complete.
async fn collect<B: Body<Data = Bytes>>(body: B) -> Result<Bytes, B::Error> {
    let mut body = std::pin::pin!(body);
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        // Trailers have no meaning here.
        let Ok(part) = frame?.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = part;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&part);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

async fn discard<B: Body<Data = Bytes>>(body: B) {
    let mut body = std::pin::pin!(body);
    while let Some(Ok(_)) = body.frame().await {}
}

/// The media type of a request's body, without parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    /// A body that is there in parts.
    struct Parts<I>(I);

    impl<I: Iterator<Item = Bytes> + Unpin> Body for Parts<I> {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.next().map(|part| Ok(Frame::data(part))))
        }
    }

    /// A part of a body that shows how many of its kind are in memory.
    struct Part {
        _alive: Arc<()>,
        text: Vec<u8>,
    }

    impl AsRef<[u8]> for Part {
        fn as_ref(&self) -> &[u8] {
            &self.text
        }
    }

    #[tokio::test]
    async fn the_parts_of_a_body_are_joined_and_none_of_them_is_kept() {
        let alive = Arc::new(());
        let parts = (0..1000_u32).map({
            let alive = alive.clone();
            move |number| {
                // This one, those that this test has itself, and the last two.
                assert!(Arc::strong_count(&alive) <= 4, "{number}");
                Bytes::from_owner(Part { _alive: alive.clone(), text: number.to_string().into_bytes() })
            }
        });
        let read = read(Parts(parts), Duration::from_secs(10), 10_000).await.expect("a body");
        let expected: String = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(read, expected.as_bytes());
    }
}
