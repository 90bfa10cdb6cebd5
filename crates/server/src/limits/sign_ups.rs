//! The accounts that the sign-up form makes for one network: as many in an hour as the setting says, evenly spread, after 64 at
//! once or a tenth of the setting, if that is more. A site has twice as much.
//!
//! Addresses of this machine count like all others, unlike at the share of connections (`web/src/places.rs`). There the
//! address is the one that connects, which behind a proxy is the proxy's, for everybody. Here it is the client's own. A sign-up
//! from this machine is then a person or a script on it, or everybody behind a proxy that was not listed: to count nobody would
//! let such a proxy take the limit away without a word.

use super::fixed_table::{Counter, FixedTable, Key};
use identity::Time;
use identity::secrets::SecretKey;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use web::network::{Counted, Network};

/// Accounts that a network may make at once, if it may make so many in an hour: a class in its first minute.
const AT_ONCE: u32 = 64;
const HOUR_MICROS: i64 = 3_600_000_000;

/// What networks and sites have spent.
#[derive(Debug)]
pub(crate) struct SignUps {
    table: FixedTable<Spent>,
    per_hour: u32,
    refused: AtomicU64,
}

/// What one network or site has spent: each sign-up moves `until` on by the time in which one is earned again.
#[derive(Clone, Copy, Default)]
struct Spent {
    /// In microseconds. When this is over, nothing counts any more.
    until: i64,
}

/// The rule for one network or site.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The time in which one sign-up is earned, in microseconds.
    each: i64,
    at_once: i64,
}

/// A sign-up that may be made. Dropped without [`SignUp::count`] it does not count: no account was made.
#[must_use = "a sign-up that is dropped does not count"]
pub(crate) struct SignUp<'t> {
    table: &'t FixedTable<Spent>,
    spent: Vec<(Key, Rule)>,
}

impl SignUp<'_> {
    /// Counts it.
    pub(crate) fn count(mut self) {
        self.spent.clear();
    }
}

impl Drop for SignUp<'_> {
    fn drop(&mut self) {
        let mut counters = self.table.lock();
        for (key, rule) in &self.spent {
            counters.of(*key).until -= rule.each;
        }
    }
}

impl SignUps {
    /// Counts for a network up to this many an hour.
    pub(crate) fn new(secret: SecretKey, per_hour: u32) -> SignUps {
        let table = FixedTable::new(secret, "sign-ups");
        SignUps { table, per_hour: per_hour.max(1), refused: AtomicU64::new(0) }
    }

    /// Begins a sign-up from an address, or returns the time to wait. One under way counts, so that many at once do not all get
    /// through.
    pub(crate) fn begin(&self, address: IpAddr, now: Time) -> Result<SignUp<'_>, Duration> {
        let now = now.millis() * 1000;
        let rule = |counted: Counted| (self.table.key(&[&counted.to_string()]), self.rule(counted));
        let spent: Vec<(Key, Rule)> = Network::of(address).counted().map(rule).collect();
        let mut counters = self.table.lock();
        for (key, rule) in &spent {
            if let Err(wait) = counters.of(*key).wait(*rule, now) {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(wait);
            }
        }
        for (key, rule) in &spent {
            counters.of(*key).until += rule.each;
        }
        drop(counters);
        Ok(SignUp { table: &self.table, spent })
    }

    /// Sign-ups that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn rule(&self, counted: Counted) -> Rule {
        let share = counted.share() as u32;
        let per_hour = i64::from(self.per_hour.saturating_mul(share));
        let at_once = AT_ONCE.min(self.per_hour).max(self.per_hour / 10);
        Rule { each: HOUR_MICROS / per_hour, at_once: i64::from(at_once * share) }
    }
}

impl Counter for Spent {
    type Worth = i64;

    fn worth(&self) -> i64 {
        self.until
    }
}

impl Spent {
    /// Fails with the time to wait until one more is earned.
    fn wait(&mut self, rule: Rule, now: i64) -> Result<(), Duration> {
        let most = rule.at_once * rule.each;
        // After the clock was set back, nobody waits longer than for one.
        self.until = self.until.clamp(now, now + most);
        match self.until + rule.each - (now + most) {
            over if over > 0 => Err(Duration::from_micros(over as u64)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_millis(1_800_000_000_000);

    fn sign_ups(per_hour: u32) -> SignUps {
        SignUps::new(SecretKey::new(&[1; 32]), per_hour)
    }

    /// Makes an account.
    fn make(table: &SignUps, from: &str, now: Time) -> Result<(), Duration> {
        table.begin(from.parse().expect("an address"), now).map(SignUp::count)
    }

    fn made(table: &SignUps, from: &str, now: Time) -> usize {
        (0..10_000).take_while(|_| make(table, from, now).is_ok()).count()
    }

    #[test]
    fn a_network_makes_64_accounts_at_once_and_200_in_each_hour() {
        let table = sign_ups(200);
        assert_eq!(made(&table, "203.0.113.9", START), 64);
        assert_eq!(make(&table, "203.0.113.9", START), Err(Duration::from_secs(18)), "one in 18 s");
        assert_eq!(table.refused(), 2);
        assert_eq!(made(&table, "203.0.113.10", START), 64, "another network");
        let (mut now, mut in_a_day) = (START, 0);
        while now.since(START) < Duration::from_secs(24 * 3600) {
            match make(&table, "203.0.113.9", now) {
                Ok(()) => in_a_day += 1,
                Err(wait) => now = now + wait,
            }
        }
        assert!((24 * 200 - 1..=24 * 200).contains(&in_a_day), "{in_a_day}");
        let later = now + Duration::from_secs(64 * 18);
        assert_eq!(made(&table, "203.0.113.9", later), 64, "earned again");
    }

    #[test]
    fn the_networks_of_a_site_make_twice_as_many_as_one() {
        let table = sign_ups(200);
        let of_site = || -> usize {
            (0..240).map(|network| made(&table, &format!("2001:db8:0:{network:x}::1"), START)).sum()
        };
        assert_eq!(of_site(), 128);
        assert_eq!(made(&table, "2001:db8:1::1", START), 64, "another site");
        assert_eq!(make(&table, "2001:db8:0:fff::1", START), Err(Duration::from_secs(9)));
    }

    #[test]
    fn the_setting_bounds_what_is_made_at_once() {
        assert_eq!(made(&sign_ups(10), "203.0.113.9", START), 10);
        assert_eq!(made(&sign_ups(640), "203.0.113.9", START), 64);
        assert_eq!(made(&sign_ups(2_000), "203.0.113.9", START), 200);
    }

    #[test]
    fn a_sign_up_counts_while_it_is_under_way_and_not_when_no_account_was_made() {
        let table = sign_ups(200);
        let from = "2001:db8::1".parse().expect("an address");
        let under_way: Vec<SignUp<'_>> = (0..100).map_while(|_| table.begin(from, START).ok()).collect();
        assert_eq!(under_way.len(), 64);
        drop(under_way);
        assert_eq!(made(&table, "2001:db8::1", START), 64);
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let table = sign_ups(200);
        assert_eq!(made(&table, "203.0.113.9", START), 64);
        let before = START - Duration::from_secs(3600);
        assert_eq!(make(&table, "203.0.113.9", before), Err(Duration::from_secs(18)));
        assert!(make(&table, "203.0.113.9", before + Duration::from_secs(18)).is_ok());
    }

    #[test]
    fn the_table_keeps_who_has_spent_most() {
        let table = sign_ups(200);
        assert_eq!(made(&table, "203.0.113.9", START), 64);
        for number in 0..100_000_u32 {
            let _ = make(&table, &std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string(), START);
        }
        assert!(make(&table, "203.0.113.9", START).is_err());
    }
}
