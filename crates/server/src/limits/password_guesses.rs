//! Rate limits on wrong passwords, so that passwords are not guessed (NIST SP 800-63B section 5.2.2).
//!
//! An attempt in an unknown browser spends the budget of the account, which need not exist, and that of the network. After
//! the free ones each wrong password makes the next attempt wait longer. A browser that is known for the account has a
//! budget of its own with that account, so that others cannot lock it out.
//!
//! The next attempt at an account that waits is drawn by lot among the networks that asked for it since the last one, so that
//! asking often wins nothing. For a minute after the delay it belongs to the network that has drawn the lowest number; when that
//! one has not come by then, to whoever comes.

use super::fixed_table::{Counter, FixedTable, Key};
use identity::Time;
use identity::ids::{OrganizationId, UserId};
use identity::secrets::SecretKey;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use web::network::{Counted, Network};

/// The delay while another attempt is under way.
const A_MOMENT: Duration = Duration::from_secs(1);
/// How long an attempt that was drawn is kept for its network.
const KEPT: Duration = Duration::from_secs(60);

/// The size and the recovery of a budget.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// Wrong passwords without a delay.
    free: u32,
    /// One wrong password is forgotten after this long.
    forget: Duration,
    /// The longest delay; the first is a second, and each further one is twice as long.
    delay_max: Duration,
}

/// All unknown browsers together get at most 298 attempts at an account in the first day and 288 in each later one.
const ACCOUNT: Rule =
    Rule { free: 10, forget: Duration::from_secs(300), delay_max: Duration::from_secs(300) };
/// A network may be an office: many users who mistype now and then.
const NETWORK: Rule = Rule { free: 60, forget: Duration::from_secs(10), delay_max: Duration::from_secs(10) };
/// The networks of a site have twice as many.
const SITE: Rule = Rule { free: 120, forget: Duration::from_secs(5), delay_max: Duration::from_secs(5) };

/// The state of one key.
#[derive(Clone, Copy, Default)]
struct Meter {
    wrong: u32,
    /// Attempts whose result is not known yet.
    open: u32,
    /// The time after which the wrong passwords are forgotten.
    since: Time,
    /// When the delay after the last wrong password ends.
    opens: Time,
    /// The number of the next attempt, by which lots are drawn.
    number: u32,
    /// The lowest lot of those that asked for it; 0 if nobody has.
    lot: u64,
}

/// The budgets of accounts, known browsers and networks.
#[derive(Debug)]
pub(crate) struct PasswordGuesses {
    table: FixedTable<Meter>,
    refused: AtomicU64,
}

/// An attempt that may be made. Dropped without [`Attempt::end`] it does not count: the password was not compared, or
/// nobody has received the answer.
#[must_use = "an attempt that is dropped counts for nothing"]
#[derive(Debug)]
pub(crate) struct Attempt<'t> {
    table: &'t FixedTable<Meter>,
    own: Key,
    /// Those of the network, with the rule of each.
    of_network: Vec<(Key, Rule)>,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Right,
    Wrong,
}

impl Attempt<'_> {
    /// Counts the result. A right password clears the account's budget, not that of the network: an attacker may have an
    /// account too.
    pub(crate) fn end(self, outcome: Outcome, now: Time) {
        let mut meters = self.table.lock();
        match outcome {
            Outcome::Right => {
                let meter = meters.of(self.own);
                (meter.wrong, meter.lot) = (0, 0);
            }
            Outcome::Wrong => {
                meters.of(self.own).count(ACCOUNT, now);
                for (key, rule) in &self.of_network {
                    meters.of(*key).count(*rule, now);
                }
            }
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut meters = self.table.lock();
        let meter = meters.of(self.own);
        meter.open = meter.open.saturating_sub(1);
    }
}

impl PasswordGuesses {
    pub(crate) fn new(secret: SecretKey) -> PasswordGuesses {
        PasswordGuesses { table: FixedTable::new(secret, "password guesses"), refused: AtomicU64::new(0) }
    }

    /// Begins an attempt in a browser that is not known for the account; otherwise returns the time to wait. `email` is
    /// normalised: all spellings of an address count together.
    pub(crate) fn begin(
        &self,
        organization: &OrganizationId,
        email: &str,
        address: IpAddr,
        now: Time,
    ) -> Result<Attempt<'_>, Duration> {
        let own = self.table.key(&["account", organization.as_str(), &email.trim().to_lowercase()]);
        let of_network = |counted: Counted| {
            let rule = if counted.is_site() { SITE } else { NETWORK };
            (self.table.key(&["network", &counted.to_string()]), rule)
        };
        let network = Network::of(address);
        // Of all networks of a site there is one lot.
        let customer = network.customer().to_string();
        let lot = |number: u32| {
            let parts = ["lot", &own.to_string(), &number.to_string(), &customer];
            self.table.number(&parts).max(1)
        };
        self.admit(own, network.counted().map(of_network).collect(), Some(&lot), now)
    }

    /// Begins an attempt in a browser that is known for the account.
    pub(crate) fn begin_known(
        &self,
        user: &UserId,
        browser: &str,
        now: Time,
    ) -> Result<Attempt<'_>, Duration> {
        let own = self.table.key(&["known", user.as_str(), browser]);
        self.admit(own, Vec::new(), None, now)
    }

    /// Begins an attempt that counts for `own` and a network. `lot` draws for an attempt at `own`, by its number.
    fn admit(
        &self,
        own: Key,
        of_network: Vec<(Key, Rule)>,
        lot: Option<&dyn Fn(u32) -> u64>,
        now: Time,
    ) -> Result<Attempt<'_>, Duration> {
        let mut meters = self.table.lock();
        let network = of_network.iter().try_for_each(|(key, rule)| meters.of(*key).wait(*rule, now));
        let meter = meters.of(own);
        let begun = network.and_then(|()| {
            let is_drawn = lot.is_none_or(|lot| meter.draws(ACCOUNT, lot, now));
            meter.wait(ACCOUNT, now)?;
            if is_drawn { Ok(()) } else { Err(meter.kept_for_another(now)) }
        });
        if let Err(wait) = begun {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(wait);
        }
        meter.open += 1;
        Ok(Attempt { table: &self.table, own, of_network })
    }

    /// Attempts that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Counter for Meter {
    /// Attempts under way, wrong passwords, and the end of the delay.
    type Worth = (u32, u32, Time);

    fn worth(&self) -> (u32, u32, Time) {
        (self.open, self.wrong, self.opens)
    }
}

impl Meter {
    /// Fails with the time to wait until the next attempt.
    fn wait(&mut self, rule: Rule, now: Time) -> Result<(), Duration> {
        self.forget(rule, now);
        if self.wrong >= rule.free && self.opens > now {
            return Err(self.opens.since(now));
        }
        // At the limit, one attempt at a time.
        if self.open > 0 && self.wrong + self.open >= rule.free {
            return Err(A_MOMENT);
        }
        Ok(())
    }

    /// Draws a lot for the next attempt, if there is a delay before it. Whether that attempt may be this one.
    fn draws(&mut self, rule: Rule, lot: &dyn Fn(u32) -> u64, now: Time) -> bool {
        self.forget(rule, now);
        if self.wrong < rule.free {
            return true;
        }
        let lot = lot(self.number);
        if self.lot == 0 || lot < self.lot {
            self.lot = lot;
        }
        lot == self.lot || now >= self.opens + KEPT
    }

    /// The time until the attempt is free for all.
    fn kept_for_another(&self, now: Time) -> Duration {
        (self.opens + KEPT).since(now).max(A_MOMENT)
    }

    fn count(&mut self, rule: Rule, now: Time) {
        self.forget(rule, now);
        (self.number, self.lot) = (self.number.wrapping_add(1), 0);
        if self.wrong == 0 {
            self.since = now;
        }
        // At most the number with the longest delay, so that the free attempts come back within an hour.
        let most = rule.free + 1 + rule.delay_max.as_secs().ilog2();
        self.wrong = (self.wrong + 1).min(most);
        self.opens = if self.wrong >= rule.free { now + delay(rule, self.wrong) } else { now };
    }

    fn forget(&mut self, rule: Rule, now: Time) {
        // The clock was set back: what was wrong counts from now on.
        self.since = self.since.min(now);
        self.opens = self.opens.min(now + rule.delay_max);
        let forgotten = now.since(self.since).as_secs() / rule.forget.as_secs();
        if forgotten > 0 {
            self.wrong = self.wrong.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
            self.since = self.since + Duration::from_secs(forgotten * rule.forget.as_secs());
        }
    }
}

fn delay(rule: Rule, wrong: u32) -> Duration {
    let doubled = 1_u64.checked_shl(wrong.saturating_sub(rule.free)).unwrap_or(u64::MAX);
    Duration::from_secs(doubled).min(rule.delay_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::secrets::testing::Seeded;

    const START: Time = Time::from_millis(1_800_000_000_000);

    fn guesses() -> PasswordGuesses {
        PasswordGuesses::new(SecretKey::new(&[1; 32]))
    }

    fn acme() -> OrganizationId {
        OrganizationId::new(START, &Seeded::new(1))
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    fn guess(table: &PasswordGuesses, email: &str, from: u32, now: Time) -> Result<(), Duration> {
        let attempt = table.begin(&acme(), email, address(from), now)?;
        attempt.end(Outcome::Wrong, now);
        Ok(())
    }

    #[test]
    fn an_account_is_guessed_a_few_hundred_times_a_day_from_any_number_of_networks() {
        let (table, mut now, mut tried) = (guesses(), START, 0);
        let mut longest = Duration::ZERO;
        while now.since(START) < Duration::from_secs(24 * 3600) {
            match guess(&table, "ada@acme.test", tried, now) {
                Ok(()) => tried += 1,
                Err(wait) => {
                    longest = longest.max(wait);
                    now = now + wait;
                }
            }
        }
        assert!((200..=320).contains(&tried), "{tried}");
        assert_eq!(longest, ACCOUNT.delay_max);
        assert!(guess(&table, "grace@acme.test", tried, now).is_ok(), "another account");
        let later = now + Duration::from_secs(20 * 300);
        assert!((0..10).all(|from| guess(&table, "ada@acme.test", from, later).is_ok()), "it recovers");
    }

    /// An account that waits, and the time.
    fn locked() -> (PasswordGuesses, Time) {
        let (table, mut now) = (guesses(), START);
        for _ in 0..40 {
            while let Err(wait) = guess(&table, "ada@acme.test", 1, now) {
                now = now + wait;
            }
        }
        (table, now)
    }

    /// An attempt at the account from an address.
    fn begin<'t>(table: &'t PasswordGuesses, from: &str, now: Time) -> Result<Attempt<'t>, Duration> {
        table.begin(&acme(), "ada@acme.test", from.parse().expect("an address"), now)
    }

    #[test]
    fn the_next_attempt_at_an_account_is_drawn_among_the_networks_that_asked() {
        let (table, mut now) = locked();
        let mut won = std::collections::BTreeMap::<Counted, u32>::new();
        // Two customers ask again and again, one of them from 50 networks of a site; three users ask once.
        let site = (0..50).map(|number| format!("2001:db8:0:{number:x}::1"));
        let attackers: Vec<String> = site.chain(["203.0.113.1".to_owned()]).collect();
        let users: Vec<String> = (2..5).map(|number| format!("203.0.113.{number}")).collect();
        let all = || attackers.iter().chain(&users);
        for round in 0..200 {
            let mut wait = Duration::ZERO;
            for from in all().chain(&attackers) {
                wait = begin(&table, from, now).expect_err("the account waits");
            }
            let mut comes = |from: &String, now: Time| {
                let attempt = begin(&table, from, now).ok()?;
                attempt.end(Outcome::Wrong, now);
                *won.entry(Network::of(from.parse().expect("an address")).customer()).or_default() += 1;
                Some(now)
            };
            // The users come back later than the attackers.
            let (first, later) = (now + wait, now + wait + Duration::from_secs(50));
            let at_once = attackers.iter().find_map(|from| comes(from, first));
            let at = at_once.or_else(|| users.iter().find_map(|from| comes(from, later)));
            now = at.unwrap_or_else(|| panic!("somebody in round {round}"));
        }
        assert_eq!(won.len(), 5, "{won:?}");
        assert!(won.values().all(|count| (25..=55).contains(count)), "a fifth of 200 each: {won:?}");
    }

    #[test]
    fn an_attempt_that_nobody_comes_for_is_free_after_a_minute() {
        let (table, now) = locked();
        let asked: Vec<String> = (1..20).map(|number| format!("203.0.113.{number}")).collect();
        let waits: Vec<Duration> =
            asked.iter().map(|from| begin(&table, from, now).expect_err("a delay")).collect();
        assert!(waits.iter().all(|wait| *wait == waits[0]));
        let first = now + waits[0];
        let is_drawn = |from: &&String| begin(&table, from, first).is_ok();
        let drawn: Vec<&String> = asked.iter().filter(is_drawn).collect();
        assert_eq!(drawn.len(), 1, "and dropping it spends nothing: {drawn:?}");
        let others = || asked.iter().filter(|from| *from != drawn[0]);
        let half = Duration::from_secs(30);
        for other in others() {
            assert_eq!(begin(&table, other, first + half).expect_err("it is kept"), half);
        }
        for other in others() {
            assert!(begin(&table, other, first + KEPT).is_ok(), "{other}");
        }
        assert!(begin(&table, drawn[0], first + KEPT).is_ok());
    }

    #[test]
    fn the_delay_grows_and_a_right_password_ends_it() {
        let table = guesses();
        for from in 0..10 {
            assert!(guess(&table, "ada@acme.test", from, START).is_ok());
        }
        let mut now = START;
        for seconds in [1, 2, 4, 8] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(guess(&table, " Ada@Acme.test", 77, now), Err(wait), "however it is written");
            now = now + wait;
            assert!(guess(&table, "ada@acme.test", 77, now).is_ok());
        }
        now = now + Duration::from_secs(16);
        let attempt = table.begin(&acme(), "ada@acme.test", address(79), now).expect("it has waited");
        let second = table.begin(&acme(), "ada@acme.test", address(80), now);
        assert!(second.is_err_and(|wait| wait == A_MOMENT), "one at a time");
        attempt.end(Outcome::Right, now);
        assert!(guess(&table, "ada@acme.test", 81, now).is_ok());
        assert_eq!(table.refused(), 5);
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let (table, mut now) = (guesses(), START);
        for from in 0..100 {
            let _ = guess(&table, "ada@acme.test", from, now);
        }
        now = now - Duration::from_secs(3600);
        let Err(wait) = guess(&table, "ada@acme.test", 200, now) else {
            panic!("the wrong ones still count")
        };
        assert!(wait <= ACCOUNT.delay_max, "{wait:?}");
        assert!(guess(&table, "ada@acme.test", 200, now + wait + KEPT).is_ok());
        let later = now + Duration::from_secs(3600);
        for from in 300..300 + ACCOUNT.free {
            assert!(guess(&table, "ada@acme.test", from, later).is_ok(), "forgotten within an hour");
        }
    }

    #[test]
    fn a_known_browser_is_locked_out_by_nobody_else() {
        let table = guesses();
        let ada = UserId::new(START, &Seeded::new(2));
        for from in 0..40 {
            let _ = guess(&table, "ada@acme.test", from, START);
        }
        for _ in 0..10 {
            let attempt = table.begin_known(&ada, "browser", START).expect("her own budget");
            attempt.end(Outcome::Wrong, START);
        }
        assert!(table.begin_known(&ada, "browser", START).is_err(), "which has an end");
        assert!(table.begin_known(&ada, "another browser", START).is_ok());
    }

    #[test]
    fn a_network_that_tries_many_accounts_waits() {
        let table = guesses();
        let tried =
            (0..200).filter(|account| guess(&table, &format!("{account}@acme.test"), 1, START).is_ok());
        assert_eq!(tried.count(), 60);
        assert!(guess(&table, "new@acme.test", 2, START).is_ok(), "another network");
        let mut now = START;
        let mut tried = 0;
        while now.since(START) < Duration::from_secs(3600) {
            match guess(&table, &format!("{tried}@other.test"), 1, now) {
                Ok(()) => tried += 1,
                Err(wait) => now = now + wait,
            }
        }
        assert!((300..=400).contains(&tried), "{tried}");
    }

    #[test]
    fn the_networks_of_a_site_have_twice_the_budget_of_one() {
        let table = guesses();
        let tried = (0..400).filter(|number| {
            let address = format!("2001:db8:0:{number:x}::1").parse().expect("an address");
            let attempt = table.begin(&acme(), &format!("{number}@acme.test"), address, START);
            attempt.map(|attempt| attempt.end(Outcome::Wrong, START)).is_ok()
        });
        assert_eq!(tried.count(), 120);
        let elsewhere = "2001:db8:1::1".parse().expect("an address");
        assert!(table.begin(&acme(), "new@acme.test", elsewhere, START).is_ok());
    }

    #[test]
    fn attempts_under_way_count_and_those_that_were_not_tried_do_not() {
        let table = guesses();
        let begin = || table.begin(&acme(), "ada@acme.test", address(1), START);
        let attempts: Vec<_> = (0..10).map_while(|_| begin().ok()).collect();
        assert_eq!(attempts.len(), 10);
        assert!(begin().is_err());
        drop(attempts);
        assert!(begin().is_ok());
    }

    #[test]
    fn the_table_keeps_what_is_attacked_most() {
        let table = guesses();
        for from in 0..10 {
            assert!(guess(&table, "ada@acme.test", from, START).is_ok());
        }
        for account in 0..100_000 {
            let _ = guess(&table, &format!("{account}@acme.test"), account, START);
        }
        assert!(guess(&table, "ada@acme.test", 1, START).is_err());
    }
}
