//! Reads of the log in pages, whose size follows what the database can do in time.

use crate::clock::Clock;
use identity::Error;
use identity::events::{self, Listening, Page};
use std::future::Future;
use std::sync::Arc;
use store::{LogCursor, Snapshot, Store};

/// Entries that are read at once.
const ENTRIES_MAX: usize = 200;
/// What the next page has more after one that was read in time.
const GROWTH: usize = ENTRIES_MAX / 20;

/// About so many bytes of events end a page of the hub, of which there is one.
pub(super) const HUB_BYTES: usize = 8 * 1024 * 1024;
/// The same for a page that a stream reads by itself. It lasts as long as its client takes to read it, and there may be thousands.
pub(super) const OWN_BYTES: usize = 256 * 1024;

/// The log of events: the database, and the time by which entries are delivered.
#[derive(Clone)]
pub(crate) struct Log {
    pub(super) store: Store,
    clock: Arc<dyn Clock>,
}

impl Log {
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>) -> Log {
        Log { store, clock }
    }
}

/// The query for the events behind a cursor: up to so many entries. `None` if the cursor is too old or belongs to another
/// history.
pub(super) fn page(
    log: &Log,
    cursor: &LogCursor,
    entries: usize,
    bytes_max: usize,
    services: &Arc<[Listening]>,
) -> impl FnMut(&mut Snapshot<'_>) -> identity::Result<Option<Page>> + Clone + Send + use<> {
    let (history, now) = (log.store.log_history(), log.clock.now());
    let (cursor, services) = (cursor.clone(), services.clone());
    move |snapshot| events::deliver(snapshot, &cursor, history, entries, &services, bytes_max, now)
}

/// How many entries the next page has.
pub(super) struct PageSize(usize);

impl Default for PageSize {
    fn default() -> PageSize {
        PageSize(ENTRIES_MAX)
    }
}

impl PageSize {
    /// Reads a page. While that exceeds the time limit of a query, it reads a smaller one: the same page again would fail
    /// again.
    pub(super) async fn read<T, F>(&mut self, mut read: impl FnMut(usize) -> F) -> identity::Result<T>
    where
        F: Future<Output = identity::Result<T>>,
    {
        loop {
            match read(self.0).await {
                Err(Error::Store(store::Error::TooSlow { .. })) if self.0 > 1 => {
                    self.0 /= 2;
                    tracing::warn!(entries = self.0, "a page of events took too long; a smaller one is read");
                }
                Ok(page) => {
                    self.0 = (self.0 + GROWTH).min(ENTRIES_MAX);
                    return Ok(page);
                }
                failed => return failed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn too_slow() -> Error {
        Error::Store(store::Error::TooSlow { limit: Duration::from_secs(5) })
    }

    #[tokio::test]
    async fn a_page_that_takes_too_long_is_read_again_in_smaller_ones() {
        let log: Vec<usize> = (0..3000).collect();
        let (mut size, mut read, mut asked) = (PageSize::default(), Vec::new(), Vec::new());
        // The first 300 entries are so dear that the database reads 30 of them in time.
        while read.len() < log.len() {
            let from = read.len();
            let page = size.read(|entries| {
                asked.push(entries);
                let is_dear = from < 300 && entries > 30;
                let page = log[from..].iter().copied().take(entries).collect::<Vec<_>>();
                async move { if is_dear { Err(too_slow()) } else { Ok(page) } }
            });
            read.extend(page.await.expect("a smaller page"));
        }
        assert_eq!(read, log, "no entry is left out");
        assert_eq!(asked[..4], [200, 100, 50, 25]);
        assert_eq!(asked.last(), Some(&ENTRIES_MAX), "the size grows again");
    }

    #[tokio::test]
    async fn a_single_entry_that_takes_too_long_and_any_other_error_are_told() {
        let mut size = PageSize::default();
        let failed = size.read(|_| async { Err::<(), _>(too_slow()) }).await;
        assert!(matches!(failed, Err(Error::Store(store::Error::TooSlow { .. }))), "{failed:?}");
        assert_eq!(size.0, 1);
        let mut size = PageSize::default();
        let failed = size.read(|_| async { Err::<(), _>(Error::Store(store::Error::Stopped)) }).await;
        assert!(matches!(failed, Err(Error::Store(store::Error::Stopped))), "{failed:?}");
        assert_eq!(size.0, ENTRIES_MAX, "the database is away: the size has nothing to do with it");
    }
}
