//! Failed sign-ins in the audit trail: the first one of an account at once, then one row a minute with their number and
//! networks. Failures without a row yet are kept in memory, and written when the server stops.

use identity::Time;
use identity::audit::{self, Actor};
use identity::ids::{OrganizationId, UserId};
use identity::secrets::Random;
use identity::users::{self, User};
use identity::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use store::{Store, Tx};
use web::network::{Counted, Network};

/// The most accounts in memory. Beyond it, accounts without an unwritten failure are dropped first, then all.
const ACCOUNTS_MAX: usize = 20_000;
/// The most networks and sites that a row names.
const NETWORKS_MAX: usize = 20;
const AT_MOST_EVERY: Duration = Duration::from_secs(60);
/// The most rows that one command writes at the stop.
const ROWS_AT_ONCE: usize = 50;

#[derive(Default)]
pub(crate) struct FailedSignIns(Mutex<HashMap<UserId, Unwritten>>);

struct Unwritten {
    organization: OrganizationId,
    /// When the last row was written.
    written: Time,
    wrong: u32,
    refused: u32,
    /// A site stands for several networks of it.
    networks: Vec<Counted>,
    has_more_networks: bool,
}

/// An entry of the audit trail.
#[derive(Clone)]
struct Row {
    organization: OrganizationId,
    user: UserId,
    details: String,
    actor: Actor,
}

/// Why a sign-in failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The password was wrong, or the account is suspended.
    Wrong,
    /// Too many wrong passwords before.
    Refused,
}

impl FailedSignIns {
    /// Counts a failed sign-in of a user, and writes a row if the last one is a minute old.
    pub(crate) fn note(&self, store: &Store, user: &User, failure: Failure, address: IpAddr, actor: Actor) {
        let now = actor.now;
        let mut accounts = self.0.lock();
        if !accounts.contains_key(&user.id) && accounts.len() >= ACCOUNTS_MAX {
            accounts.retain(|_, unwritten| !unwritten.is_empty());
            if accounts.len() >= ACCOUNTS_MAX {
                accounts.clear();
            }
        }
        let unwritten = accounts.entry(user.id.clone()).or_insert_with(|| Unwritten {
            organization: user.organization.clone(),
            written: now - AT_MOST_EVERY,
            wrong: 0,
            refused: 0,
            networks: Vec::new(),
            has_more_networks: false,
        });
        unwritten.add(failure, Network::of(address));
        if unwritten.is_due(now) {
            unwritten.write(store, &user.id, actor);
        }
    }

    /// Writes the rows that are due, and drops accounts without a failure since the last row.
    pub(crate) fn write_due(&self, store: &Store, now: Time, random: &dyn Random) {
        let mut accounts = self.0.lock();
        accounts.retain(|user, unwritten| {
            if !unwritten.is_due(now) {
                return true;
            }
            !unwritten.is_empty() && {
                unwritten.write(store, user, Actor::unknown("", now, random));
                true
            }
        });
    }

    /// Writes all rows, also those that are not due, before the server stops.
    pub(crate) async fn write_all(&self, store: &Store, now: Time, random: &dyn Random) -> Result<()> {
        let accounts = std::mem::take(&mut *self.0.lock());
        let rows: Vec<Row> = accounts
            .iter()
            .filter(|(_, unwritten)| !unwritten.is_empty())
            .map(|(user, unwritten)| unwritten.row(user, Actor::unknown("", now, random)))
            .collect();
        for rows in rows.chunks(ROWS_AT_ONCE) {
            let rows = rows.to_vec();
            let write = move |tx: &mut Tx<'_>| rows.iter().try_for_each(|row| row.write(tx));
            store.write("user.sign_ins_failed", write).await?;
        }
        Ok(())
    }
}

impl Row {
    /// A user who was deleted meanwhile gets no row: what named them is erased.
    fn write(&self, tx: &mut Tx<'_>) -> Result<()> {
        match users::get(tx.snapshot(), &self.user) {
            Err(Error::NotFound { .. }) => return Ok(()),
            found => found?,
        };
        let (actor, target) = (self.actor.clone(), self.user.as_str());
        audit::note(tx, &self.organization, &actor, "user.sign_in_failed", target, &self.details)
    }
}

impl Unwritten {
    fn is_due(&self, now: Time) -> bool {
        now < self.written || now.since(self.written) >= AT_MOST_EVERY
    }

    fn is_empty(&self) -> bool {
        self.wrong + self.refused == 0
    }

    fn add(&mut self, failure: Failure, network: Network) {
        match failure {
            Failure::Wrong => self.wrong = self.wrong.saturating_add(1),
            Failure::Refused => self.refused = self.refused.saturating_add(1),
        }
        let is_named = |known: &Counted| network.counted().any(|counted| counted == *known);
        if self.networks.iter().any(is_named) {
            return;
        }
        let of_site = |known: &Counted| network.site().is_some_and(|site| known.is_in(site));
        if let Some(other) = self.networks.iter_mut().find(|known| of_site(known)) {
            *other = network.customer();
        } else if self.networks.len() < NETWORKS_MAX {
            self.networks.push(network.alone());
        } else {
            self.has_more_networks = true;
        }
    }

    /// Queues a row. If the writer has no room for it, the next failure retries.
    fn write(&mut self, store: &Store, user: &UserId, actor: Actor) {
        let now = actor.now;
        let row = self.row(user, actor);
        let queued = store.write_later("user.sign_in_failed", move |tx| row.write(tx));
        if queued {
            (self.written, self.wrong, self.refused) = (now, 0, 0);
            (self.networks, self.has_more_networks) = (Vec::new(), false);
        }
    }

    fn row(&self, user: &UserId, actor: Actor) -> Row {
        Row { organization: self.organization.clone(), user: user.clone(), details: self.details(), actor }
    }

    fn details(&self) -> String {
        let refused = match self.refused {
            0 => String::new(),
            refused => format!(", {refused} refused without a check"),
        };
        let networks: Vec<String> = self.networks.iter().map(Counted::to_string).collect();
        let more = if self.has_more_networks { " and others" } else { "" };
        format!("{} failed{refused}, from {}{more}", self.wrong, networks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_count_and_at_most_twenty_networks() {
        let now = Time::from_millis(1);
        let organization = OrganizationId::new(now, &identity::secrets::testing::Seeded::new(1));
        let mut unwritten = Unwritten {
            organization,
            written: now,
            wrong: 0,
            refused: 0,
            networks: Vec::new(),
            has_more_networks: false,
        };
        let minute = AT_MOST_EVERY;
        assert!(!unwritten.is_due(now) && unwritten.is_due(now + minute));
        assert!(unwritten.is_due(now - minute), "the clock was set back");
        for number in 0..50_u8 {
            unwritten.add(Failure::Wrong, Network::of([10, 0, 0, number % 3].into()));
        }
        assert_eq!(unwritten.details(), "50 failed, from 10.0.0.0, 10.0.0.1, 10.0.0.2");
        for number in 0..50_u8 {
            unwritten.add(Failure::Refused, Network::of([10, 0, 1, number].into()));
        }
        let details = unwritten.details();
        assert!(details.starts_with("50 failed, 50 refused without a check, from 10.0.0.0, "), "{details}");
        assert!(details.ends_with("10.0.1.16 and others"), "{details}");
        assert_eq!(details.matches("10.0.").count(), NETWORKS_MAX);
    }

    #[test]
    fn a_row_names_the_site_of_several_networks() {
        let now = Time::from_millis(1);
        let mut unwritten = Unwritten {
            organization: OrganizationId::new(now, &identity::secrets::testing::Seeded::new(1)),
            written: now,
            wrong: 0,
            refused: 0,
            networks: Vec::new(),
            has_more_networks: false,
        };
        let mut add = |address: &str| {
            unwritten.add(Failure::Wrong, Network::of(address.parse().expect("an address")));
            unwritten.details()
        };
        assert_eq!(add("2001:db8:0:1::1"), "1 failed, from 2001:db8:0:1::/64");
        assert_eq!(add("2001:db8:0:1::2"), "2 failed, from 2001:db8:0:1::/64");
        add("203.0.113.9");
        for number in 0..240 {
            add(&format!("2001:db8:0:{number:x}::1"));
        }
        assert_eq!(add("2001:db8:1:1::1"), "244 failed, from 2001:db8::/48, 203.0.113.9, 2001:db8:1:1::/64");
    }
}
