//! Resolves a name, judges every address, and connects to one that was judged: the name is not resolved a second time, so it cannot
//! change in between.

use crate::allowed::Allowed;
use crate::judge::not_public;
use crate::names::{Names, TextRecords};
use crate::proxy::Proxy;
use crate::trust::Trust;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time for one address, and how many of one name are tried.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
const ADDRESSES_MAX: usize = 4;
const LOCAL: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// What the owner of the server says about the way out.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Addresses that are not public and may be connected to.
    pub allowed: Vec<Allowed>,
    /// A proxy for all public addresses.
    pub proxy: Option<Proxy>,
    /// DNS servers; none: the operating system resolves names.
    pub dns_servers: Vec<SocketAddr>,
    /// Whose certificates are trusted.
    pub trust: Trust,
}

/// The way out. Clones share it.
#[derive(Clone, Debug)]
pub struct Connector(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    policy: Policy,
    names: Names,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) stream: TcpStream,
    /// Whether the owner listed the address.
    pub(crate) is_listed: bool,
    /// Whether it is 127.0.0.1 or ::1: nothing leaves this machine.
    pub(crate) is_local: bool,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// The name has no address that is known.
    Name(String),
    /// No address may be connected to.
    Forbidden(String),
    /// No address answers.
    Unreachable(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ConnectError::Name(text) | ConnectError::Forbidden(text) | ConnectError::Unreachable(text)) =
            self;
        out.write_str(text)
    }
}

impl Connector {
    /// By this policy.
    pub fn new(policy: Policy) -> Connector {
        let names = Names::new(policy.dns_servers.clone());
        Connector(Arc::new(Parts { policy, names }))
    }

    /// Looks up text records as this connector looks up addresses.
    pub fn text_records(&self) -> TextRecords {
        TextRecords::new(self.0.names.clone())
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.0.policy.trust
    }

    /// Connects to a host. Other ports than `usual` need an exception that names them.
    pub(crate) async fn open(&self, host: &str, port: u16, usual: &[u16]) -> Result<Opened, ConnectError> {
        let addresses = self.0.names.resolve(host).await;
        let addresses =
            addresses.map_err(|why| ConnectError::Name(format!("{host} cannot be resolved: {why}")))?;
        let mut refused = None;
        let mut judged = Vec::new();
        for address in addresses {
            match self.judge(SocketAddr::new(address.to_canonical(), port), usual) {
                Ok(place) => judged.push(place),
                Err(why) => drop(refused.get_or_insert(why)),
            }
        }
        if judged.is_empty() {
            let why = refused.unwrap_or_default();
            return Err(ConnectError::Forbidden(format!("{host} must not be connected to: {why}")));
        }
        let mut failed = String::new();
        for place in judged.iter().take(ADDRESSES_MAX) {
            match self.connect(place).await {
                Ok(stream) => {
                    let is_local = LOCAL.contains(&place.address.ip());
                    return Ok(Opened { stream, is_listed: place.is_listed, is_local });
                }
                Err(why) => failed = why,
            }
        }
        Err(ConnectError::Unreachable(format!("no connection to {host} port {port}: {failed}")))
    }

    /// Whether this place may be connected to. The error says why not, and what would allow it.
    fn judge(&self, place: SocketAddr, usual: &[u16]) -> Result<Judged, String> {
        let allowed = &self.0.policy.allowed;
        if !usual.contains(&place.port()) && !allowed.iter().any(|allowed| allowed.names_port(place)) {
            let usual: Vec<String> = usual.iter().map(u16::to_string).collect();
            return Err(format!(
                "its port is not one of {}; outgoing_allow must list {place}",
                usual.join(", ")
            ));
        }
        let is_listed = allowed.iter().any(|allowed| allowed.covers(place));
        match not_public(place.ip()) {
            Some(what) if !is_listed => Err(format!(
                "{} is not a public address ({what}); outgoing_allow does not list it",
                place.ip()
            )),
            _ => Ok(Judged { address: place, is_listed }),
        }
    }

    /// An exception of the owner is on a network of the owner: the proxy is for the others.
    async fn connect(&self, place: &Judged) -> Result<TcpStream, String> {
        let Some(proxy) = self.0.policy.proxy.as_ref().filter(|_| !place.is_listed) else {
            return tcp(place.address).await;
        };
        let through = async {
            let addresses = self.0.names.resolve(proxy.host()).await?;
            let address: IpAddr = *addresses.first().ok_or("it has no address")?;
            let mut stream = tcp(SocketAddr::new(address, proxy.port())).await?;
            proxy.open(&mut stream, place.address).await?;
            Ok::<TcpStream, String>(stream)
        };
        let stream =
            timeout(CONNECT_TIME_MAX * 2, through).await.unwrap_or_else(|_| Err("it does not answer".into()));
        stream.map_err(|why| format!("the proxy {proxy}: {why}"))
    }
}

/// An address that may be connected to.
struct Judged {
    address: SocketAddr,
    is_listed: bool,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the address was judged, or is the proxy's, which the owner set"
)]
async fn tcp(place: SocketAddr) -> Result<TcpStream, String> {
    match timeout(CONNECT_TIME_MAX, TcpStream::connect(place)).await {
        Ok(Ok(stream)) => {
            // Commands and answers alternate.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", CONNECT_TIME_MAX.as_secs())),
    }
}

#[cfg(test)]
mod tests;
