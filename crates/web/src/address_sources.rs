//! Where the addresses of clients come from, for operators whose proxies do not send them, or are not trusted.
//!
//! - A listed proxy sends the header that is set (`X-Forwarded-For` or `Forwarded`), or it does not: then its clients share
//!   its address.
//! - Another peer sends it: it is ignored, because anybody can, and logged once an hour. It may be a proxy that the
//!   operator forgot to list.
//! - A peer sends none and is not listed. If all such requests come from one private address, that may be a proxy too.

use super::Cidr;
use super::forwarded::{AddressHeader, is_trusted};
use super::log_interval::LogInterval;
use http::HeaderMap;
use metrics::Page;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Counts requests by where their client's address comes from.
pub struct AddressSources {
    /// A listed proxy sent the header.
    named: AtomicU64,
    /// A listed proxy did not send it.
    missing: AtomicU64,
    /// Somebody else did.
    untrusted: AtomicU64,
    line: LogInterval,
    /// The first peer that is no listed proxy and sent no header, its requests, and those of others like it.
    first: OnceLock<IpAddr>,
    of_first: AtomicU64,
    of_others: AtomicU64,
}

impl Default for AddressSources {
    fn default() -> AddressSources {
        AddressSources {
            named: AtomicU64::new(0),
            missing: AtomicU64::new(0),
            untrusted: AtomicU64::new(0),
            line: LogInterval::hour(),
            first: OnceLock::new(),
            of_first: AtomicU64::new(0),
            of_others: AtomicU64::new(0),
        }
    }
}

impl AddressSources {
    /// Counts a request.
    pub fn note(&self, peer: IpAddr, headers: &HeaderMap, trusted: &[Cidr], header: AddressHeader) {
        let peer = peer.to_canonical();
        let count = match (is_trusted(peer, trusted), headers.contains_key(header.name())) {
            (true, true) => &self.named,
            (true, false) => &self.missing,
            (false, true) => &self.untrusted,
            (false, false) if *self.first.get_or_init(|| peer) == peer => &self.of_first,
            (false, false) => &self.of_others,
        };
        count.fetch_add(1, Relaxed);
        if std::ptr::eq(count, &self.untrusted)
            && let Some(requests) = self.line.due(Instant::now())
        {
            tracing::warn!(
                %peer, requests,
                "{} was ignored: this peer is not a trusted proxy; if it is your proxy, add it to trusted_proxies",
                header.text()
            );
        }
    }

    /// Adds them to a page.
    pub fn show(&self, page: &mut Page) {
        page.counter(
            "forwarded_untrusted_total",
            "Requests with X-Forwarded-For (or Forwarded, if set) from a peer that is not in trusted_proxies",
            self.untrusted.load(Relaxed),
        );
        page.counter(
            "forwarded_named_total",
            "Requests of listed proxies with the header of the address, as far as it is used: pages and tokens",
            self.named.load(Relaxed),
        );
        page.counter(
            "forwarded_missing_total",
            "Requests of listed proxies without the header of the address, as far as it is used",
            self.missing.load(Relaxed),
        );
        let only = self.first.get().filter(|peer| is_private(**peer) && self.of_others.load(Relaxed) == 0);
        page.gauges(
            "requests_from_one_private_address",
            "Requests since the start, if all came from one private address that is not in trusted_proxies",
            only.map(|peer| (vec![("address", peer.to_string())], self.of_first.load(Relaxed).into())),
        );
    }
}

/// Whether an address cannot be one of the internet.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Format;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn shown(sources: &AddressSources) -> String {
        let mut page = Page::plain();
        sources.show(&mut page);
        let text = page.text(Format::Prometheus);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        samples.join("\n")
    }

    #[test]
    fn requests_are_counted_by_where_the_address_comes_from() {
        let (none, mut named) = (HeaderMap::new(), HeaderMap::new());
        named.insert("x-forwarded-for", "203.0.113.9".parse().expect("a value"));
        let (sources, trusted) = (AddressSources::default(), Cidr::LOOPBACK);
        for (peer, headers) in
            [("127.0.0.1", &named), ("127.0.0.1", &none), ("::1", &none), ("10.0.0.5", &named)]
        {
            sources.note(ip(peer), headers, &trusted, AddressHeader::XForwardedFor);
        }
        let counted = "forwarded_untrusted_total 1\nforwarded_named_total 1\nforwarded_missing_total 2";
        assert_eq!(shown(&sources), counted);
        for _ in 0..3 {
            sources.note(ip("::ffff:10.0.0.5"), &none, &trusted, AddressHeader::Forwarded);
        }
        let only = "requests_from_one_private_address{address=\"10.0.0.5\"} 3";
        assert_eq!(shown(&sources), format!("{counted}\n{only}"));
        sources.note(ip("203.0.113.9"), &none, &trusted, AddressHeader::Forwarded);
        assert_eq!(shown(&sources), counted, "another one came");
    }

    #[test]
    fn one_public_address_is_no_proxy() {
        let sources = AddressSources::default();
        sources.note(ip("203.0.113.9"), &HeaderMap::new(), &[], AddressHeader::XForwardedFor);
        assert!(!shown(&sources).contains("one_private"));
        for private in ["192.168.1.1", "172.17.0.1", "100.64.3.4", "169.254.1.1", "fd00::1", "fe80::1", "::1"]
        {
            assert!(is_private(ip(private)), "{private}");
        }
        for public in ["100.128.0.1", "172.32.0.1", "8.8.8.8", "2001:db8::1"] {
            assert!(!is_private(ip(public)), "{public}");
        }
    }
}
