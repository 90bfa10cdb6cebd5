//! The address of a client: the peer of the connection, or the one that a trusted proxy names in `X-Forwarded-For` or, where
//! that is set, in `Forwarded`.

use super::cidr::Cidr;
use super::forwarded_header;
use http::header::{FORWARDED, ORIGIN};
use http::{HeaderMap, HeaderName};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The header in which proxies name the address of their client.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The one header in which trusted proxies name the address of their client. Another one is ignored, because a proxy passes on what
/// its client has sent in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl AddressHeader {
    /// Its name.
    pub fn name(self) -> HeaderName {
        match self {
            AddressHeader::XForwardedFor => X_FORWARDED_FOR,
            AddressHeader::Forwarded => FORWARDED,
        }
    }

    /// Its name for messages.
    pub fn text(self) -> &'static str {
        match self {
            AddressHeader::XForwardedFor => "X-Forwarded-For",
            AddressHeader::Forwarded => "Forwarded",
        }
    }
}

/// The connection of a request.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The address of the peer.
    pub address: IpAddr,
    /// The time limit for a body.
    pub body_time: Duration,
}

/// Headers that proxies add, beside those that begin with [`FORWARDED_PREFIX`].
const OF_PROXIES: [&str; 11] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-envoy-external-address",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "fly-client-ip",
];
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Whether a proxy has sent this on, which may be for anybody, or the page of another site has. A request without any of it may
/// still come from a proxy.
pub fn is_for_others(headers: &HeaderMap) -> bool {
    let is_cross_site =
        headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site");
    is_cross_site || headers.contains_key(ORIGIN) || is_of_proxy(headers)
}

/// Whether a proxy has sent this on. The page of another site cannot add such a header without asking first.
pub fn is_of_proxy(headers: &HeaderMap) -> bool {
    let of_proxy = |name: &HeaderName| {
        OF_PROXIES.contains(&name.as_str()) || name.as_str().starts_with(FORWARDED_PREFIX)
    };
    headers.keys().any(of_proxy)
}

/// Whether an address is one of a trusted proxy.
pub fn is_trusted(address: IpAddr, trusted: &[Cidr]) -> bool {
    trusted.iter().any(|block| block.contains(address))
}

/// Reads the header from the right, as long as each sender is trusted. It reads bytes: a proxy appends the address to what
/// its client has sent, which may be anything.
pub fn forwarded(headers: &HeaderMap, peer: IpAddr, trusted: &[Cidr], header: AddressHeader) -> IpAddr {
    let address = peer.to_canonical();
    if !is_trusted(address, trusted) {
        return address;
    }
    let values = headers.get_all(header.name()).iter().rev().map(|value| value.as_bytes());
    match header {
        AddressHeader::XForwardedFor => {
            let hops = values.flat_map(|value| value.rsplit(|byte| *byte == b','));
            followed(address, hops.map(|hop| named(hop.trim_ascii())), trusted)
        }
        AddressHeader::Forwarded => followed(address, values.flat_map(forwarded_header::addresses), trusted),
    }
}

/// The first address that is no trusted proxy's, or the last one before a hop without an address.
fn followed(mut address: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>, trusted: &[Cidr]) -> IpAddr {
    for hop in hops {
        if !is_trusted(address, trusted) {
            break;
        }
        match hop {
            Some(next) => address = next.to_canonical(),
            None => break,
        }
    }
    address
}

/// The address of a hop. Some proxies add the port of their client, put brackets around an address of IPv6, or name its zone.
fn named(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?;
    let with_port = |hop: &str| hop.parse::<SocketAddr>().map(|both| both.ip()).ok();
    let in_brackets = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_zone = || hop.split_once('%')?.0.parse::<Ipv6Addr>().map(IpAddr::V6).ok();
    hop.parse().ok().or_else(|| with_port(hop)).or_else(in_brackets).or_else(with_zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn forwarded(headers: &HeaderMap, peer: IpAddr, trusted: &[Cidr]) -> IpAddr {
        super::forwarded(headers, peer, trusted, AddressHeader::XForwardedFor)
    }

    #[test]
    fn forwarded_is_read_only_where_it_is_set_and_then_alone() {
        let mut headers = HeaderMap::new();
        for value in ["for=6.6.6.6, for=203.0.113.7", "for=_hidden, for=\"[2001:db8::1]:8\"", "for=10.0.0.2"]
        {
            headers.append(FORWARDED, value.parse().expect("a value"));
        }
        headers.insert(X_FORWARDED_FOR, "1.2.3.4".parse().expect("a value"));
        let proxy: IpAddr = "10.0.0.1".parse().expect("an address");
        let stranger: IpAddr = "9.9.9.9".parse().expect("an address");
        let read = |peer, trusted: &str, header| {
            let trusted: Vec<Cidr> = trusted.split(' ').map(|one| one.parse().expect("a block")).collect();
            super::forwarded(&headers, peer, &trusted, header).to_string()
        };
        let (old, new) = (AddressHeader::XForwardedFor, AddressHeader::Forwarded);
        assert_eq!(read(proxy, "10.0.0.1", old), "1.2.3.4");
        assert_eq!(read(proxy, "10.0.0.1", new), "10.0.0.2", "the last of several headers");
        assert_eq!(read(proxy, "10.0.0.0/8", new), "2001:db8::1", "the rightmost that is not trusted");
        assert_eq!(
            read(proxy, "10.0.0.0/8 2001:db8::/32", new),
            "2001:db8::1",
            "one that is hidden ends the way"
        );
        assert_eq!(read(stranger, "10.0.0.0/8", new), "9.9.9.9");
        headers.remove(FORWARDED);
        let read = super::forwarded(&headers, proxy, &[Cidr::from(proxy)], new);
        assert_eq!(read, proxy, "X-Forwarded-For is not read instead");
    }

    #[test]
    fn a_port_brackets_and_a_zone_do_not_hide_an_address() {
        let proxy: IpAddr = "127.0.0.1".parse().expect("an address");
        for (said, expected) in [
            ("1.2.3.4:5678", "1.2.3.4"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[::ffff:1.2.3.4]:443", "1.2.3.4"),
            ("fe80::1%eth0", "fe80::1"),
            ("1.2.3.4%eth0", "127.0.0.1"),
            ("1.2.3.4:99999", "127.0.0.1"),
            ("[2001:db8::1", "127.0.0.1"),
            ("unknown", "127.0.0.1"),
            ("", "127.0.0.1"),
        ] {
            let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, said.parse().expect("a value"))]);
            assert_eq!(forwarded(&headers, proxy, &[Cidr::from(proxy)]).to_string(), expected, "{said:?}");
        }
    }

    #[test]
    fn only_trusted_peers_may_say_where_a_request_comes_from() {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", "6.6.6.6, 1.2.3.4".parse().expect("a value"));
        let proxy: IpAddr = "127.0.0.1".parse().expect("an address");
        let stranger: IpAddr = "9.9.9.9".parse().expect("an address");
        let trusted = [Cidr::from(proxy)];
        assert_eq!(forwarded(&headers, proxy, &trusted).to_string(), "1.2.3.4");
        assert_eq!(forwarded(&headers, stranger, &trusted), stranger);
        assert_eq!(forwarded(&headers, proxy, &[]), proxy);
        headers.insert("x-forwarded-for", "rubbish".parse().expect("a value"));
        assert_eq!(forwarded(&headers, proxy, &trusted), proxy);
        headers.insert("x-forwarded-for", "1.2.3.4, 127.9.9.9".parse().expect("a value"));
        assert_eq!(forwarded(&headers, proxy, &Cidr::LOOPBACK).to_string(), "1.2.3.4", "a block of proxies");
    }

    #[test]
    fn bytes_that_a_client_puts_before_its_address_do_not_hide_the_address() {
        let proxy: IpAddr = "127.0.0.1".parse().expect("an address");
        for before in ["\u{eb}, ", "\u{eb},\u{eb} ,\t"] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_bytes(format!("{before}1.2.3.4").as_bytes()).expect("a value");
            headers.insert("x-forwarded-for", value);
            assert_eq!(forwarded(&headers, proxy, &[Cidr::from(proxy)]).to_string(), "1.2.3.4");
        }
    }
}
