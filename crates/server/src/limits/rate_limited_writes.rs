//! The time at which a user was last seen: written at most once in five minutes, however often they come. The time of the
//! last write is kept in memory. No request waits for the write; if the writer refuses it, the next request tries again.

use identity::Time;
use identity::ids::UserId;
use identity::users;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use store::Store;

/// Beyond this many users the oldest entries go; these users are written once more at worst.
const USERS_MAX: usize = 50_000;
const AT_MOST_EVERY: Duration = Duration::from_secs(300);

/// When each user was last written.
#[derive(Default)]
pub(crate) struct LastSeen(Mutex<HashMap<UserId, Time>>);

impl LastSeen {
    /// Notes that a user was here.
    pub(crate) fn note(&self, store: &Store, user: &UserId, now: Time) {
        let mut written = self.0.lock();
        if written.get(user).is_some_and(|last| now.since(*last) < AT_MOST_EVERY) {
            return;
        }
        if written.len() >= USERS_MAX {
            written.retain(|_, last| now.since(*last) < AT_MOST_EVERY / 2);
            if written.len() >= USERS_MAX {
                written.clear();
            }
        }
        let seen = user.clone();
        if store.write_later("user.seen", move |tx| users::set_last_seen(tx, &seen, now)) {
            written.insert(user.clone(), now);
        }
    }
}
