//! Reads the body of a request within limits of size and time.

use bytes::Bytes;
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

/// Reads a body of at most `most` bytes. A `Content-Length` above the limit is refused before the body is read.
pub async fn read<B>(body: B, time: Duration, most: usize) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if body.size_hint().lower() > most as u64 {
        return Err(Failure::TooLarge);
    }
    match tokio::time::timeout(time, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::TooLarge),
        Ok(Err(_)) => Err(Failure::Broken),
        Err(_) => Err(Failure::Late),
    }
}
