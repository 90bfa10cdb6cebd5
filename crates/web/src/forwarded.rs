//! The address of a client: the peer of the connection, or the one that a trusted proxy names in `X-Forwarded-For`.

use super::cidr::Cidr;
use http::header::ORIGIN;
use http::{HeaderMap, HeaderName};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The header in which proxies name the address of their client.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

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

/// Reads `X-Forwarded-For` from the right, as long as each sender is trusted. It reads bytes: a proxy appends the address
/// to what its client has sent, which may be anything.
pub fn forwarded(headers: &HeaderMap, peer: IpAddr, trusted: &[Cidr]) -> IpAddr {
    let mut address = peer.to_canonical();
    if !is_trusted(address, trusted) {
        return address;
    }
    let said = headers.get_all(X_FORWARDED_FOR).iter().rev();
    let hops = said.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    for hop in hops {
        if !is_trusted(address, trusted) {
            break;
        }
        match named(hop.trim_ascii()) {
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
