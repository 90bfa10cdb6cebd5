//! Retries for background work: a command that the database refuses for lack of capacity, or because its server is
//! unreachable for some seconds, is sent again later.

use identity::{Error, Result};
use std::time::Duration;
use store::{Error as StoreError, Store, Tx};

/// The maximum number of retries.
const TRIES: u32 = 20;
/// The pause between two retries, unless the error has one.
const PAUSE: Duration = Duration::from_millis(500);

/// [`Store::write`] with retries while the error is temporary.
pub(crate) async fn write<T, F>(store: &Store, name: &'static str, command: F) -> Result<T>
where
    T: Send + 'static,
    F: Fn(&mut Tx<'_>) -> Result<T> + Clone + Send + 'static,
{
    let mut tries = 0;
    loop {
        let error = match store.write(name, command.clone()).await {
            Err(Error::Store(error)) => error,
            other => return other,
        };
        let pause = put_off(&error).filter(|_| tries < TRIES).ok_or(error)?;
        tries += 1;
        tokio::time::sleep(pause).await;
    }
}

/// The pause before a retry. `None` if the error is not temporary or the command may have run.
fn put_off(error: &StoreError) -> Option<Duration> {
    match error {
        StoreError::Overloaded { retry_after } => Some(*retry_after),
        StoreError::Unavailable { .. } | StoreError::TooSlow { .. } => Some(PAUSE),
        _ => None,
    }
}
