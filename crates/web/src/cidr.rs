//! Blocks of addresses in CIDR notation, for the operator's list of proxies.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses with the same first bits: `10.0.0.0/8`, or one address such as `10.0.0.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// All loopback addresses.
    pub const LOOPBACK: [Cidr; 2] = [
        Cidr { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), bits: 8 },
        Cidr { address: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 },
    ];

    /// Whether an address is in the block. An IPv4 address in IPv6 notation counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        prefix(address.to_canonical(), self.bits) == Some(self.address)
    }
}

impl From<IpAddr> for Cidr {
    fn from(address: IpAddr) -> Cidr {
        let address = address.to_canonical();
        Cidr { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }
}

/// The address with only its first bits. `None`: it has fewer bits.
pub(super) fn prefix(address: IpAddr, bits: u8) -> Option<IpAddr> {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(v4) => {
            let unused = 32_u32.checked_sub(bits)?;
            let mask = u32::MAX.checked_shl(unused).unwrap_or_default();
            Some(Ipv4Addr::from_bits(v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let unused = 128_u32.checked_sub(bits)?;
            let mask = u128::MAX.checked_shl(unused).unwrap_or_default();
            Some(Ipv6Addr::from_bits(v6.to_bits() & mask).into())
        }
    }
}

/// A text that is not a block of addresses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither an address nor a block such as 10.0.0.0/8 or 2001:db8::/32, whose other bits are zero")]
pub struct InvalidCidr;

/// Reads `10.0.0.0/8`, `2001:db8::/32` or one address. Bits after the prefix must be zero, because `10.0.0.7/8` is
/// usually a typing error.
impl FromStr for Cidr {
    type Err = InvalidCidr;
    fn from_str(text: &str) -> Result<Cidr, InvalidCidr> {
        let Some((address, bits)) = text.split_once('/') else {
            return text.parse::<IpAddr>().map(Cidr::from).map_err(|_| InvalidCidr);
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidCidr)?;
        if !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidCidr);
        }
        let bits: u8 = bits.parse().map_err(|_| InvalidCidr)?;
        // An IPv4 address in IPv6 notation counts as IPv4, and its block too.
        let (address, bits) = match address.to_canonical() {
            IpAddr::V4(v4) if address.is_ipv6() => (v4.into(), bits.checked_sub(96).ok_or(InvalidCidr)?),
            _ => (address, bits),
        };
        match prefix(address, bits) {
            Some(first) if first == address => Ok(Cidr { address, bits }),
            _ => Err(InvalidCidr),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        match self.bits {
            bits if bits == whole => write!(out, "{}", self.address),
            bits => write!(out, "{}/{bits}", self.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_contains_the_addresses_with_its_prefix() {
        for (block, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.7", "10.0.0.7", "10.0.0.8"),
            ("10.0.0.7/32", "::ffff:10.0.0.7", "10.0.0.6"),
            ("::ffff:10.0.0.0/104", "10.255.0.1", "11.0.0.0"),
            ("::ffff:10.0.0.7", "10.0.0.7", "10.0.0.8"),
            ("0.0.0.0/0", "203.0.113.9", "2001:db8::1"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("::1", "::1", "::2"),
        ] {
            let cidr: Cidr = block.parse().expect(block);
            assert!(cidr.contains(inside.parse().expect("an address")), "{block} {inside}");
            assert!(!cidr.contains(outside.parse().expect("an address")), "{block} {outside}");
        }
    }

    #[test]
    fn what_is_no_block_is_refused_and_a_block_is_shown_as_it_was_written() {
        for wrong in [
            "",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.7/8",
            "10.0.0.0/+8",
            "::/129",
            "::ffff:10.0.0.0/64",
            "10.0.0.0:80",
            "localhost",
        ] {
            assert_eq!(wrong.parse::<Cidr>(), Err(InvalidCidr), "{wrong}");
        }
        for block in ["10.0.0.0/8", "10.0.0.7", "2001:db8::/32", "::1"] {
            assert_eq!(block.parse::<Cidr>().expect(block).to_string(), block);
        }
    }
}
