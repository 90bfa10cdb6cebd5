//! Where a demo listens: on both loopback addresses, because browsers may take either for `localhost`.

use crate::config::LISTEN;
use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Ports that are tried when nobody asked for one.
const TRIES_MAX: u16 = 100;

/// What was asked for.
pub(super) struct Ports {
    first: SocketAddr,
    /// Whether somebody asked for exactly this address.
    exact: bool,
}

impl Ports {
    /// Refuses addresses that others can reach: a demo's passwords are no secret.
    pub(super) fn new(listen: Option<SocketAddr>) -> Result<Ports> {
        let first = listen.unwrap_or(LISTEN);
        if ![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&first.ip()) {
            return Err(Error::usage(format!(
                "a demo is for this machine only, and others may reach {first}; use 127.0.0.1:PORT or [::1]:PORT"
            )));
        }
        Ok(Ports { first, exact: listen.is_some() })
    }

    pub(super) fn candidates(&self) -> Candidates<'_> {
        Candidates { ports: self, tried: 0 }
    }
}

/// Ports in the order in which they are tried.
pub(super) struct Candidates<'a> {
    ports: &'a Ports,
    tried: u16,
}

impl Candidates<'_> {
    /// Both addresses, with a port that was free a moment ago.
    pub(super) fn next_free(&mut self) -> Result<Vec<SocketAddr>> {
        loop {
            let Ports { first, .. } = self.ports;
            let step = if first.port() == 0 { 0 } else { self.tried };
            let address = SocketAddr::new(first.ip(), first.port().saturating_add(step));
            self.tried += 1;
            match both(address) {
                Ok(listen) => return Ok(listen),
                Err(error) if error.kind() == ErrorKind::AddrInUse && self.may_go_on() => {}
                Err(error) => {
                    let advice =
                        if self.ports.exact { "; leave out --listen to get a free port" } else { "" };
                    return Err(Error::failed(format!(
                        "cannot listen on {address} and its twin: {error}{advice}"
                    )));
                }
            }
        }
    }

    /// Whether another port may be tried.
    pub(super) fn may_go_on(&self) -> bool {
        (!self.ports.exact || self.ports.first.port() == 0) && self.tried < TRIES_MAX
    }
}

/// The address and its twin with the same port, if both are free. A machine may have one of them only.
fn both(address: SocketAddr) -> std::io::Result<Vec<SocketAddr>> {
    let held = TcpListener::bind(address)?;
    let address = held.local_addr()?;
    let twin = match address.ip() {
        IpAddr::V4(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let twin = SocketAddr::new(twin, address.port());
    match TcpListener::bind(twin) {
        Ok(_) => Ok(vec![address, twin]),
        // Somebody else would get half of our visitors.
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(error),
        Err(_) => Ok(vec![address]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_not_let_in() {
        for address in ["0.0.0.0:7070", "10.0.0.1:7070", "[::]:7070"] {
            assert!(Ports::new(address.parse().ok()).is_err(), "{address}");
        }
    }

    #[test]
    fn a_taken_port_is_passed_over_unless_it_was_asked_for() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let first = taken.local_addr().expect("its address");
        let free = Ports { first, exact: false }.candidates().next_free().expect("another one");
        assert!(free[0].port() > first.port());
        let error = Ports { first, exact: true }.candidates().next_free().expect_err("taken").to_string();
        assert!(error.contains(&first.to_string()) && error.contains("leave out --listen"), "{error}");
        let any =
            Ports::new("127.0.0.1:0".parse().ok()).expect("fine").candidates().next_free().expect("free");
        assert!(any.iter().all(|address| address.port() == any[0].port() && address.port() != 0));
    }
}
