//! Where a demo listens: on both loopback addresses, because a browser may take either for `localhost`.

use crate::config::LISTEN;
use crate::error::{Error, Result};
use crate::server_process::bind_both;
use server::Bound;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ports that are tried when none was given.
const TRIES_MAX: u16 = 100;

/// The address that was given, or the default.
pub(super) struct Ports {
    first: SocketAddr,
    /// The address was given: no other port will do.
    exact: bool,
}

impl Ports {
    /// Refuses addresses that other machines can reach: the passwords of a demo are no secrets.
    pub(super) fn new(listen: Option<SocketAddr>) -> Result<Ports> {
        let first = listen.unwrap_or(LISTEN);
        if ![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&first.ip()) {
            return Err(Error::usage(format!(
                "a demo listens on this machine only, and other machines may reach {first}; use 127.0.0.1:PORT or \
                 [::1]:PORT"
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
    /// Takes both addresses with the next free port.
    pub(super) fn bind_next(&mut self) -> Result<Bound> {
        loop {
            let Ports { first, .. } = self.ports;
            let step = if first.port() == 0 { 0 } else { self.tried };
            let address = SocketAddr::new(first.ip(), first.port().saturating_add(step));
            self.tried += 1;
            match bind_both(address) {
                Ok(bound) => return Ok(bound),
                Err(error) if error.kind() == ErrorKind::AddrInUse && self.may_go_on() => {}
                Err(error) => {
                    let advice = if self.ports.exact { "; without --listen a free port is used" } else { "" };
                    return Err(Error::failed(format!(
                        "cannot listen on port {} of both loopback addresses: {error}{advice}",
                        address.port()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn addresses_that_other_machines_reach_are_refused() {
        for address in ["0.0.0.0:7070", "10.0.0.1:7070", "[::]:7070"] {
            assert!(Ports::new(address.parse().ok()).is_err(), "{address}");
        }
    }

    #[test]
    fn a_taken_port_is_skipped_unless_it_was_given() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let first = taken.local_addr().expect("its address");
        let free = Ports { first, exact: false }.candidates().bind_next().expect("another one");
        assert!(free.addresses()[0].port() > first.port());
        let refused = Ports { first, exact: true }.candidates().bind_next().err();
        let error = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(&first.port().to_string()) && error.contains("without --listen"), "{error}");
        let any =
            Ports::new("127.0.0.1:0".parse().ok()).expect("fine").candidates().bind_next().expect("free");
        let ports: Vec<u16> = any.addresses().iter().map(SocketAddr::port).collect();
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0), "{ports:?}");
    }
}
