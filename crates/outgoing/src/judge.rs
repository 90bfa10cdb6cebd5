//! Which addresses are public. All others belong to a network that a stranger must not reach through this server: the machine itself,
//! its neighbours, the metadata service of a cloud.
//!
//! The lists are those of IANA's registries of special-purpose addresses. An address that carries another one is judged by that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of IPv4 that are not public, and what they are.
const BLOCKS_V4: [(Ipv4Addr, u32, &str); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by the customers of a provider"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "this machine"),
    // Azure answers its virtual machines here, with a public address.
    (Ipv4Addr::new(168, 63, 129, 16), 32, "the metadata of a cloud"),
    // With 169.254.169.254, the metadata of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay of 6to4"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "broadcast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// Blocks of IPv6 that are not public, and what they are. [`GLOBAL`] is what may be, so that the rest of it needs no line.
const BLOCKS_V6: [(Ipv6Addr, u32, &str); 10] = [
    (Ipv6Addr::LOCALHOST, 128, "this machine"),
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    // With Teredo, 2001::/32.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved for protocols"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "of 6to4"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "private"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];
/// What is given out to networks at all.
const GLOBAL: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// A translator to IPv4 (RFC 6052): the last 32 bits are an IPv4 address. On a network without IPv4 all such names have one.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// What an address is that is not public; none: it is public.
pub(crate) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(v4) => not_public_v4(v4),
        IpAddr::V6(v6) if is_in_v6(v6, NAT64) => not_public_v4(Ipv4Addr::from_bits(v6.to_bits() as u32)),
        IpAddr::V6(v6) => {
            let known = BLOCKS_V6.iter().find(|(first, bits, _)| is_in_v6(v6, (*first, *bits)));
            match known {
                Some((_, _, what)) => Some(what),
                None if is_in_v6(v6, GLOBAL) => None,
                None => Some("reserved"),
            }
        }
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let is_in = |first: Ipv4Addr, bits: u32| (address.to_bits() ^ first.to_bits()) >> (32 - bits) == 0;
    BLOCKS_V4.iter().find(|(first, bits, _)| is_in(*first, *bits)).map(|(_, _, what)| *what)
}

fn is_in_v6(address: Ipv6Addr, (first, bits): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ first.to_bits()) >> (128 - bits) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses, and what they are; `-` is public.
    const CASES: &str = "
        1.1.1.1                   -
        9.255.255.255             -
        11.0.0.0                  -
        100.63.255.255            -
        100.128.0.0               -
        169.253.255.255           -
        172.15.255.255            -
        172.32.0.0                -
        192.167.255.255           -
        198.20.0.0                -
        223.255.255.255           -
        168.63.129.15             -
        0.0.0.0                   unspecified
        0.1.2.3                   unspecified
        10.0.0.1                  private
        10.255.255.255            private
        100.64.0.1                shared by the customers of a provider
        100.100.100.200           shared by the customers of a provider
        127.0.0.1                 this machine
        127.255.255.254           this machine
        168.63.129.16             the metadata of a cloud
        169.254.169.254           link-local
        172.16.0.1                private
        172.31.255.255            private
        192.0.0.192               reserved for protocols
        192.0.2.7                 for documentation
        192.88.99.1               a relay of 6to4
        192.168.1.1               private
        198.19.255.255            for benchmarks
        198.51.100.1              for documentation
        203.0.113.9               for documentation
        224.0.0.1                 multicast
        239.255.255.255           multicast
        240.0.0.1                 reserved
        255.255.255.255           broadcast
        2606:4700::1111           -
        2a00:1450:4001::1         -
        2001:4860:4860::8888      -
        2003::1                   -
        ::                        unspecified
        ::1                       this machine
        ::127.0.0.1               reserved
        ::ffff:127.0.0.1          this machine
        ::ffff:10.1.2.3           private
        ::ffff:169.254.169.254    link-local
        ::ffff:1.1.1.1            -
        ::ffff:0:127.0.0.1        reserved
        64:ff9b::1.1.1.1          -
        64:ff9b::127.0.0.1        this machine
        64:ff9b::169.254.169.254  link-local
        64:ff9b::10.0.0.1         private
        64:ff9b:1::1.1.1.1        reserved
        100::1                    reserved
        2001::1                   reserved for protocols
        2001:0:7f00:1::           reserved for protocols
        2001:20::1                reserved for protocols
        2001:db8::1               for documentation
        2002:7f00:1::             of 6to4
        2002:101:101::            of 6to4
        3fff::1                   for documentation
        4000::1                   reserved
        5f00::1                   reserved
        fc00::1                   private
        fd00:ec2::254             private
        fe80::1                   link-local
        fec0::1                   private
        ff02::1                   multicast
    ";

    #[test]
    fn only_public_addresses_are_public() {
        for line in CASES.trim().lines() {
            let (address, expected) = line.trim().split_once(' ').expect("a line of two columns");
            let judged = not_public(address.parse().expect("an address"));
            assert_eq!(judged.unwrap_or("-"), expected.trim(), "{address}");
        }
    }
}
