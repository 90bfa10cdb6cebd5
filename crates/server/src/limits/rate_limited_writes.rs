//! Facts that are written at most once in a while, however often they happen: a user was seen, a sign-in failed, a
//! client used PKCE. The time of the last write is kept in memory. No request waits for the write; if the writer refuses
//! it, the next event writes.

use identity::Time;
use identity::audit::{self, Actor};
use identity::clients;
use identity::ids::{ClientId, UserId};
use identity::users::{self, User};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;
use store::Store;

/// Beyond this many users or clients the oldest entries are dropped; at worst they are written once more.
const REMEMBERED: usize = 50_000;

/// When a user was last here.
pub(crate) struct LastSeen(AtMostEvery<UserId>);

impl Default for LastSeen {
    fn default() -> LastSeen {
        LastSeen(AtMostEvery::every(Duration::from_secs(300)))
    }
}

impl LastSeen {
    /// Notes that a user was here.
    pub(crate) fn note(&self, store: &Store, user: &UserId, now: Time) {
        self.0.note(user, now, |_| {
            let user = user.clone();
            store.write_later("user.seen", move |tx| users::set_last_seen(tx, &user, now))
        });
    }
}

/// Sign-ins that failed, for the audit trail: somebody who tries thousands is counted and does not fill it.
pub(crate) struct FailedSignIns(AtMostEvery<UserId>);

impl Default for FailedSignIns {
    fn default() -> FailedSignIns {
        FailedSignIns(AtMostEvery::every(Duration::from_secs(60)))
    }
}

impl FailedSignIns {
    /// Notes that somebody at `address` gave a wrong password for a user, or tried to sign in as one who is suspended.
    pub(crate) fn note(&self, store: &Store, user: &User, actor: Actor) {
        self.0.note(&user.id, actor.now, |unwritten| {
            let details = match unwritten {
                0 => String::new(),
                1 => "once more before".to_owned(),
                times => format!("{times} times more before"),
            };
            let (organization, user) = (user.organization.clone(), user.id.clone());
            store.write_later("user.sign_in_failed", move |tx| {
                audit::note(tx, &organization, &actor, "user.sign_in_failed", user.as_str(), &details)
            })
        });
    }
}

/// When a client last sent a PKCE challenge.
pub(crate) struct PkceUse(AtMostEvery<ClientId>);

impl Default for PkceUse {
    fn default() -> PkceUse {
        PkceUse(AtMostEvery::every(Duration::from_secs(3600)))
    }
}

impl PkceUse {
    /// Notes that a client sent a challenge.
    pub(crate) fn note(&self, store: &Store, client: &ClientId, now: Time) {
        self.0.note(client, now, |_| {
            let client = client.clone();
            store.write_later("client.pkce_used", move |tx| clients::set_pkce_used(tx, &client, now))
        });
    }
}

/// The users or clients of which something was written lately.
struct AtMostEvery<K> {
    at_most_every: Duration,
    noted: Mutex<HashMap<K, Noted>>,
}

struct Noted {
    last: Time,
    /// How often it happened since then.
    unwritten: u32,
}

impl<K: Clone + Eq + Hash> AtMostEvery<K> {
    fn every(at_most_every: Duration) -> AtMostEvery<K> {
        AtMostEvery { at_most_every, noted: Mutex::default() }
    }

    /// Calls `write` if the last write for `key` is long enough ago, with the number of events since then. `write` returns
    /// whether the writer accepted it.
    fn note(&self, key: &K, now: Time, write: impl FnOnce(u32) -> bool) {
        let mut noted = self.noted.lock();
        if let Some(noted) = noted.get_mut(key) {
            if now.since(noted.last) >= self.at_most_every && write(noted.unwritten) {
                *noted = Noted { last: now, unwritten: 0 };
            } else {
                noted.unwritten = noted.unwritten.saturating_add(1);
            }
            return;
        }
        if noted.len() >= REMEMBERED {
            noted.retain(|_, noted| now.since(noted.last) < self.at_most_every / 2);
            if noted.len() >= REMEMBERED {
                noted.clear();
            }
        }
        if write(0) {
            noted.insert(key.clone(), Noted { last: now, unwritten: 0 });
        }
    }
}
