//! The clock and the random source, which everything below gets as arguments.

use identity::secrets::Random;
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

/// The randomness of aws-lc, seeded by the operating system.
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        if aws_lc_rs::rand::fill(bytes).is_err() {
            // Without randomness nothing here is safe: better no answer than a guessable secret.
            std::process::abort();
        }
    }
}
