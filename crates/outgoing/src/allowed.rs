//! Exceptions that the owner of the server lists: addresses that are not public and may be connected to all the same.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use web::Cidr;

/// One exception: a block of addresses, with every port that is usual for what is sent, or one port of one address.
///
/// There are no names: whoever controls a name could let it point elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    block: Cidr,
    port: Option<u16>,
}

impl Allowed {
    /// Whether it is about this place.
    pub(crate) fn covers(&self, place: SocketAddr) -> bool {
        self.block.contains(place.ip()) && self.port.is_none_or(|port| port == place.port())
    }

    /// Whether it names this port of this address, which then needs to be no usual one.
    pub(crate) fn names_port(&self, place: SocketAddr) -> bool {
        self.port.is_some() && self.covers(place)
    }
}

/// A text that is no exception.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidAllowed;

impl FromStr for Allowed {
    type Err = InvalidAllowed;

    fn from_str(text: &str) -> Result<Allowed, InvalidAllowed> {
        if let Ok(place) = text.parse::<SocketAddr>() {
            return match place.port() {
                0 => Err(InvalidAllowed),
                port => Ok(Allowed { block: Cidr::from(place.ip()), port: Some(port) }),
            };
        }
        let block = text.parse().map_err(|_| InvalidAllowed)?;
        Ok(Allowed { block, port: None })
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = self.block.to_string();
        match self.port {
            None => out.write_str(&block),
            Some(port) if block.contains(':') => write!(out, "[{block}]:{port}"),
            Some(port) => write!(out, "{block}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(allowed: &str, place: &str) -> bool {
        allowed.parse::<Allowed>().expect("valid").covers(place.parse().expect("a place"))
    }

    #[test]
    fn an_exception_is_a_block_or_a_port_of_an_address() {
        assert!(covers("10.0.0.0/8", "10.1.2.3:587"));
        assert!(!covers("10.0.0.0/8", "11.0.0.1:587"));
        assert!(covers("127.0.0.1:25", "127.0.0.1:25"));
        assert!(covers("127.0.0.1:25", "[::ffff:127.0.0.1]:25"), "it is the same address");
        assert!(!covers("127.0.0.1:25", "127.0.0.1:5432"), "the database beside the relay stays closed");
        assert!(covers("[::1]:25", "[::1]:25") && !covers("[::1]:25", "127.0.0.1:25"));
        assert!(covers("fd00::/8", "[fd00::25]:465"));
    }

    #[test]
    fn what_is_neither_is_refused_and_the_rest_is_shown_as_written() {
        for wrong in ["", "localhost", "localhost:25", "relay.internal", "10.0.0.7/8", "127.0.0.1:0", "*"] {
            assert_eq!(wrong.parse::<Allowed>(), Err(InvalidAllowed), "{wrong}");
        }
        for text in ["10.0.0.0/8", "10.0.0.7", "127.0.0.1:25", "[::1]:25", "fd00::/8"] {
            assert_eq!(text.parse::<Allowed>().expect("valid").to_string(), text);
        }
    }
}
