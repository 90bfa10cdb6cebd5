//! The clock and the randomness that everything below gets as arguments.

use identity::secrets::Random;
use std::cell::RefCell;
use store::Time;

/// What time it is.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Time;
}

/// The clock of the machine.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The randomness of aws-lc, seeded by the operating system. Drawn ahead in a pool for each thread,
/// because a draw costs as much as a kilobyte.
pub struct SystemRandom;

const POOL_BYTES: usize = 1024;

thread_local! {
    /// Bytes drawn ahead, and how many of them are left at the end.
    static POOL: RefCell<([u8; POOL_BYTES], usize)> = const { RefCell::new(([0; POOL_BYTES], 0)) };
}

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        if bytes.len() > POOL_BYTES {
            return draw(bytes);
        }
        POOL.with_borrow_mut(|(pool, left)| {
            if *left < bytes.len() {
                draw(pool);
                *left = POOL_BYTES;
            }
            let taken = &mut pool[POOL_BYTES - *left..][..bytes.len()];
            bytes.copy_from_slice(taken);
            // Nothing is given out twice, and nothing that was given out stays here.
            taken.fill(0);
            *left -= bytes.len();
        });
    }
}

fn draw(bytes: &mut [u8]) {
    if aws_lc_rs::rand::fill(bytes).is_err() {
        // Without randomness nothing here is safe: better no answer than a guessable secret.
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_draws_are_alike() {
        let draws: HashSet<[u8; 16]> = (0..10_000)
            .map(|_| {
                let mut bytes = [0; 16];
                SystemRandom.fill(&mut bytes);
                bytes
            })
            .collect();
        assert_eq!(draws.len(), 10_000);
    }
}
