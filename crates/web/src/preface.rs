//! Tells HTTP/2 from HTTP/1.1 by the first bytes of a connection (RFC 9113 section 3.4, "prior knowledge").
//!
//! hyper reads the connection as HTTP/1.1. A connection that begins with the preface of HTTP/2 looks to it like one that
//! ended before its first request; what was read is then served as HTTP/2. So HTTP/1.1 costs no further read and no
//! timer, and its time limit for the headers holds for the preface too
//! ([0066](../../../docs/design/0066-one-port-for-http-1-and-2.md)).

use super::large_head;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first bytes of each HTTP/2 connection of a client.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose first bytes are read to find its protocol.
pub(crate) struct Detecting<I> {
    io: I,
    state: State,
    /// An answer of hyper itself was held back, for a better one.
    is_held_back: bool,
}

enum State {
    /// These bytes were read; they are the beginning of the preface.
    Unknown(Vec<u8>),
    /// The connection begins with the preface.
    Http2(Vec<u8>),
    /// These bytes were read, and have to be given to the reader from here on.
    Replay(Vec<u8>, usize),
    Known,
}

impl<I> Detecting<I> {
    pub(crate) fn new(io: I) -> Detecting<I> {
        Detecting { io, state: State::Unknown(Vec::new()), is_held_back: false }
    }

    /// A connection of HTTP/1.1, as its handshake says.
    pub(crate) fn http1(io: I) -> Detecting<I> {
        Detecting { io, state: State::Known, is_held_back: false }
    }

    /// The connection from its first byte on, if it is one of HTTP/2.
    pub(crate) fn into_http2(self) -> Option<Detecting<I>> {
        match self.state {
            State::Http2(read) => {
                Some(Detecting { io: self.io, state: State::Replay(read, 0), is_held_back: false })
            }
            _ => None,
        }
    }

    /// The connection, if an answer of hyper itself was held back.
    pub(crate) fn into_held_back(self) -> std::result::Result<I, Detecting<I>> {
        if self.is_held_back { Ok(self.io) } else { Err(self) }
    }

    fn is_http2(&self) -> bool {
        matches!(self.state, State::Http2(_))
    }
}

/// Whether `read` and the preface are equal as far as both go.
fn may_be_preface(read: &[u8]) -> bool {
    let length = read.len().min(PREFACE.len());
    read[..length] == PREFACE[..length]
}

impl<I: AsyncRead + Unpin> AsyncRead for Detecting<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Known => return Pin::new(&mut this.io).poll_read(context, buffer),
                State::Http2(_) => return Poll::Ready(Ok(())),
                State::Replay(read, from) => {
                    let count = buffer.remaining().min(read.len() - *from);
                    buffer.put_slice(&read[*from..*from + count]);
                    *from += count;
                    if *from == read.len() {
                        this.state = State::Known;
                    }
                    return Poll::Ready(Ok(()));
                }
                State::Unknown(read) => {
                    let before = buffer.filled().len();
                    ready!(Pin::new(&mut this.io).poll_read(context, buffer))?;
                    let new = &buffer.filled()[before..];
                    if read.is_empty() && (new.is_empty() || !may_be_preface(new)) {
                        this.state = State::Known;
                        return Poll::Ready(Ok(()));
                    }
                    let is_end = new.is_empty();
                    read.extend_from_slice(new);
                    buffer.set_filled(before);
                    if is_end || !may_be_preface(read) {
                        this.state = State::Replay(std::mem::take(read), 0);
                    } else if read.len() >= PREFACE.len() {
                        this.state = State::Http2(std::mem::take(read));
                    }
                }
            }
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Detecting<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if large_head::is_bare(bytes) {
            self.is_held_back = true;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    /// The connection goes on as HTTP/2 if it is one, or has another answer to send.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.is_http2() || self.is_held_back {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    /// What HTTP/1.1 reads of a connection whose bytes arrive in these parts, and what HTTP/2 reads then.
    async fn read(parts: &[&[u8]]) -> (Vec<u8>, Option<Vec<u8>>) {
        let io = parts.iter().fold(tokio_io(b""), |io, part| Box::new(io.chain(*part)));
        let (mut detecting, mut first) = (Detecting::new(io), Vec::new());
        detecting.read_to_end(&mut first).await.expect("read");
        let Some(mut rest) = detecting.into_http2() else { return (first, None) };
        let mut second = Vec::new();
        rest.read_to_end(&mut second).await.expect("read");
        (first, Some(second))
    }

    fn tokio_io(bytes: &'static [u8]) -> Box<dyn AsyncRead + Unpin> {
        Box::new(bytes)
    }

    #[tokio::test]
    async fn a_connection_that_begins_with_the_preface_is_http_2_and_no_byte_is_lost() {
        let whole = [PREFACE, &b"\0\0\0\x04\0\0\0\0\0"[..]].concat();
        for cut in [0, 1, 3, 14, 23, 24, 30] {
            let (first, second) = read(&[&whole[..cut], &whole[cut..]]).await;
            assert_eq!((first.as_slice(), second.as_deref()), (&b""[..], Some(whole.as_slice())), "{cut}");
        }
        for other in [
            "GET / HTTP/1.1\r\n\r\n",
            "POST /",
            "PRI * HTTP/1.1\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nX",
            "PR",
            "",
        ] {
            for cut in [0, 1, 2, 3].map(|cut: usize| cut.min(other.len())) {
                let (first, second) = read(&[&other.as_bytes()[..cut], &other.as_bytes()[cut..]]).await;
                assert_eq!((first.as_slice(), second), (other.as_bytes(), None), "{other:?} {cut}");
            }
        }
    }
}
