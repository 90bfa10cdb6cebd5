//! Attempts at user codes: limited per browser session, per address and in all (RFC 8628 section 5.1).

use crate::limits::network::network;
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
/// How long to wait for attempts that are being looked up.
const A_MOMENT: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct UserCodeAttempts(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    since: Time,
    sessions: HashMap<String, Attempts>,
    addresses: HashMap<IpAddr, Attempts>,
    all: Attempts,
}

#[derive(Default)]
struct Attempts {
    wrong: u32,
    /// Of which nobody knows yet what they are worth.
    open: u32,
}

impl UserCodeAttempts {
    /// Begins an attempt, which [`UserCodeAttempts::end`] ends, if it is allowed; otherwise how long to wait. Those that are
    /// under way count as wrong ones do, so that many at once do not all get through.
    pub(crate) fn begin(&self, session: &str, address: IpAddr, now: Time) -> Result<(), Duration> {
        let mut counts = self.0.lock();
        counts.turn(now);
        let until_turn = WINDOW.saturating_sub(now.since(counts.since));
        let (by_session, by_address) =
            (counts.sessions.get(session), counts.addresses.get(&network(address)));
        let all = [
            by_session.map(|attempts| (attempts, PER_SESSION)),
            by_address.map(|attempts| (attempts, PER_ADDRESS)),
            Some((&counts.all, IN_ALL)),
        ];
        for (attempts, limit) in all.into_iter().flatten() {
            if attempts.wrong >= limit {
                return Err(until_turn);
            }
            if attempts.wrong + attempts.open >= limit {
                return Err(A_MOMENT.min(until_turn));
            }
        }
        counts.sessions.entry(session.to_owned()).or_default().open += 1;
        counts.addresses.entry(network(address)).or_default().open += 1;
        counts.all.open += 1;
        Ok(())
    }

    /// Ends an attempt: the code was wrong, or it was right or could not be looked up.
    pub(crate) fn end(&self, session: &str, address: IpAddr, wrong: bool) {
        let mut counts = self.0.lock();
        let Counts { sessions, addresses, all, .. } = &mut *counts;
        all.end(wrong);
        sessions.entry(session.to_owned()).or_default().end(wrong);
        addresses.entry(network(address)).or_default().end(wrong);
        sessions.retain(|_, attempts| attempts.wrong + attempts.open > 0);
        addresses.retain(|_, attempts| attempts.wrong + attempts.open > 0);
    }
}

impl Attempts {
    fn end(&mut self, wrong: bool) {
        // None, when the minute has turned since it began.
        self.open = self.open.saturating_sub(1);
        self.wrong += u32::from(wrong);
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
        let throttle = UserCodeAttempts::default();
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        let now = Time::from_millis(1_000_000);
        for _ in 0..PER_SESSION {
            assert!(throttle.begin("s", address, now).is_ok());
        }
        assert_eq!(throttle.begin("s", address, now), Err(A_MOMENT), "as many are under way");
        assert!(throttle.begin("t", address, now).is_ok());
        throttle.end("s", address, false);
        assert!(throttle.begin("s", address, now).is_ok());
        for _ in 0..PER_SESSION {
            throttle.end("s", address, true);
        }
        assert_eq!(throttle.begin("s", address, now), Err(WINDOW));
        assert!(throttle.begin("s", address, now + WINDOW).is_ok());
    }
}
