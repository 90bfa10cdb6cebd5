//! Rows that are written at most once in a while, however often the event happens: a user was seen, a client used PKCE, an
//! API key was used. The time of the last write is kept in memory. No request waits for the write; if the writer refuses
//! it, the next event writes.

use identity::ids::{ApiKeyId, ClientId, UserId};
use identity::{Time, api_keys, clients, users};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;
use store::Store;

/// Beyond this many users, clients or keys the oldest entries are dropped; then a row may be written once more.
const REMEMBERED: usize = 50_000;

/// When a user was last seen.
pub(crate) struct LastSeen(AtMostEvery<UserId>);

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
pub(crate) struct PkceUse(AtMostEvery<ClientId>);

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
pub(crate) struct KeyUse(AtMostEvery<ApiKeyId>);

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

/// The time of the last write for each key.
struct AtMostEvery<K> {
    at_most_every: Duration,
    written: Mutex<HashMap<K, Time>>,
}

impl<K: Clone + Eq + Hash> AtMostEvery<K> {
    fn every(at_most_every: Duration) -> AtMostEvery<K> {
        AtMostEvery { at_most_every, written: Mutex::default() }
    }

    /// Calls `write` if the last write for `key` is long enough ago. `write` returns whether the writer accepted it.
    fn note(&self, key: &K, now: Time, write: impl FnOnce() -> bool) {
        let mut written = self.written.lock();
        if written.get(key).is_some_and(|last| now.since(*last) < self.at_most_every) {
            return;
        }
        if written.len() >= REMEMBERED {
            written.retain(|_, last| now.since(*last) < self.at_most_every / 2);
            if written.len() >= REMEMBERED {
                written.clear();
            }
        }
        if write() {
            written.insert(key.clone(), now);
        }
    }
}
