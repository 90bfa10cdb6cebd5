//! The target of requests: the address to connect to, and the host name.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use super::wire::Wire;
use crate::error::Error;

/// Connections from one loopback source address before the next one is used. Linux has about 28,000 ephemeral ports a
/// source address; the rest is for connections in TIME_WAIT.
const CONNECTIONS_PER_SOURCE: usize = 10_000;

/// One server: `http://host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Resolved once, before the run.
    pub address: SocketAddr,
    /// The `Host` header.
    pub host: String,
    /// The `Origin` of a browser on its pages.
    pub origin: String,
    /// How it is reached.
    pub wire: Wire,
}

impl Target {
    /// Reads `http://host[:port]` and resolves the host. It prefers IPv4, whose loopback has many source addresses.
    pub fn parse(url: &str) -> Result<Target, Error> {
        let wrong = |why: &str| Error::Usage(format!("{url}: {why}"));
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| wrong("the generator speaks plain http:// only; point it behind the TLS proxy"))?;
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', '?', '#', '@']) {
            return Err(wrong("want http://HOST:PORT without a path"));
        }
        let has_port =
            host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        let with_port = if has_port { host.to_owned() } else { format!("{host}:80") };
        let addresses: Vec<SocketAddr> =
            with_port.to_socket_addrs().map_err(Error::io(format!("cannot resolve {host}")))?.collect();
        let address = addresses
            .iter()
            .find(|address| address.is_ipv4())
            .or(addresses.first())
            .ok_or_else(|| wrong("the name has no address"))?;
        let (address, host, origin) = (*address, host.to_owned(), format!("http://{host}"));
        Ok(Target { address, host, origin, wire: Wire::default() })
    }

    /// The same server with the host of its issuer: for a server that is reached without its TLS proxy.
    #[must_use]
    pub fn under_name(&self, issuer: &str) -> Target {
        let origin = issuer.trim_end_matches('/');
        match origin.split_once("://") {
            Some((_, host)) if !host.is_empty() && !host.contains('/') => {
                Target { host: host.to_owned(), origin: origin.to_owned(), ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// The same server, reached over another wire.
    #[must_use]
    pub fn over(&self, wire: &Wire) -> Target {
        Target { wire: wire.clone(), ..self.clone() }
    }

    /// The source address of connection number `index`: 127.0.0.2, 127.0.0.3, … when the first one has no ports left.
    /// `None`: the operating system chooses.
    pub fn source(&self, index: usize) -> Option<IpAddr> {
        let step = index / CONNECTIONS_PER_SOURCE;
        if step == 0 || !self.address.is_ipv4() || !self.address.ip().is_loopback() {
            return None;
        }
        Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1 + (step % 250) as u8)))
    }

    /// A connection number with the source address after that of `index`.
    pub(crate) fn next_source(index: usize) -> usize {
        index + CONNECTIONS_PER_SOURCE
    }
}
