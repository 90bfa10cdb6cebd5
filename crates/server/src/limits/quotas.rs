//! How many device codes, or posted authorization requests, a client has pending: bounded, so that a broken or hostile one cannot fill the
//! disk. Counted in memory by the minute in which codes were made; a code counts until its life is over,
//! decided or not.

use identity::Time;
use identity::ids::ClientId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

const MINUTE_MS: i64 = 60_000;
/// Minutes that a code lives, and one for the rounding.
const MINUTES: usize = 16;

#[derive(Default)]
pub(crate) struct Quota(Mutex<HashMap<ClientId, Counts>>);

#[derive(Default)]
struct Counts {
    newest_minute: i64,
    by_minute: [usize; MINUTES],
}

impl Quota {
    /// Counts a new code of a client, or says when there will be room for it.
    pub(crate) fn admit(&self, client: &ClientId, most: usize, now: Time) -> Result<(), Duration> {
        let minute = now.millis() / MINUTE_MS;
        let mut clients = self.0.lock();
        if let Some(counts) = clients.get_mut(client) {
            return counts.admit(most, minute);
        }
        clients.retain(|_, counts| minute - counts.newest_minute < MINUTES as i64);
        let mut counts = Counts { newest_minute: minute, ..Counts::default() };
        let admitted = counts.admit(most, minute);
        clients.insert(client.clone(), counts);
        admitted
    }
}

impl Counts {
    fn admit(&mut self, most: usize, minute: i64) -> Result<(), Duration> {
        self.turn(minute);
        if self.by_minute.iter().sum::<usize>() >= most {
            return Err(Duration::from_secs(60));
        }
        self.by_minute[minute.rem_euclid(MINUTES as i64) as usize] += 1;
        Ok(())
    }

    /// Forgets the minutes that are over.
    fn turn(&mut self, minute: i64) {
        let passed = (minute - self.newest_minute).clamp(0, MINUTES as i64);
        for step in 0..passed {
            self.by_minute[(minute - step).rem_euclid(MINUTES as i64) as usize] = 0;
        }
        self.newest_minute = self.newest_minute.max(minute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::secrets::testing::Seeded;

    #[test]
    fn a_client_that_asks_for_too_many_waits_and_others_do_not() {
        let pending = Quota::default();
        let start = Time::from_millis(1_800_000_000_000);
        let [one, other] = [1, 2].map(|seed| ClientId::new(start, &Seeded::new(seed)));
        for _ in 0..100 {
            assert!(pending.admit(&one, 100, start).is_ok());
        }
        assert!(pending.admit(&one, 100, start + Duration::from_secs(14 * 60)).is_err());
        assert!(pending.admit(&other, 100, start).is_ok());
        assert!(pending.admit(&one, 100, start + Duration::from_secs(16 * 60)).is_ok());
    }
}
