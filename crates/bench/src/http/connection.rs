//! One keep-alive connection: it sends a request, reads one answer, and stops at the deadline.
//!
//! Promises: an exchange costs one send and one receive call when the answer comes in one piece, and no timer call (the
//! timer of the deadline is moved only when it fires). After an error the connection cannot be used again.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::http2::Http2;
use super::response::{Progress, Response, ResponseReader};
use super::target::Target;
use super::wire::Io;
use crate::measure::Cause;

/// Source addresses to try when one has no free port.
const SOURCES_TRIED_MAX: usize = 4;

pub struct Connection {
    io: Io,
    reader: ResponseReader,
    /// Of a connection by HTTP/2.
    http2: Option<Box<Http2>>,
    expires: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Connection {
    /// Connects within `timeout`. `index` numbers the connections of a run and spreads their source addresses.
    pub async fn open(target: &Target, index: usize, timeout: Duration) -> Result<Connection, Cause> {
        let expires = Instant::now() + timeout;
        let stream = match tokio::time::timeout_at(expires, connect(target, index)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Cause::connect(&error)),
            Err(_) => return Err(Cause::ConnectTimeout),
        };
        stream.set_nodelay(true).map_err(|error| Cause::connect(&error))?;
        let io = match tokio::time::timeout_at(expires, target.wire.wrap(stream)).await {
            Ok(wrapped) => wrapped.map_err(|error| Cause::connect(&error))?,
            Err(_) => return Err(Cause::ConnectTimeout),
        };
        let timer = Box::pin(sleep_until(expires));
        let http2 = target.wire.is_http2().then(|| Box::new(Http2::new()));
        Ok(Connection { io, reader: ResponseReader::default(), http2, expires, timer })
    }

    /// Sends `request` and reads the whole answer; [`Connection::response`] returns it.
    pub async fn exchange(&mut self, request: &[u8], timeout: Duration) -> Result<(), Cause> {
        self.reader.begin_next().map_err(Cause::Malformed)?;
        if self.reader.has_begun() {
            return Err(Cause::UnexpectedBytes);
        }
        self.expires = Instant::now() + timeout;
        if self.timer.deadline() > self.expires {
            let expires = self.expires;
            self.timer.as_mut().reset(expires);
        }
        match &mut self.http2 {
            None => self.send(request).await?,
            Some(http2) => {
                http2.begin(request).map_err(Cause::Malformed)?;
                let frames = http2.take_out();
                self.send(&frames).await?;
            }
        }
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// The last answer; `None` before the first and after an error.
    pub fn response(&self) -> Option<Response<'_>> {
        self.reader.response()
    }

    /// Whether the server has closed this idle connection, as far as it can be seen without reading. It costs no system
    /// call unless something happened.
    pub fn is_closed(&self) -> bool {
        self.http2.is_none() && self.io.is_closed()
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        match tokio::time::timeout_at(self.expires, self.io.send(bytes)).await {
            Ok(sent) => sent.map_err(|error| Cause::transport(&error)),
            Err(_) => Err(Cause::Timeout),
        }
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        loop {
            let mut room = ReadBuf::new(self.reader.room());
            match self.io.poll_read(context, &mut room) {
                Poll::Ready(Ok(())) => {
                    let count = room.filled().len();
                    let progress = match count {
                        0 => self.reader.end_of_stream(),
                        _ => self.advance(count)?,
                    };
                    match progress {
                        Progress::Complete => return Poll::Ready(Ok(())),
                        Progress::NeedMore if count == 0 => return Poll::Ready(Err(Cause::Closed)),
                        Progress::NeedMore => {}
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Cause::transport(&error))),
                Poll::Pending => return self.poll_expiry(context),
            }
        }
    }

    /// Reads `count` bytes that are in the reader's room.
    fn advance(&mut self, count: usize) -> Result<Progress, Cause> {
        let Some(http2) = &mut self.http2 else {
            return self.reader.advance(count).map_err(Cause::Malformed);
        };
        // The room keeps the frames until the answer replaces them.
        let frames = self.reader.room()[..count].to_vec();
        let Some(answer) = http2.receive(&frames).map_err(Cause::Malformed)? else {
            return Ok(Progress::NeedMore);
        };
        self.reader.give(&answer).map_err(Cause::Malformed)
    }

    fn poll_expiry(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        while self.timer.as_mut().poll(context).is_ready() {
            if Instant::now() >= self.expires {
                return Poll::Ready(Err(Cause::Timeout));
            }
            let expires = self.expires;
            self.timer.as_mut().reset(expires);
        }
        Poll::Pending
    }
}

pub(super) async fn connect(target: &Target, index: usize) -> io::Result<TcpStream> {
    let mut index = index;
    let mut tries = 1;
    loop {
        let socket = if target.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        let attempt = match target.source(index) {
            Some(source) => socket.bind(SocketAddr::new(source, 0)),
            None => Ok(()),
        };
        let result = match attempt {
            Ok(()) => socket.connect(target.address).await,
            Err(error) => Err(error),
        };
        match result {
            Err(error) if is_out_of_ports(&error) && tries < SOURCES_TRIED_MAX => {
                tries += 1;
                index = Target::next_source(index);
            }
            other => return other,
        }
    }
}

fn is_out_of_ports(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse)
}
