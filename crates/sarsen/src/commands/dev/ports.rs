//! Where the server of a folder listens: on both loopback addresses, at a port that is chosen once. Others cannot reach it.

use crate::error::{Error, Result};
use crate::server_process::bind_both;
use server::Bound;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// The name of a folder chooses one of these ports. They are below those that the system gives to clients.
const FIRST: u16 = 7100;
const COUNT: u16 = 800;

/// The port of a server.
#[derive(Clone, Copy)]
pub(super) enum Port {
    /// This one, because it was given or is recorded.
    Exactly(u16),
    /// This one or one of the next.
    From(u16),
    /// Any.
    Any,
}

impl Port {
    /// For the first start in a folder: servers of different folders seldom meet.
    pub(super) fn of_folder(folder: &Path) -> Port {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        // FNV-1a: it must give the same number in every version.
        let sum =
            folder.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Port::From(FIRST + (sum % u64::from(COUNT)) as u16)
    }

    /// Takes the port.
    pub(super) fn bind(self) -> Result<Bound> {
        let tries: Vec<u16> = match self {
            Port::Exactly(port) => vec![port],
            Port::From(first) => (0..COUNT).map(|step| FIRST + (first - FIRST + step) % COUNT).collect(),
            // The system may choose one that is taken at the other address.
            Port::Any => vec![0; 20],
        };
        let mut last = None;
        for port in tries {
            match bind_both(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
                Ok(bound) => return Ok(bound),
                Err(error) if error.kind() == ErrorKind::AddrInUse => last = Some((port, error)),
                Err(error) => return Err(Error::failed(format!("cannot listen on port {port}: {error}"))),
            }
        }
        Err(match (self, last) {
            (Port::Exactly(port), _) => Error::failed(format!(
                "port {port} is taken by another program. Stop that one, or give this server another port with --port N; then the \
                 address of the issuer changes"
            )),
            (_, Some((_, error))) => Error::failed(format!("no port is free: {error}")),
            (_, None) => Error::failed("no port is free"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_folder_has_a_port_of_its_own_and_a_taken_one_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let (Port::From(first), Port::From(again)) =
            (Port::of_folder(folder.path()), Port::of_folder(&folder.path().join(".")))
        else {
            panic!("a first port");
        };
        assert!(first == again && (FIRST..FIRST + COUNT).contains(&first), "{first} {again}");

        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("its address").port();
        let error = Port::Exactly(port).bind().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(&format!("port {port} is taken")) && error.contains("--port"), "{error}");
        assert!(Port::Any.bind().is_ok());
    }
}
