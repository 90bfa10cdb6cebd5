//! A connection with bounds: how much is read in all, and not more than a line at a time before it is encrypted.
//!
//! Two owners hold one: the protocol above reads and writes, and what encrypts it takes the socket out and puts it back. As long as
//! it is not encrypted a line is read byte by byte, so that nothing that somebody put behind the answer to `STARTTLS` waits in a
//! buffer and is taken for an encrypted answer: it reaches the handshake, which fails.

use crate::trust::Trust;
use lettre::transport::smtp::client::AsyncTokioStream;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// All that is read of one peer. An answer of SMTP has a few lines.
const READ_MAX: usize = 256 * 1024;

/// The connection. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    socket: Socket,
    peer: SocketAddr,
    left: usize,
}

#[derive(Debug)]
enum Socket {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// It is being encrypted, or that failed.
    Away,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Result<Wire> {
        let peer = stream.peer_addr()?;
        Ok(Wire(Arc::new(Mutex::new(Held { socket: Socket::Plain(stream), peer, left: READ_MAX }))))
    }

    /// Encrypts it, if the peer has a certificate for `host`.
    pub(crate) async fn encrypt(&self, trust: &Trust, host: &str) -> Result<()> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::new(ErrorKind::InvalidInput, "the host is no name of a certificate"))?;
        let taken = std::mem::replace(&mut self.0.lock().socket, Socket::Away);
        let Socket::Plain(stream) = taken else { return Err(ErrorKind::NotConnected.into()) };
        let stream = trust.connector().connect(name, stream).await?;
        self.0.lock().socket = Socket::Encrypted(Box::new(stream));
        Ok(())
    }
}

impl Held {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(Error::new(ErrorKind::InvalidData, "the peer sends too much")));
        }
        let before = buffer.filled().len();
        let read = match &mut self.socket {
            Socket::Encrypted(stream) => {
                let most = self.left.min(buffer.remaining());
                let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
                let read = ready!(Pin::new(stream).poll_read(context, &mut part));
                let count = part.filled().len();
                buffer.advance(count);
                read
            }
            Socket::Plain(stream) => ready!(read_line(stream, context, buffer, self.left)),
            Socket::Away => Err(ErrorKind::NotConnected.into()),
        };
        let filled = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        self.left = self.left.saturating_sub(filled.len());
        // A relay may write its answers in any encoding; what matters of them is ASCII.
        filled.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
        Poll::Ready(read)
    }
}

/// Reads to the end of a line at most.
fn read_line(
    stream: &mut TcpStream,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
    most: usize,
) -> Poll<Result<()>> {
    for count in 0..buffer.remaining().min(most) {
        let mut byte = [0; 1];
        let mut one = ReadBuf::new(&mut byte);
        match Pin::new(&mut *stream).poll_read(context, &mut one) {
            // The bytes before are returned; if there are more, the next read finds them.
            Poll::Pending if count > 0 => break,
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => match one.filled() {
                [] => break,
                read => buffer.put_slice(read),
            },
        }
        if byte == *b"\n" {
            break;
        }
    }
    Poll::Ready(Ok(()))
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.0.lock().poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match &mut self.0.lock().socket {
            Socket::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Away => Poll::Ready(Err(ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0.lock().socket {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(context),
            Socket::Encrypted(stream) => Pin::new(stream).poll_flush(context),
            Socket::Away => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0.lock().socket {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Away => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> Result<SocketAddr> {
        Ok(self.0.lock().peer)
    }
}
