//! Attempts at user codes: limited per browser session, per address and in all (RFC 8628 section 5.1).

use crate::caller::network;
use identity::Time;
use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
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
    /// Counts an attempt if it is allowed; otherwise how long to wait. Attempts are counted before anybody knows what
    /// they are worth, so that many at once do not all get through.
    pub(crate) fn attempt(&self, session: &str, address: IpAddr, now: Time) -> Result<(), Duration> {
        let mut counts = self.0.lock();
        counts.turn(now);
        let full = counts.sessions.get(session).is_some_and(|count| *count >= PER_SESSION)
            || counts.addresses.get(&network(address)).is_some_and(|count| *count >= PER_ADDRESS)
            || counts.all >= IN_ALL;
        if full {
            return Err(WINDOW.saturating_sub(now.since(counts.since)));
        }
        *counts.sessions.entry(session.to_owned()).or_default() += 1;
        *counts.addresses.entry(network(address)).or_default() += 1;
        counts.all += 1;
        Ok(())
    }

    /// Takes an attempt back: the code was right, or could not be looked up.
    pub(crate) fn forgive(&self, session: &str, address: IpAddr) {
        let mut counts = self.0.lock();
        take_one(&mut counts.sessions, session);
        take_one(&mut counts.addresses, &network(address));
        counts.all = counts.all.saturating_sub(1);
    }
}

fn take_one<K, Q>(counts: &mut HashMap<K, u32>, key: &Q)
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
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
            assert!(throttle.attempt("s", address, now).is_ok());
        }
        assert!(throttle.attempt("s", address, now).is_err());
        assert!(throttle.attempt("t", address, now).is_ok());
        throttle.forgive("s", address);
        assert!(throttle.attempt("s", address, now).is_ok());
        assert!(throttle.attempt("s", address, now).is_err());
        assert!(throttle.attempt("s", address, now + WINDOW).is_ok());
    }
}
