//! Waits between tries, each twice as long as the one before.

use std::time::Duration;

pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max, next: min }
    }

    /// The wait before the next try, without taking it.
    pub(crate) fn peek(&self) -> Duration {
        self.next
    }

    /// Takes the wait before the next try.
    pub(crate) fn take(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.max);
        wait
    }

    /// A try has succeeded.
    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_again_after_a_success() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(5), ms(18));
        assert_eq!([backoff.take(), backoff.take(), backoff.take(), backoff.take()], [5, 10, 18, 18].map(ms));
        assert_eq!(backoff.peek(), ms(18));
        backoff.reset();
        assert_eq!([backoff.take(), backoff.peek()], [5, 10].map(ms));
    }
}
