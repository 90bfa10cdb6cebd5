//! A check for tests: after a commit, every cached result whose keys the commit did not touch must still be right.
//!
//! Commands and cached queries declare keys. A missing key, or the key of another row, leaves a wrong entry in a cache.
//! With [`crate::Options::check`] on SQLite, the writer runs the queries of all cached entries again that read a table
//! that the commit has written, and compares. What is right on SQLite is right on the servers, which run the same
//! commands and queries.

use crate::{Error, Snapshot};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Weak;

/// A cache whose queries can be run again.
pub(crate) trait Recheck: Send + Sync {
    /// Runs queries again that have read one of the tables `written`. Fails at the first entry that is wrong.
    fn recheck(&self, snapshot: &mut Snapshot<'_>, written: &[String]) -> Result<(), Error>;
}

/// The caches of a store; none unless declarations are checked.
#[derive(Default)]
pub(crate) struct Rechecks(Mutex<Vec<Weak<dyn Recheck>>>);

impl Rechecks {
    pub(crate) fn add(&self, cache: Weak<dyn Recheck>) {
        self.0.lock().push(cache);
    }

    /// Checks all caches. The snapshot shows the last commit, which wrote to these tables and has been published.
    pub(crate) fn run(&self, snapshot: &mut Snapshot<'_>, written: &[String]) -> Result<(), Error> {
        if written.is_empty() {
            return Ok(());
        }
        let caches: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        caches.iter().try_for_each(|cache| cache.recheck(snapshot, written))
    }
}

/// A query as it is run again: `None` if it finds nothing or fails, and is not cached then.
pub(crate) type Again<V> = Box<dyn FnMut(&mut Snapshot<'_>) -> Option<V> + Send>;

/// The queries of a cache's entries.
pub(crate) struct Queries<K, V>(Mutex<HashMap<K, Known<V>>>);

struct Known<V> {
    value: V,
    tables: Vec<String>,
    again: Again<V>,
    is_same: fn(&V, &V) -> bool,
}

impl<K, V> Default for Queries<K, V> {
    fn default() -> Self {
        Queries(Mutex::default())
    }
}

impl<K: Hash + Eq, V: PartialEq> Queries<K, V> {
    /// Notes the query of an entry, with the tables that it has read.
    pub(crate) fn note(&self, key: K, value: V, tables: Vec<String>, again: Again<V>) {
        self.0.lock().insert(key, Known { value, tables, again, is_same: V::eq });
    }
}

impl<K: Hash + Eq, V> Queries<K, V> {
    /// Runs queries again. `is_cached` says whether an entry is still there. Returns whether all results are as they were.
    pub(crate) fn are_right(
        &self,
        snapshot: &mut Snapshot<'_>,
        written: &[String],
        is_cached: impl Fn(&K) -> bool,
    ) -> bool {
        let mut queries = self.0.lock();
        queries.retain(|key, _| is_cached(key));
        queries.values_mut().all(|known| {
            let concerns = known.tables.iter().any(|table| written.contains(table));
            // A query that panics finds nothing.
            let mut again = || catch_unwind(AssertUnwindSafe(|| (known.again)(snapshot))).ok().flatten();
            !concerns || again().is_some_and(|value| (known.is_same)(&value, &known.value))
        })
    }
}
