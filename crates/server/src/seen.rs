//! What is noted of a user at most once in a while, however often it happens: that he was seen, and that a sign-in
//! with a wrong password failed. When it was noted last is kept in memory; nobody waits for the writing, and when the
//! writer is busy, it is left out.

use crate::app::App;
use identity::Time;
use identity::audit;
use identity::ids::UserId;
use identity::users::{self, User};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Beyond this many users the oldest memories go; they are noted once more at worst.
const REMEMBERED: usize = 50_000;

/// When a user was last here.
pub(crate) struct Seen(Seldom);

impl Default for Seen {
    fn default() -> Seen {
        Seen(Seldom::every(Duration::from_secs(300)))
    }
}

impl Seen {
    /// Notes that a user was here.
    pub(crate) fn note(&self, app: &App, user: &UserId, now: Time) {
        if self.0.is_due(user, now) {
            let user = user.clone();
            app.store.write_later("user.seen", move |tx| users::seen(tx, &user, now));
        }
    }
}

/// Wrong passwords, for the audit trail: somebody who tries thousands does not fill it.
pub(crate) struct FailedSignIns(Seldom);

impl Default for FailedSignIns {
    fn default() -> FailedSignIns {
        FailedSignIns(Seldom::every(Duration::from_secs(60)))
    }
}

impl FailedSignIns {
    /// Notes that somebody at `address` gave a wrong password for a user.
    pub(crate) fn note(&self, app: &App, user: &User, address: IpAddr) {
        if self.0.is_due(&user.id, app.now()) {
            let (organization, user, actor) =
                (user.organization.clone(), user.id.clone(), app.unknown(address));
            app.store.write_later("user.sign_in_failed", move |tx| {
                audit::note(tx, &organization, &actor, "user.sign_in_failed", user.as_str(), "")
            });
        }
    }
}

/// Which users something was noted of lately.
struct Seldom {
    at_most_every: Duration,
    noted: Mutex<HashMap<UserId, Time>>,
}

impl Seldom {
    fn every(at_most_every: Duration) -> Seldom {
        Seldom { at_most_every, noted: Mutex::default() }
    }

    /// Whether it is to be noted of a user now. Of two who ask at once, one is told so.
    fn is_due(&self, user: &UserId, now: Time) -> bool {
        let mut noted = self.noted.lock();
        match noted.get_mut(user) {
            Some(last) if now.since(*last) < self.at_most_every => return false,
            Some(last) => *last = now,
            None => {
                if noted.len() >= REMEMBERED {
                    noted.retain(|_, last| now.since(*last) < self.at_most_every / 2);
                    if noted.len() >= REMEMBERED {
                        noted.clear();
                    }
                }
                noted.insert(user.clone(), now);
            }
        }
        true
    }
}
