//! Commands of a job that has time, unlike a request: one that the database has no time for now comes again later, also
//! when its server is away for some seconds.

use identity::{Error, Result};
use std::time::Duration;
use store::{Error as StoreError, Store, Tx};

/// So often in a row it is put off at most.
const TRIES: u32 = 20;
/// Between two of them, where the database does not say itself for how long.
const PAUSE: Duration = Duration::from_millis(500);

/// [`Store::write`], again and again while the answer is "not now".
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

/// For how long, if nothing was done and it may go well another time.
fn put_off(error: &StoreError) -> Option<Duration> {
    match error {
        StoreError::Overloaded { retry_after } => Some(*retry_after),
        StoreError::Unavailable { .. } | StoreError::TooSlow { .. } => Some(PAUSE),
        _ => None,
    }
}
