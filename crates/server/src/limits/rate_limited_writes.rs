//! Rows that are written at most once in a while, however often the event happens: a user was seen, a client used PKCE, an
//! API key was used. The time of the last write is kept in memory. No request waits for the write; if the writer refuses
//! it, the next event writes. However many users there are, the writer gets a bounded number of these writes.

use identity::ids::{ApiKeyId, ClientId, UserId};
use identity::{Time, api_keys, clients, users};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::time::Duration;
use store::Store;

/// If more users, clients or keys than this come within the time of a limit, the others are written the next time. That
/// many take 9 MB, and there are two parts.
const REMEMBERED: usize = 450_000;

/// When a user was last seen.
pub(crate) struct LastSeen(AtMostEvery);

impl Default for LastSeen {
    fn default() -> LastSeen {
        LastSeen(AtMostEvery::every(Duration::from_secs(300)))
    }
}

impl LastSeen {
    /// Records that a user was seen.
    pub(crate) fn note(&self, store: &Store, user: &UserId, now: Time) {
        self.0.note(user, now, || {
            let user = user.clone();
            store.write_later("user.seen", move |tx| users::set_last_seen(tx, &user, now))
        });
    }
}

/// When a client last sent a PKCE challenge.
pub(crate) struct PkceUse(AtMostEvery);

impl Default for PkceUse {
    fn default() -> PkceUse {
        PkceUse(AtMostEvery::every(Duration::from_secs(3600)))
    }
}

impl PkceUse {
    /// Records that a client sent a challenge.
    pub(crate) fn note(&self, store: &Store, client: &ClientId, now: Time) {
        self.0.note(client, now, || {
            let client = client.clone();
            store.write_later("client.pkce_used", move |tx| clients::set_pkce_used(tx, &client, now))
        })
    }
}

/// When an API key was last used.
pub(crate) struct KeyUse(AtMostEvery);

impl Default for KeyUse {
    fn default() -> KeyUse {
        KeyUse(AtMostEvery::every(Duration::from_secs(300)))
    }
}

impl KeyUse {
    /// Records that a key was used.
    pub(crate) fn note(&self, store: &Store, key: &ApiKeyId, now: Time) {
        self.0.note(key, now, || {
            let key = key.clone();
            store.write_later("api_key.used", move |tx| api_keys::set_last_used(tx, &key, now))
        });
    }
}

/// The times of the last writes, by a hash of what was written. Two with one hash are written as one.
struct AtMostEvery {
    at_most_every: Duration,
    hasher: RandomState,
    written: Mutex<Written>,
}

/// Seconds of the last writes, in two parts: nothing has to look through them to forget the oldest.
struct Written {
    recent: HashMap<u64, u32>,
    before: HashMap<u64, u32>,
    /// When the first of `recent` may have been written.
    since: Time,
}

impl AtMostEvery {
    fn every(at_most_every: Duration) -> AtMostEvery {
        let written = Written { recent: HashMap::new(), before: HashMap::new(), since: Time::from_millis(0) };
        AtMostEvery { at_most_every, hasher: RandomState::new(), written: Mutex::new(written) }
    }

    /// Calls `write` if the last write for `key` is long enough ago. `write` returns whether the writer accepted it.
    fn note(&self, key: &impl Hash, now: Time, write: impl FnOnce() -> bool) {
        let key = self.hasher.hash_one(key);
        let seconds = |time: Time| u32::try_from(time.seconds()).unwrap_or(0);
        let mut written = self.written.lock();
        if now < written.since || now.since(written.since) >= self.at_most_every {
            written.before = std::mem::take(&mut written.recent);
            written.since = now;
        }
        let is_recent = |last: &u32| u64::from(seconds(now).abs_diff(*last)) < self.at_most_every.as_secs();
        let last = written.recent.get(&key).or_else(|| written.before.get(&key));
        if last.is_some_and(is_recent) || written.recent.len() >= REMEMBERED {
            return;
        }
        if write() {
            written.recent.insert(key, seconds(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(300);

    /// How many of these users are written.
    fn written(limit: &AtMostEvery, users: std::ops::Range<usize>, second: i64) -> usize {
        let mut count = 0;
        for user in users {
            limit.note(&user, Time::from_millis(second * 1000), || {
                count += 1;
                true
            });
        }
        count
    }

    #[test]
    fn each_user_is_written_once_in_a_while_however_many_there_are() {
        let limit = AtMostEvery::every(EVERY);
        let users = 0..REMEMBERED / 4;
        for (second, expected) in [(1000, users.len()), (1001, 0), (1299, 0), (1300, users.len()), (1301, 0)]
        {
            assert_eq!(written(&limit, users.clone(), second), expected, "after {second} s");
        }
        assert_eq!(written(&limit, users.start..1, 1599), 0);
        assert_eq!(written(&limit, users.start..1, 1600), 1);
    }

    #[test]
    fn more_users_than_are_remembered_do_not_keep_the_writer_busy() {
        let limit = AtMostEvery::every(EVERY);
        let users = 0..REMEMBERED + 1000;
        assert_eq!(written(&limit, users.clone(), 1000), REMEMBERED);
        assert_eq!(written(&limit, users.clone(), 1100), 0);
        assert_eq!(written(&limit, users.clone(), 1300), REMEMBERED);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_the_writes() {
        let limit = AtMostEvery::every(EVERY);
        for (second, expected) in [(10_000, 1), (10_100, 0), (6400, 1), (6500, 0), (6700, 1)] {
            assert_eq!(written(&limit, 0..1, second), expected, "at {second} s");
        }
    }

    #[test]
    fn what_the_writer_refuses_is_tried_again() {
        let limit = AtMostEvery::every(EVERY);
        let now = Time::from_millis(1_000_000);
        limit.note(&1, now, || false);
        assert_eq!(written(&limit, 1..2, 1000), 1);
    }
}
