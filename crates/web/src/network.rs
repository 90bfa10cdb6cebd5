//! Which network an address belongs to: the key of rate limits.

use super::cidr::prefix;
use std::net::IpAddr;

/// The address itself, or the /64 of an IPv6 address: a customer has all of it.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(_) => prefix(address, 64).unwrap_or(address),
    }
}

/// The /48 of an IPv6 address, the most that one customer usually has: 65,536 networks.
pub fn site(address: IpAddr) -> Option<IpAddr> {
    prefix(address, 48)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_customer_is_one_network() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        let site = |text: &str| site(text.parse().expect("an address"));
        assert_eq!(site("2001:db8::1"), site("2001:db8:0:ffff::1"));
        assert_ne!(site("2001:db8::1"), site("2001:db8:1::1"));
        assert_eq!(site("203.0.113.9"), None);
    }
}
