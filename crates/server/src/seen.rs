//! "Last seen", kept in memory and written at most once in five minutes a user.

use crate::app::App;
use identity::Time;
use identity::ids::UserId;
use identity::users;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

const AT_MOST_EVERY: Duration = Duration::from_secs(300);
/// Beyond this many users the oldest memories go; they are written once more at worst.
const REMEMBERED: usize = 50_000;

#[derive(Default)]
pub(crate) struct Seen(Mutex<HashMap<UserId, Time>>);

impl Seen {
    /// Notes that a user was here.
    pub(crate) fn note(&self, app: &App, user: &UserId, now: Time) {
        {
            let mut seen = self.0.lock();
            match seen.get_mut(user) {
                Some(written) if now.since(*written) < AT_MOST_EVERY => return,
                Some(written) => *written = now,
                None => {
                    if seen.len() >= REMEMBERED {
                        seen.retain(|_, written| now.since(*written) < AT_MOST_EVERY / 2);
                        if seen.len() >= REMEMBERED {
                            seen.clear();
                        }
                    }
                    seen.insert(user.clone(), now);
                }
            }
        }
        let user = user.clone();
        // Noise: when the writer is busy, it is not written.
        app.store.write_later("user.seen", move |tx| users::seen(tx, &user, now));
    }
}
