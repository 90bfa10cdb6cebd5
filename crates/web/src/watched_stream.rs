//! A connection's socket, watched for clients that do not read.
//!
//! Bytes are pending while the kernel has not accepted all bytes for the client. Progress means that it
//! accepted some of them. Without progress for [`Pace::stall_max`] the connection is reset, and so is one whose
//! response is slower than [`Pace::bytes_per_second_min`] after that time, unless it is a stream. While
//! nothing is pending, nothing times out here.

use super::places::Pulse;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// The rate at which a client must read.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The longest time without progress while bytes are pending.
    pub stall_max: Duration,
    /// The minimum rate of a response after that time.
    pub bytes_per_second_min: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { stall_max: Duration::from_secs(30), bytes_per_second_min: 1024 }
    }
}

/// Bytes that are pending.
pub(crate) struct Pending {
    since: Instant,
    progressed_at: Instant,
    accepted: u64,
}

impl Pending {
    pub(crate) fn new(now: Instant) -> Pending {
        Pending { since: now, progressed_at: now, accepted: 0 }
    }

    pub(crate) fn accept(&mut self, bytes: usize, now: Instant) {
        self.accepted += bytes as u64;
        self.progressed_at = now;
    }

    /// When the client counts as too slow, unless more bytes are accepted.
    pub(crate) fn ends_at(&self, pace: Pace, is_stream: bool) -> Instant {
        let stalled_at = self.progressed_at + pace.stall_max;
        if is_stream || pace.bytes_per_second_min == 0 {
            return stalled_at;
        }
        let enough_for = self.accepted.saturating_mul(1000) / u64::from(pace.bytes_per_second_min);
        stalled_at.min(self.since + pace.stall_max.max(Duration::from_millis(enough_for)))
    }
}

/// The socket. Dropped while bytes are pending, it resets the connection, so that the kernel frees its buffer for a
/// client that does not read.
pub(crate) struct WatchedStream {
    socket: TcpStream,
    pulse: Arc<Pulse>,
    pace: Pace,
    pending: Option<Box<(Pending, Pin<Box<Sleep>>)>>,
}

impl WatchedStream {
    pub(crate) fn new(socket: TcpStream, pulse: Arc<Pulse>, pace: Pace) -> WatchedStream {
        WatchedStream { socket, pulse, pace, pending: None }
    }

    /// Waits for the end of the client's time; ready when it is over.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (pace, is_stream) = (self.pace, self.pulse.is_stream());
        let (pending, timer) = &mut **self.pending.get_or_insert_with(|| {
            let pending = Pending::new(Instant::now());
            let ends_at = pending.ends_at(pace, is_stream);
            Box::new((pending, Box::pin(tokio::time::sleep_until(ends_at.into()))))
        });
        let ends_at = pending.ends_at(pace, is_stream).into();
        if timer.deadline() != ends_at {
            timer.as_mut().reset(ends_at);
        }
        timer.as_mut().poll(context)
    }
}

/// Closes a connection with a reset, so that the kernel frees its buffer.
pub(crate) fn reset_when_dropped(socket: &TcpStream) {
    if let Err(error) = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "SO_LINGER");
    }
}

impl Drop for WatchedStream {
    fn drop(&mut self) {
        if self.pending.is_some() {
            reset_when_dropped(&self.socket);
        }
    }
}

impl WatchedStream {
    /// What follows a write: progress, or the client's time runs.
    fn written(&mut self, context: &mut Context<'_>, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(written) = written {
            let written = written?;
            let now = Instant::now();
            self.pulse.progressed(now);
            if let Some(pending) = &mut self.pending {
                pending.0.accept(written, now);
            }
            return Poll::Ready(Ok(written));
        }
        ready!(self.poll_end(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client reads too slowly")))
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    /// hyper flushes when the kernel has accepted all.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.pending = None;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_shutdown(context))?;
        // All was accepted: TLS writes its last bytes without a flush after them, and a reset would cut what was sent.
        self.pending = None;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_client_is_too_slow_without_progress_or_below_the_rate() {
        let pace = Pace::default();
        let start = Instant::now();
        let after = |pending: &Pending, is_stream| pending.ends_at(pace, is_stream) - start;
        let mut pending = Pending::new(start);
        assert_eq!(after(&pending, false), 30 * SECOND, "it reads nothing");
        pending.accept(1, start + 10 * SECOND);
        assert_eq!(after(&pending, false), 30 * SECOND, "a byte is below the rate");
        assert_eq!(after(&pending, true), 40 * SECOND, "a stream has no rate");
        pending.accept(100 * 1024, start + 20 * SECOND);
        assert_eq!(after(&pending, false), 50 * SECOND, "30 s after the last progress");
        pending.accept(1, start + 49 * SECOND);
        pending.accept(1, start + 78 * SECOND);
        assert_eq!(after(&pending, false), 100 * SECOND + Duration::from_millis(2), "1 KiB/s on average");
        assert_eq!(after(&pending, true), 108 * SECOND);
    }

    /// Sends much to a client that reads 2 KiB every 10 ms; whether the connection was reset by the server.
    async fn is_cut(pace: Pace, is_stream: bool) -> bool {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("set");
        let mut client = socket.connect(listener.local_addr().expect("an address")).await.expect("connects");
        let (accepted, _) = listener.accept().await.expect("accepts");
        // As the listener does: the kernel accepts more bytes when a part of its buffer is free.
        socket2::SockRef::from(&accepted).set_send_buffer_size(32 * 1024).expect("set");
        let pulse = Arc::new(Pulse::new(Instant::now(), Instant::now()));
        pulse.set_stream(is_stream);
        let mut stream = WatchedStream::new(accepted, pulse, pace);
        let sending = tokio::spawn(async move {
            let part = vec![0; 1024 * 1024];
            loop {
                let written =
                    std::future::poll_fn(|context| Pin::new(&mut stream).poll_write(context, &part)).await;
                if let Err(error) = written {
                    return error.kind();
                }
            }
        });
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        let (mut part, began) = ([0; 2048], Instant::now());
        while began.elapsed() < 3 * pace.stall_max {
            tick.tick().await;
            if tokio::io::AsyncReadExt::read(&mut client, &mut part).await.is_err() {
                break;
            }
        }
        let cut = sending.is_finished();
        drop(client);
        let error = sending.await.expect("an end");
        assert_eq!(error == ErrorKind::TimedOut, cut, "{error}");
        cut
    }

    #[tokio::test]
    async fn a_response_needs_the_rate_and_a_stream_does_not() {
        let pace = |bytes_per_second_min| Pace { stall_max: SECOND / 2, bytes_per_second_min };
        assert!(is_cut(pace(u32::MAX), false).await, "below the rate");
        assert!(!is_cut(pace(u32::MAX), true).await, "a stream");
        assert!(!is_cut(pace(1024), false).await, "above the rate");
    }

    #[tokio::test]
    async fn what_was_accepted_arrives_when_the_last_write_is_followed_by_a_close() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connects");
        let (accepted, _) = listener.accept().await.expect("accepts");
        let pulse = Arc::new(Pulse::new(Instant::now(), Instant::now()));
        let mut stream = WatchedStream::new(accepted, pulse, Pace::default());
        let sending = tokio::spawn(async move {
            let bytes = vec![0; 16 * 1024 * 1024];
            tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes).await.expect("sent");
            assert!(stream.pending.is_some(), "more than the buffers hold");
            tokio::io::AsyncWriteExt::shutdown(&mut stream).await.expect("closed");
        });
        let (mut received, mut part) = (0, vec![0; 64 * 1024]);
        loop {
            match tokio::io::AsyncReadExt::read(&mut client, &mut part).await.expect("no reset") {
                0 => break,
                count => received += count,
            }
        }
        assert_eq!(received, 16 * 1024 * 1024);
        sending.await.expect("an end");
    }
}
