//! Our own accept loop: limits on connections, headers and time, and a graceful end.
//!
//! At the end: stop accepting, answer held polls, finish requests, then close the database, which drains
//! the writer and leaves no log behind.

use crate::app::App;
use crate::router::router;
use crate::web::auth::Peer;
use crate::web::middleware;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// What a connection may do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// How long a client may take for its headers, and be idle between requests.
    pub header_time: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// How long a client may take for a body.
    pub body_time: Duration,
    /// How long requests may take to finish when the server stops.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 50_000,
            header_time: Duration::from_secs(60),
            head_bytes: 32 * 1024,
            body_time: Duration::from_secs(10),
            drain_time: Duration::from_secs(15),
        }
    }
}

/// Connections that the system keeps while we are busy.
const BACKLOG: i32 = 4096;
/// Connections that are accepted before others get a turn. The runtime's own bound of 128 would let the kernel's
/// queue overflow when thousands arrive at a busy server, and who falls out of it tries again after seconds.
const ACCEPTED_A_TURN: u32 = 512;

/// A server that runs.
pub struct Running {
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    ended: JoinHandle<()>,
}

impl Running {
    /// Stops it and waits until everything is finished and the database is closed.
    pub async fn stop(self) {
        // A receiver that has gone means that it has ended already.
        let _ = self.stop.send(true);
        if let Err(error) = self.ended.await {
            tracing::error!(%error, "the server did not end cleanly");
        }
    }
}

/// Addresses that this process has taken. They refuse connections until [`serve_on`] listens there.
pub struct Bound {
    sockets: Vec<Socket>,
    addresses: Vec<SocketAddr>,
}

impl Bound {
    /// Takes all of `addresses`. An address with port 0 gets a free one.
    pub fn new(addresses: &[SocketAddr]) -> std::io::Result<Bound> {
        let mut bound = Bound { sockets: Vec::new(), addresses: Vec::new() };
        for address in addresses {
            let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
            if address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            socket.bind(&(*address).into())?;
            bound.addresses.extend(socket.local_addr()?.as_socket());
            bound.sockets.push(socket);
        }
        Ok(bound)
    }

    /// These addresses and those of `other`.
    #[must_use]
    pub fn and(mut self, other: Bound) -> Bound {
        self.sockets.extend(other.sockets);
        self.addresses.extend(other.addresses);
        self
    }

    /// The addresses with their ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Starts serving on all of `addresses`. An address with port 0 gets a free one.
pub async fn serve(app: App, addresses: &[SocketAddr], limits: Limits) -> std::io::Result<Running> {
    serve_on(app, Bound::new(addresses)?, limits).await
}

/// Starts serving on addresses that were taken before.
pub async fn serve_on(app: App, bound: Bound, limits: Limits) -> std::io::Result<Running> {
    raise_file_limit();
    let listen = |socket: Socket| {
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    let Bound { sockets, addresses } = bound;
    let listeners = sockets.into_iter().map(listen).collect::<std::io::Result<Vec<_>>>()?;
    let (stop, stopped) = watch::channel(false);
    let janitor = app.settings.housekeeping.then(|| tokio::spawn(app.janitor().run(stopped.clone())));
    let ended = tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(limits.connections));
        let (cut, uncut) = watch::channel(false);
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|listener| {
                let (app, limits) = (app.clone(), limits.clone());
                let ends = Ends { stopped: stopped.clone(), cut: uncut.clone() };
                let accepting = accept(listener, app, limits, places.clone(), ends);
                tokio::spawn(tokio::task::unconstrained(accepting))
            })
            .collect();
        for task in accepting {
            if let Err(error) = task.await {
                tracing::error!(%error, "an accept loop ended unexpectedly");
            }
        }
        app.long_polls.close();
        drop(uncut);
        // It is closed when the last connection has let go of it.
        if tokio::time::timeout(limits.drain_time, cut.closed()).await.is_err() {
            tracing::warn!("some connections were still busy and were cut");
            // An error says that no connection is left to be cut.
            let _ = cut.send(true);
            cut.closed().await;
        }
        janitor.inspect(JoinHandle::abort);
        let store = app.store.clone();
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("the database was not closed cleanly");
        }
    });
    Ok(Running { addresses, stop, ended })
}

/// How a connection comes to its end when the server stops.
#[derive(Clone)]
struct Ends {
    /// No more connections, and no more requests: those that are there finish what they are doing …
    stopped: watch::Receiver<bool>,
    /// … or have no more time for it.
    cut: watch::Receiver<bool>,
}

async fn accept(listener: TcpListener, app: App, limits: Limits, places: Arc<Semaphore>, mut ends: Ends) {
    let routes = Arc::new(router());
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.head_bytes.max(8192))
        // Answers are small: one copy is cheaper than a list of buffers. (`pipeline_flush` would do the same,
        // but keeps answers back while the client has sent more than was read: 431 and 413 never arrive.)
        .writev(false);
    let mut accepted_in_turn = 0;
    loop {
        accepted_in_turn += 1;
        if accepted_in_turn == ACCEPTED_A_TURN {
            accepted_in_turn = 0;
            tokio::task::yield_now().await;
        }
        let next = async { (places.clone().acquire_owned().await, listener.accept().await) };
        let (place, accepted) = tokio::select! {
            next = next => next,
            _ = ends.stopped.wait_for(|stopped| *stopped) => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, mostly: give others time to finish.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY");
        }
        let peer = Peer { address: peer.ip(), body_time: limits.body_time };
        let (served, routes) = (app.clone(), routes.clone());
        let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            middleware::serve(&served, &routes, peer, request)
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let Ends { mut stopped, mut cut } = ends.clone();
        app.metrics.connections.fetch_add(1, Ordering::Relaxed);
        let app = app.clone();
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let by_itself = tokio::select! {
                biased;
                ended = connection.as_mut() => Some(ended),
                _ = stopped.wait_for(|stopped| *stopped) => None,
            };
            let ended = match by_itself {
                Some(ended) => ended,
                None => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = connection => ended,
                        _ = cut.wait_for(|cut| *cut) => Ok(()),
                    }
                }
            };
            if let Err(error) = ended {
                // A client that breaks off is its own affair.
                tracing::debug!(%error, "a connection broke");
            }
            app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        });
    }
}

/// A connection is a file descriptor: as many as the system lets us have.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}
