//! Rate limits on wrong user codes (RFC 8628 section 5.1), by the minute. An attempt is a form with a good CSRF token.
//!
//! A user who is signed in has a budget of their own; a browser in which nobody is has one too. Each network has one for
//! either kind. All browsers without a user share a last one: above it, a code can be entered only after sign-in.

use identity::Time;
use identity::ids::UserId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use web::network::{Counted, Network};

/// Wrong codes in a minute: by one browser or user, by the browsers of one network without a user, by the users of one
/// network. A site has twice as many as a network.
const PER_BROWSER: u32 = 10;
const PER_NETWORK: u32 = 30;
const PER_NETWORK_OF_USERS: u32 = 300;
const WINDOW: Duration = Duration::from_secs(60);
/// The delay while other attempts are being looked up.
const A_MOMENT: Duration = Duration::from_secs(1);

/// The origin of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct Guesser {
    /// The signed-in user, or the browser.
    pub who: Who,
    /// The client's address.
    pub address: IpAddr,
}

/// A user, or a browser in which nobody is signed in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    User(UserId),
    Browser(String),
}

/// Why an attempt is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The budget of the user, the browser or the network is spent. Its field is the time to wait.
    Wait(Duration),
    /// The budget of all browsers without a user is spent. A signed-in user may try.
    SignIn(Duration),
}

pub(crate) struct UserCodeAttempts {
    strangers_max: u32,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    since: Time,
    by_key: HashMap<Key, Attempts>,
    strangers: Attempts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Who(Who),
    Network(Counted),
    NetworkOfUsers(Counted),
}

#[derive(Clone, Copy, Default)]
struct Attempts {
    wrong: u32,
    /// Attempts whose result is not known yet.
    open: u32,
}

impl Guesser {
    fn is_stranger(&self) -> bool {
        matches!(self.who, Who::Browser(_))
    }

    /// The counters of this attempt, with the limit of each in a minute.
    fn budgets(&self) -> Vec<(Key, u32)> {
        let of_network = |counted: Counted| {
            let (key, most) = match self.is_stranger() {
                true => (Key::Network(counted), PER_NETWORK),
                false => (Key::NetworkOfUsers(counted), PER_NETWORK_OF_USERS),
            };
            (key, most * counted.share() as u32)
        };
        let own = (Key::Who(self.who.clone()), PER_BROWSER);
        std::iter::once(own).chain(Network::of(self.address).counted().map(of_network)).collect()
    }
}

/// An attempt that may be made. Dropped without [`Attempt::end`] it does not count: nobody has received the answer.
#[must_use = "an attempt that is dropped counts for nothing"]
#[derive(Debug)]
pub(crate) struct Attempt<'t> {
    table: &'t UserCodeAttempts,
    guesser: Guesser,
    is_wrong: bool,
}

impl Attempt<'_> {
    /// Ends the attempt: the code was wrong, or it was right, or the lookup failed.
    pub(crate) fn end(mut self, is_wrong: bool) {
        self.is_wrong = is_wrong;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut counts = self.table.counts.lock();
        if self.guesser.is_stranger() {
            counts.strangers.end(self.is_wrong);
        }
        for (key, _) in self.guesser.budgets() {
            let attempts = counts.by_key.entry(key.clone()).or_default();
            attempts.end(self.is_wrong);
            if attempts.wrong + attempts.open == 0 {
                counts.by_key.remove(&key);
            }
        }
    }
}

impl std::fmt::Debug for UserCodeAttempts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("UserCodeAttempts(…)")
    }
}

impl UserCodeAttempts {
    /// Counts with this budget for all browsers without a user.
    pub(crate) fn new(strangers_max: u32) -> UserCodeAttempts {
        UserCodeAttempts { strangers_max, counts: Mutex::default() }
    }

    /// Begins an attempt. Attempts under way count as wrong ones, so that many at once do not all get through.
    pub(crate) fn begin(&self, guesser: &Guesser, now: Time) -> Result<Attempt<'_>, Refusal> {
        let mut counts = self.counts.lock();
        counts.turn(now);
        let until_turn = WINDOW.saturating_sub(now.since(counts.since));
        let budgets = guesser.budgets();
        for (key, most) in &budgets {
            let spent = counts.by_key.get(key).copied().unwrap_or_default();
            spent.wait(*most, until_turn).map_err(Refusal::Wait)?;
        }
        if guesser.is_stranger() {
            counts.strangers.wait(self.strangers_max, until_turn).map_err(Refusal::SignIn)?;
            counts.strangers.open += 1;
        }
        for (key, _) in budgets {
            counts.by_key.entry(key).or_default().open += 1;
        }
        Ok(Attempt { table: self, guesser: guesser.clone(), is_wrong: false })
    }
}

impl Attempts {
    /// Fails with the time to wait when `most` are spent.
    fn wait(self, most: u32, until_turn: Duration) -> Result<(), Duration> {
        match self {
            Attempts { wrong, .. } if wrong >= most => Err(until_turn),
            Attempts { wrong, open } if wrong + open >= most => Err(A_MOMENT.min(until_turn)),
            _ => Ok(()),
        }
    }

    fn end(&mut self, wrong: bool) {
        // None is open if a new minute has begun since.
        self.open = self.open.saturating_sub(1);
        self.wrong += u32::from(wrong);
    }
}

impl Counts {
    fn turn(&mut self, now: Time) {
        if now < self.since || now.since(self.since) >= WINDOW {
            *self = Counts { since: now, ..Counts::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::secrets::testing::Seeded;

    fn browser(name: u32) -> Guesser {
        let address = IpAddr::V4((0x0a00_0000 + name / 10).into());
        Guesser { who: Who::Browser(name.to_string()), address }
    }

    fn user(seed: u64, address: IpAddr) -> Guesser {
        Guesser { who: Who::User(UserId::new(Time::from_millis(1), &Seeded::new(seed))), address }
    }

    /// Enters a wrong code.
    fn guess(attempts: &UserCodeAttempts, guesser: &Guesser, now: Time) -> Result<(), Refusal> {
        attempts.begin(guesser, now).map(|attempt| attempt.end(true))
    }

    #[test]
    fn guessing_ends_after_a_few_and_begins_again_a_minute_later() {
        let attempts = UserCodeAttempts::new(1000);
        let now = Time::from_millis(1_000_000);
        let (one, other) = (browser(1), browser(2));
        let mut under_way: Vec<_> = (0..PER_BROWSER).map_while(|_| attempts.begin(&one, now).ok()).collect();
        assert_eq!(under_way.len(), PER_BROWSER as usize);
        assert_eq!(guess(&attempts, &one, now), Err(Refusal::Wait(A_MOMENT)), "as many are under way");
        assert!(attempts.begin(&other, now).is_ok());
        under_way.pop().expect("one").end(false);
        under_way.push(attempts.begin(&one, now).expect("one has ended"));
        for attempt in under_way {
            attempt.end(true);
        }
        assert_eq!(guess(&attempts, &one, now), Err(Refusal::Wait(WINDOW)));
        assert!(attempts.begin(&one, now + WINDOW).is_ok());
    }

    #[test]
    fn an_attempt_whose_request_is_dropped_leaves_nothing_behind() {
        let attempts = UserCodeAttempts::new(PER_BROWSER);
        let now = Time::from_millis(1_000_000);
        let one = browser(1);
        for _ in 0..3 * PER_BROWSER {
            drop(attempts.begin(&one, now).expect("the others are gone"));
        }
        assert!(attempts.counts.lock().by_key.is_empty());
        for _ in 0..PER_BROWSER {
            assert_eq!(guess(&attempts, &one, now), Ok(()));
        }
        assert_eq!(guess(&attempts, &one, now), Err(Refusal::Wait(WINDOW)));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_a_new_minute() {
        let attempts = UserCodeAttempts::new(1000);
        let now = Time::from_millis(10_000_000);
        let (one, before) = (browser(1), now - Duration::from_secs(3600));
        for moment in [now, before] {
            for _ in 0..PER_BROWSER {
                assert_eq!(guess(&attempts, &one, moment), Ok(()));
            }
            assert_eq!(guess(&attempts, &one, moment), Err(Refusal::Wait(WINDOW)));
        }
        assert!(attempts.begin(&one, before + WINDOW).is_ok());
    }

    #[test]
    fn the_budget_of_all_stops_nobody_who_is_signed_in() {
        let attempts = UserCodeAttempts::new(100);
        let now = Time::from_millis(1_000_000);
        for name in 0..100 {
            assert_eq!(guess(&attempts, &browser(name), now), Ok(()));
        }
        assert_eq!(guess(&attempts, &browser(5000), now), Err(Refusal::SignIn(WINDOW)));
        let ada = user(1, browser(0).address);
        for _ in 0..PER_BROWSER {
            assert_eq!(guess(&attempts, &ada, now), Ok(()));
        }
        assert_eq!(guess(&attempts, &ada, now), Err(Refusal::Wait(WINDOW)), "her own budget");
        assert!(attempts.begin(&user(2, ada.address), now).is_ok(), "a colleague has another");
    }

    #[test]
    fn the_networks_of_a_site_have_twice_the_budget_of_one() {
        let attempts = UserCodeAttempts::new(10_000);
        let now = Time::from_millis(1_000_000);
        let stranger = |number: u32| {
            let address = format!("2001:db8:0:{number:x}::1").parse().expect("an address");
            Guesser { who: Who::Browser(number.to_string()), address }
        };
        let tried = (0..200).filter(|number| guess(&attempts, &stranger(*number), now).is_ok()).count();
        assert_eq!(tried, 2 * PER_NETWORK as usize);
        let elsewhere = Guesser { address: "2001:db8:1::1".parse().expect("an address"), ..stranger(0) };
        assert!(attempts.begin(&elsewhere, now).is_ok());
    }

    #[test]
    fn the_users_of_one_network_have_a_budget_too() {
        let attempts = UserCodeAttempts::new(100);
        let now = Time::from_millis(1_000_000);
        let address = browser(0).address;
        for seed in 0..u64::from(PER_NETWORK_OF_USERS) {
            assert_eq!(guess(&attempts, &user(seed, address), now), Ok(()));
        }
        assert_eq!(guess(&attempts, &user(9999, address), now), Err(Refusal::Wait(WINDOW)));
        assert!(attempts.begin(&browser(0), now).is_ok(), "they do not spend that of strangers");
    }
}
