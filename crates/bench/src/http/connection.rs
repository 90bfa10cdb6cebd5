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

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::response::{Progress, Response, ResponseReader};
use super::target::Target;
use crate::measure::Cause;

/// Source addresses to try when one has no free port.
const SOURCES_TRIED_MAX: usize = 4;

pub struct Connection {
    stream: TcpStream,
    reader: ResponseReader,
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
        let timer = Box::pin(sleep_until(expires));
        Ok(Connection { stream, reader: ResponseReader::default(), expires, timer })
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
        self.send(request).await?;
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// The last answer; `None` before the first and after an error.
    pub fn response(&self) -> Option<Response<'_>> {
        self.reader.response()
    }

    /// Whether the server has closed this idle connection. It costs no system call unless something happened.
    pub fn is_closed(&self) -> bool {
        let mut byte = [0];
        !matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    async fn send(&mut self, request: &[u8]) -> Result<(), Cause> {
        let mut sent = 0;
        while sent < request.len() {
            match self.stream.try_write(&request[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match tokio::time::timeout_at(self.expires, self.stream.writable()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return Err(Cause::transport(&error)),
                        Err(_) => return Err(Cause::Timeout),
                    }
                }
                Err(error) => return Err(Cause::transport(&error)),
            }
        }
        Ok(())
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        loop {
            let mut room = ReadBuf::new(self.reader.room());
            match Pin::new(&mut self.stream).poll_read(context, &mut room) {
                Poll::Ready(Ok(())) => {
                    let count = room.filled().len();
                    let progress = match count {
                        0 => self.reader.end_of_stream(),
                        _ => self.reader.advance(count).map_err(Cause::Malformed)?,
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
