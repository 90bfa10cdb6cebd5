//! Makes a panic of code that others write an error: its request gets an answer, and what runs beside it goes on. The panic
//! hook has logged where it happened.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The code panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

/// Runs code to its end, or to its panic. It must not leave behind what others rely on.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// The same for a future, which is not polled again after a panic.
pub async fn caught_in<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    std::future::poll_fn(|task| match caught(|| work.as_mut().poll(task)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        assert_eq!(caught_in(async { 1 }).await, Ok(1));
        let later = async {
            tokio::task::yield_now().await;
            panic!("for the test")
        };
        assert_eq!(caught_in::<()>(later).await, Err(Panicked));
    }
}
