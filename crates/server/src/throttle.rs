//! Attempts at user codes: limited per browser session, per address and in all (RFC 8628 section 5.1).

use crate::caller::network;
use identity::Time;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Wrong codes in a minute: by one session, from one address, in all.
const PER_SESSION: u32 = 10;
const PER_ADDRESS: u32 = 30;
const IN_ALL: u32 = 1_000;
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Throttle(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    since: Time,
    sessions: HashMap<String, u32>,
    addresses: HashMap<IpAddr, u32>,
    all: u32,
}

impl Throttle {
    /// Whether another attempt is allowed; otherwise how long to wait.
    pub(crate) fn check(&self, session: &str, address: IpAddr, now: Time) -> Result<(), Duration> {
        let mut counts = self.0.lock();
        counts.turn(now);
        let full = counts.sessions.get(session).is_some_and(|count| *count >= PER_SESSION)
            || counts.addresses.get(&network(address)).is_some_and(|count| *count >= PER_ADDRESS)
            || counts.all >= IN_ALL;
        if full { Err(WINDOW.saturating_sub(now.since(counts.since))) } else { Ok(()) }
    }

    /// Notes a wrong code.
    pub(crate) fn wrong(&self, session: &str, address: IpAddr, now: Time) {
        let mut counts = self.0.lock();
        counts.turn(now);
        *counts.sessions.entry(session.to_owned()).or_default() += 1;
        *counts.addresses.entry(network(address)).or_default() += 1;
        counts.all += 1;
    }
}

impl Counts {
    fn turn(&mut self, now: Time) {
        if now.since(self.since) >= WINDOW {
            *self = Counts { since: now, ..Counts::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_ends_after_a_few_and_begins_again_a_minute_later() {
        let throttle = Throttle::default();
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        let now = Time::from_millis(1_000_000);
        for _ in 0..PER_SESSION {
            assert!(throttle.check("s", address, now).is_ok());
            throttle.wrong("s", address, now);
        }
        assert!(throttle.check("s", address, now).is_err());
        assert!(throttle.check("t", address, now).is_ok());
        assert!(throttle.check("s", address, now + WINDOW).is_ok());
    }
}
