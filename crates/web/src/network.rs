//! Which network an address is from: the key of rate limits, shares and queues. Nothing else derives one from an address
//! (`xtask/src/tidy/networks.rs`).

use super::cidr::prefix;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The network of a client: an IPv4 address, or the /64 of an IPv6 address, which is what one connection to the internet
/// has. An IPv4 address in IPv6 notation is the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(IpAddr);

/// What a limit counts for a network: the network itself, or its site, the /48 around it. A customer of a provider may have
/// the 65,536 networks of a site, so a site has twice the limit of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counted {
    first: IpAddr,
    bits: u8,
}

const SITE_BITS: u8 = 48;

impl Network {
    /// The network of an address.
    pub fn of(address: IpAddr) -> Network {
        match canonical(address) {
            address @ IpAddr::V4(_) => Network(address),
            address @ IpAddr::V6(_) => Network(prefix(address, 64).unwrap_or(address)),
        }
    }

    /// What a limit counts for it: itself, and its site if it is one of IPv6.
    pub fn counted(self) -> impl Iterator<Item = Counted> + Clone {
        std::iter::once(self.alone()).chain(self.site())
    }

    /// The network without its site.
    pub fn alone(self) -> Counted {
        Counted { first: self.0, bits: if self.0.is_ipv4() { 32 } else { 64 } }
    }

    /// Its site, if it is a network of IPv6.
    pub fn site(self) -> Option<Counted> {
        if self.0.is_ipv4() {
            return None;
        }
        Some(Counted { first: prefix(self.0, SITE_BITS)?, bits: SITE_BITS })
    }

    /// The most that one customer may have: the site of IPv6, or the IPv4 address.
    pub fn customer(self) -> Counted {
        self.site().unwrap_or(self.alone())
    }
}

impl Counted {
    /// Whether it is a site.
    pub fn is_site(self) -> bool {
        self.bits == SITE_BITS
    }

    /// Whether it is a network of this site, or the site.
    pub fn is_in(self, site: Counted) -> bool {
        self.bits >= site.bits && prefix(self.first, site.bits) == Some(site.first)
    }

    /// How many times it has the limit of one network.
    pub fn share(self) -> usize {
        if self.is_site() { 2 } else { 1 }
    }
}

/// `203.0.113.9`, `2001:db8:0:1::/64` or `2001:db8::/48`.
impl fmt::Display for Counted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first {
            IpAddr::V4(first) => write!(out, "{first}"),
            IpAddr::V6(first) => write!(out, "{first}/{}", self.bits),
        }
    }
}

/// An IPv4 address that is written as one of IPv6: mapped (RFC 4291), or translated by a gateway in front of a server that has
/// only IPv6 (the well-known prefix of RFC 6052), behind which all of IPv4 would be one network.
fn canonical(address: IpAddr) -> IpAddr {
    const TRANSLATED: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
    match address.to_canonical() {
        IpAddr::V6(v6) if prefix(v6.into(), 96) == Some(TRANSLATED.into()) => {
            let [.., a, b, c, d] = v6.octets();
            [a, b, c, d].into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Network {
        Network::of(text.parse().expect("an address"))
    }

    fn counted(text: &str) -> Vec<(String, usize)> {
        of(text).counted().map(|counted| (counted.to_string(), counted.share())).collect()
    }

    #[test]
    fn a_network_of_ipv6_is_counted_with_its_site() {
        let name = |text: &str, share: usize| (text.to_owned(), share);
        assert_eq!(counted("203.0.113.9"), [name("203.0.113.9", 1)]);
        let both = [name("2001:db8:7:1::/64", 1), name("2001:db8:7::/48", 2)];
        assert_eq!(counted("2001:db8:7:1::1"), both);
        assert_eq!(counted("2001:db8:7:1:ffff:ffff:ffff:ffff"), both);
        assert_eq!(of("2001:db8:7:2::").site(), of("2001:db8:7:1::").site());
        assert_ne!(of("2001:db8:8:1::").site(), of("2001:db8:7:1::").site());
        assert_eq!(of("2001:db8:7:1::").customer().to_string(), "2001:db8:7::/48");
        assert_eq!(of("203.0.113.9").customer(), of("203.0.113.9").alone());
        let site = of("2001:db8:7::").customer();
        assert!(of("2001:db8:7:1::").alone().is_in(site) && site.is_in(site));
        assert!(!of("2001:db8:8:1::").alone().is_in(site) && !of("203.0.113.9").alone().is_in(site));
        // A network whose first address is that of its site is still another thing.
        assert_ne!(Some(of("2001:db8:7::").alone()), of("2001:db8:7::").site());
    }

    #[test]
    fn an_ipv4_address_is_one_network_however_it_is_written() {
        for text in ["::ffff:203.0.113.9", "64:ff9b::203.0.113.9", "64:ff9b::cb00:7109"] {
            assert_eq!(of(text), of("203.0.113.9"), "{text}");
        }
        assert_ne!(of("::203.0.113.9"), of("203.0.113.9"));
        assert_ne!(of("64:ff9b:1::203.0.113.9"), of("203.0.113.9"));
        assert_eq!(of("::1"), of("::2"));
    }
}
