//! What is noted of a user at most once in a while, however often it happens: that he was seen, and that a sign-in
//! failed. When it was noted last is kept in memory. Nobody waits for the writing; what the writer refuses is noted the
//! next time.

use identity::Time;
use identity::audit::{self, Actor};
use identity::ids::UserId;
use identity::users::{self, User};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use store::Store;

/// Beyond this many users the oldest memories go; they are noted once more at worst.
const REMEMBERED: usize = 50_000;

/// When a user was last here.
pub(crate) struct LastSeen(AtMostEvery);

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
pub(crate) struct FailedSignIns(AtMostEvery);

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

/// Which users something was noted of lately.
struct AtMostEvery {
    at_most_every: Duration,
    noted: Mutex<HashMap<UserId, Noted>>,
}

struct Noted {
    last: Time,
    /// How often it happened since then.
    unwritten: u32,
}

impl AtMostEvery {
    fn every(at_most_every: Duration) -> AtMostEvery {
        AtMostEvery { at_most_every, noted: Mutex::default() }
    }

    /// Calls `write`, with how often it has happened since the last time, when something is to be noted of a user now.
    /// It says whether it was taken.
    fn note(&self, user: &UserId, now: Time, write: impl FnOnce(u32) -> bool) {
        let mut noted = self.noted.lock();
        if let Some(noted) = noted.get_mut(user) {
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
            noted.insert(user.clone(), Noted { last: now, unwritten: 0 });
        }
    }
}
