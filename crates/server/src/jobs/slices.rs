//! Commands that change many rows: each changes one slice of them, so that others run in between.
//!
//! How many rows fit into the time of a command depends on the distance to the database server, because each statement is a
//! journey. A slice that was too slow is halved and tried again; after some that were not, slices grow again.

use identity::{Error, Result};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use store::{Error as StoreError, Store, Tx};

/// Slices are halved this often, at most.
const HALVED_MAX: u32 = 8;
/// After so many commands that were not too slow, slices are twice as large.
const GROWS_AFTER: u32 = 20;

/// The size of the slices of one instance.
pub(super) struct Slices {
    store: Store,
    /// How often it is halved.
    halved: AtomicU32,
    /// The commands since it has changed.
    in_time: AtomicU32,
    /// One slice at a time, whatever steps run side by side: the other commands have the writer to themselves in between.
    turn: tokio::sync::Mutex<()>,
}

/// What a command did.
pub(super) struct Slice<T> {
    pub(super) result: T,
    /// The most rows that it was to change.
    pub(super) size: usize,
}

impl Slices {
    pub(super) fn new(store: Store) -> Slices {
        Slices {
            store,
            halved: AtomicU32::new(0),
            in_time: AtomicU32::new(0),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Runs a command that changes up to so many rows: `most`, or fewer where that takes too long.
    pub(super) async fn write<T, F>(&self, name: &'static str, most: i64, command: F) -> Result<Slice<T>>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>, i64) -> Result<T> + Clone + Send + 'static,
    {
        let _turn = self.turn.lock().await;
        loop {
            let size = (most >> self.halved.load(Relaxed)).max(1);
            let slice = command.clone();
            match self.store.write(name, move |tx| slice(tx, size)).await {
                Err(Error::Store(StoreError::TooSlow { .. })) if size > 1 && self.halve() => {}
                Err(error) => return Err(error),
                Ok(result) => {
                    self.was_in_time();
                    return Ok(Slice { result, size: usize::try_from(size).unwrap_or(usize::MAX) });
                }
            }
        }
    }

    /// The same for all of these rows, slice by slice. `pause` runs after each.
    pub(super) async fn write_all<I: Clone + Send + Sync + 'static>(
        &self,
        name: &'static str,
        mut rows: Vec<I>,
        most: i64,
        command: impl Fn(&mut Tx<'_>, &[I], i64) -> Result<bool> + Clone + Send + 'static,
        pause: impl AsyncFn(),
    ) -> Result<()> {
        while !rows.is_empty() {
            let (left, command) = (rows.clone(), command.clone());
            let some = move |tx: &mut Tx<'_>, most| {
                let count = usize::try_from(most).unwrap_or(usize::MAX).min(left.len());
                command(tx, &left[..count], most)
            };
            let done = self.write(name, most, some).await?;
            if done.result {
                rows.drain(..done.size.min(rows.len()));
            }
            pause().await;
        }
        Ok(())
    }

    /// Halves the slices. Returns false if they cannot be smaller.
    fn halve(&self) -> bool {
        self.in_time.store(0, Relaxed);
        self.halved
            .fetch_update(Relaxed, Relaxed, |halved| (halved < HALVED_MAX).then_some(halved + 1))
            .is_ok()
    }

    fn was_in_time(&self) {
        if self.in_time.fetch_add(1, Relaxed) + 1 >= GROWS_AFTER {
            self.in_time.store(0, Relaxed);
            // At its full size it stays.
            let _ = self.halved.fetch_update(Relaxed, Relaxed, |halved| halved.checked_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use store::Options;
    use store::testing::{Kind, TestPlace};

    fn slices(place: &TestPlace) -> Slices {
        Slices::new(Store::open(Options::new(place.url(), &[])).expect("opens"))
    }

    /// A command for which `fits` rows are not too slow.
    fn limited(fits: i64) -> impl Fn(&mut Tx<'_>, i64) -> Result<i64> + Clone + Send + 'static {
        move |_, most| {
            if most <= fits {
                Ok(most)
            } else {
                Err(StoreError::TooSlow { limit: Duration::from_secs(1) }.into())
            }
        }
    }

    #[tokio::test]
    async fn slices_shrink_until_they_fit_and_grow_again() {
        let place = TestPlace::on(Kind::Sqlite).expect("a file");
        let slices = slices(&place);
        let size = async |fits| slices.write("test.slice", 200, limited(fits)).await.expect("fits").result;
        assert_eq!(size(200).await, 200);
        assert_eq!(size(30).await, 25, "halved three times");
        // The next ones begin with what fitted.
        for _ in 1..GROWS_AFTER {
            assert_eq!(size(200).await, 25);
        }
        assert_eq!(size(200).await, 50);
        assert_eq!(size(1).await, 1);
        let error =
            slices.write("test.slice", 200, limited(0)).await.err().expect("a single row is too slow");
        assert!(matches!(error, Error::Store(StoreError::TooSlow { .. })), "{error:?}");
    }

    #[tokio::test]
    async fn all_rows_are_written_also_where_few_fit() {
        let place = TestPlace::on(Kind::Sqlite).expect("a file");
        let slices = slices(&place);
        let (sent, written) = std::sync::mpsc::channel();
        let command = move |tx: &mut Tx<'_>, rows: &[u32], most| {
            limited(10)(tx, most)?;
            rows.iter().for_each(|row| sent.send(*row).expect("is read"));
            Ok(true)
        };
        slices.write_all("test.slices", (0..57).collect(), 200, command, async || {}).await.expect("fits");
        assert_eq!(written.iter().collect::<Vec<_>>(), (0..57).collect::<Vec<_>>());
    }
}
