//! `X-Forwarded-For` from a peer that is no trusted proxy. It is ignored: anybody can send it. But a proxy that the
//! operator forgot to list sends it too, so it is counted, and logged once an hour.

use super::log_interval::LogInterval;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Counts such requests.
pub struct UntrustedProxies {
    count: AtomicU64,
    line: LogInterval,
}

impl Default for UntrustedProxies {
    fn default() -> UntrustedProxies {
        UntrustedProxies { count: AtomicU64::new(0), line: LogInterval::hour() }
    }
}

impl UntrustedProxies {
    /// Notes that this peer sent the header.
    pub fn note(&self, peer: IpAddr) {
        self.count.fetch_add(1, Relaxed);
        if let Some(requests) = self.line.due(Instant::now()) {
            tracing::warn!(
                %peer, requests,
                "X-Forwarded-For was ignored: this peer is not a trusted proxy; if it is your proxy, add it to \
                 trusted_proxies"
            );
        }
    }

    /// Requests with the header so far.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }
}
