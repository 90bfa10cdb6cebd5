//! Our own accept loop: limits on connections, headers and time, and a graceful stop.
//!
//! `places.rs` decides which connections there is room for, `watched_stream.rs` closes those whose client does not read.
//! A stop has these steps: stop accepting, release held requests, finish open ones, then let the service finish.

use super::cidr::Cidr;
use super::connection::{Ends, Server};
use super::descriptors;
use super::log_interval::LogInterval;
use super::places::{Places, Rules};
use super::service::Service;
use super::tls::Tls;
use super::watched_stream::{Pace, reset_when_dropped};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The limits of a connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once, by their weight: one of HTTP/2 counts as two, and each of its requests as one more until the
    /// client has taken the response. Fewer when the process may not open as many files.
    pub connections: usize,
    /// The same for one network; a /48 of IPv6 has twice as many.
    pub connections_per_network: usize,
    /// Addresses to which the share of one network does not apply: this machine, and proxies.
    pub unshared: Vec<Cidr>,
    /// How fast a client must read.
    pub pace: Pace,
    /// A connection with more recent progress than this is never closed for another one.
    pub stale_after: Duration,
    /// The time limit for the headers, and for an idle connection between requests.
    pub header_time: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// The time limit for a body.
    pub body_time: Duration,
    /// The time limit for open requests when the server stops.
    pub drain_time: Duration,
    /// How long idle connections of HTTP/1.1 may still send a request when the server stops: a proxy may have taken one for
    /// a request at that moment, and cannot know whether a request that it loses was carried out.
    pub last_request_time: Duration,
    /// Every connection is one of TLS, with this certificate.
    pub tls: Option<Tls>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 50_000,
            connections_per_network: 2_000,
            unshared: Cidr::LOOPBACK.to_vec(),
            pace: Pace::default(),
            stale_after: Duration::from_secs(1),
            header_time: Duration::from_secs(60),
            head_bytes: 16 * 1024,
            body_time: Duration::from_secs(10),
            drain_time: Duration::from_secs(15),
            last_request_time: Duration::from_millis(500),
            tls: None,
        }
    }
}

/// Connections that the kernel queues while the server is busy.
const BACKLOG: i32 = 4096;
/// Bytes that the kernel buffers for a client that has not read them; Linux adds its own overhead and doubles this.
/// A third of that must be free before it accepts more: a client that reads 1 KiB/s makes progress every 20 s.
const SEND_BUFFER: usize = 32 * 1024;
/// The longest segment. On the loopback interface it would be 64 KiB, of which the buffer holds one: the next would wait for its
/// acknowledgement, which a proxy on this machine delays by 40 ms. On a network segments are shorter than this anyway.
const SEGMENT_MAX: u32 = 8 * 1024;
/// Connections that are accepted before other tasks run. With the runtime's own limit of 128 the kernel's queue
/// overflows when thousands connect to a busy server, and a client that it drops retries after seconds.
const ACCEPTED_A_TURN: u32 = 512;

/// A running server.
pub struct Running {
    /// Its addresses.
    pub addresses: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    ended: JoinHandle<()>,
}

impl Running {
    /// Stops the server, and waits until all requests and the service are finished.
    pub async fn stop(self) {
        // If the receiver is gone, the server has ended already.
        let _ = self.stop.send(true);
        if let Err(error) = self.ended.await {
            tracing::error!(%error, "the server did not end cleanly");
        }
    }
}

/// Addresses that this process has bound. They refuse connections until [`serve_on`] listens there.
pub struct Bound {
    sockets: Vec<Socket>,
    addresses: Vec<SocketAddr>,
}

impl Bound {
    /// Binds all of `addresses`. An address with port 0 gets a free one.
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

/// Serves on all of `addresses`. An address with port 0 gets a free one.
pub async fn serve<S: Service>(
    service: S,
    addresses: &[SocketAddr],
    limits: Limits,
) -> std::io::Result<Running> {
    serve_on(service, Bound::new(addresses)?, limits).await
}

/// Serves on addresses that were bound before.
pub async fn serve_on<S: Service>(service: S, bound: Bound, limits: Limits) -> std::io::Result<Running> {
    let places = limits.connections.min(descriptors::room());
    if places < limits.connections {
        // `doctor` warns about this. A demo does not need to.
        tracing::info!(
            places,
            wanted = limits.connections,
            "the limit of open files bounds connections; raise it"
        );
    }
    let rules = Rules {
        places,
        per_network: limits.connections_per_network,
        exempt: limits.unshared.clone(),
        stale_after: limits.stale_after,
    };
    let places = Arc::new(Places::new(rules, Instant::now()));
    let listen = |socket: Socket| {
        // Connections inherit all of it.
        socket.set_send_buffer_size(SEND_BUFFER)?;
        // Other systems than Linux may refuse it, and have other buffers.
        let _ = socket.set_tcp_mss(SEGMENT_MAX);
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(limits.pace.stall_max))?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    let Bound { sockets, addresses } = bound;
    let listeners = sockets.into_iter().map(listen).collect::<std::io::Result<Vec<_>>>()?;
    let (stop, stopped) = watch::channel(false);
    let service = Arc::new(service);
    let ended = tokio::spawn(async move {
        let (cut, uncut) = watch::channel(false);
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|listener| {
                let ends = Ends { stopped: stopped.clone(), cut: uncut.clone() };
                let accepting = accept(listener, service.clone(), limits.clone(), places.clone(), ends);
                tokio::spawn(tokio::task::unconstrained(accepting))
            })
            .collect();
        for task in accepting {
            if let Err(error) = task.await {
                tracing::error!(%error, "an accept loop ended unexpectedly");
            }
        }
        service.release();
        drop(uncut);
        // It is closed when the last connection has dropped its receiver.
        if tokio::time::timeout(limits.drain_time, cut.closed()).await.is_err() {
            tracing::warn!("some connections were still busy and were cut");
            // An error means that no connection is left to close.
            let _ = cut.send(true);
            cut.closed().await;
        }
        service.finish().await;
    });
    Ok(Running { addresses, stop, ended })
}

async fn accept<S: Service>(
    listener: TcpListener,
    service: Arc<S>,
    limits: Limits,
    places: Arc<Places>,
    mut ends: Ends,
) {
    let server = Arc::new(Server::new(service, limits));
    let failures = LogInterval::minute();
    let mut accepted_in_turn = 0;
    loop {
        accepted_in_turn += 1;
        if accepted_in_turn == ACCEPTED_A_TURN {
            accepted_in_turn = 0;
            tokio::task::yield_now().await;
        }
        let next = async {
            let (stream, peer) = listener.accept().await?;
            let place = places.admit(peer.ip()).await;
            Ok::<_, std::io::Error>((stream, peer, place))
        };
        let accepted = tokio::select! {
            accepted = next => Some(accepted),
            _ = ends.stopped.wait_for(|stopped| *stopped) => None,
        };
        let Some(accepted) = accepted else { return accept_queued(listener, &server, &places, &ends) };
        match accepted {
            Ok((stream, peer, Some(place))) => {
                let id = place.id();
                let task = tokio::spawn(server.clone().connection(stream, peer, place, ends.clone()));
                places.set_task(id, task.abort_handle());
            }
            Ok((stream, peer, None)) => {
                reset_when_dropped(&stream);
                server.counts().refuse();
                places.log_refusal(peer.ip(), Instant::now());
            }
            Err(error) => {
                // Usually the process has no file descriptor left.
                if let Some(failed) = failures.due(Instant::now()) {
                    tracing::warn!(%error, failed, "connections could not be accepted");
                }
                places.close_stalest(Instant::now());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Accepts what the kernel has accepted when the server stops: closing the listener would reset these connections, and their
/// clients may have sent a request.
fn accept_queued<S: Service>(
    listener: TcpListener,
    server: &Arc<Server<S>>,
    places: &Arc<Places>,
    ends: &Ends,
) {
    let Ok(listener) = listener.into_std() else { return };
    for _ in 0..BACKLOG {
        let Ok((stream, peer)) = listener.accept() else { return };
        let Some(place) = places.admit_now(peer.ip()) else { continue };
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        if let Ok(stream) = stream {
            tokio::spawn(server.clone().connection(stream, peer, place, ends.clone()));
        }
    }
}
