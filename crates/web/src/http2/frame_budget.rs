//! Closes an HTTP/2 connection that sends frames which ask for nothing: floods of PING, SETTINGS, PRIORITY, RST_STREAM,
//! WINDOW_UPDATE, CONTINUATION and empty DATA (RFC 9113 section 10.5).
//!
//! Frames are read on their way to hyper. Each such frame takes one from a budget, which time fills, and bytes that the
//! client has read: who downloads much sends many updates of windows. Requests cost nothing here; they have limits of
//! their own.

use super::super::preface::PREFACE;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The text of the error that ends a connection.
pub(crate) const FLOOD: &str = "a flood of frames that ask for nothing";
/// The most frames at once.
const BURST: u64 = 1_000;
/// Frames a second in the long run.
const PER_SECOND: u64 = 200;
/// Bytes that the kernel accepted for the client, for each further frame.
const BYTES_FOR_ONE: u64 = 1024;
/// Length, type, flags, stream.
const HEADER: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// A connection whose frames are counted.
pub(crate) struct Budgeted<I> {
    io: I,
    frames: Frames,
    budget: Budget,
}

impl<I> Budgeted<I> {
    pub(crate) fn new(io: I) -> Budgeted<I> {
        Budgeted { io, frames: Frames::default(), budget: Budget::new(Instant::now()) }
    }
}

/// Where in the stream of frames the connection is.
struct Frames {
    /// Bytes of the preface or of a payload that are still to come.
    skip: usize,
    header: [u8; HEADER],
    read: usize,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames { skip: PREFACE.len(), header: [0; HEADER], read: 0 }
    }
}

impl Frames {
    /// Reads on. Returns the number of frames that ask for nothing.
    fn read(&mut self, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            let count = (HEADER - self.read).min(bytes.len());
            self.header[self.read..self.read + count].copy_from_slice(&bytes[..count]);
            (self.read, bytes) = (self.read + count, &bytes[count..]);
            if self.read == HEADER {
                let [high, middle, low, kind, ..] = self.header;
                self.skip = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                self.read = 0;
                let asks = kind == HEADERS || kind == DATA && self.skip > 0;
                found += u64::from(!asks);
            }
        }
        found
    }
}

struct Budget {
    left: u64,
    filled_at: Instant,
    /// Bytes that do not make one frame yet.
    bytes: u64,
}

impl Budget {
    fn new(now: Instant) -> Budget {
        Budget { left: BURST, filled_at: now, bytes: 0 }
    }

    fn written(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.left = (self.left + self.bytes / BYTES_FOR_ONE).min(BURST);
        self.bytes %= BYTES_FOR_ONE;
    }

    /// Takes `frames`. Returns whether there were as many.
    fn take(&mut self, frames: u64, now: Instant) -> bool {
        let millis =
            u64::try_from(now.saturating_duration_since(self.filled_at).as_millis()).unwrap_or(u64::MAX);
        let filled = millis.saturating_mul(PER_SECOND) / 1000;
        if filled > 0 {
            self.left = self.left.saturating_add(filled).min(BURST);
            self.filled_at = now;
        }
        let left = self.left.checked_sub(frames);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Budgeted<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        let frames = self.frames.read(&buffer.filled()[before..]);
        if frames > 0 && !self.budget.take(frames, Instant::now()) {
            return Poll::Ready(Err(Error::new(ErrorKind::InvalidData, FLOOD)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Budgeted<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(context, bytes))?;
        self.budget.written(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(context, parts))?;
        self.budget.written(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn frames_are_counted_however_their_bytes_arrive() {
        let frame = |kind: u8, length: u8| {
            [&[0, 0, length, kind, 0, 0, 0, 0, 1][..], &vec![7; length.into()]].concat()
        };
        let parts = [
            PREFACE.to_vec(),
            frame(4, 0),
            frame(HEADERS, 30),
            frame(DATA, 200),
            frame(6, 8),
            frame(DATA, 0),
            frame(3, 4),
            frame(9, 10),
        ];
        for size in [1, 3, 8, 9, 10, 1000] {
            let mut frames = Frames::default();
            let found: u64 = parts.concat().chunks(size).map(|part| frames.read(part)).sum();
            assert_eq!(found, 5, "SETTINGS, PING, empty DATA, RST_STREAM, CONTINUATION in parts of {size}");
        }
    }

    #[test]
    fn time_and_bytes_that_the_client_reads_fill_the_budget() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert!(budget.take(BURST, start));
        assert!(!budget.take(1, start));
        assert!(budget.take(PER_SECOND, start + Duration::from_secs(1)));
        assert!(!budget.take(1, start + Duration::from_secs(1)));
        budget.written(1000);
        assert!(!budget.take(1, start + Duration::from_secs(1)));
        budget.written(1048);
        assert!(budget.take(2, start + Duration::from_secs(1)));
        assert!(!budget.take(BURST + 1, start + Duration::from_secs(3600)), "never more than a burst");
    }
}
