//! Reads the body of a request within limits of size and time.

use bytes::Bytes;
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
    match tokio::time::timeout(time, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::TooLarge),
        Ok(Err(_)) => Err(Failure::Broken),
        Err(_) => Err(Failure::Late),
    }
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
