//! Reads: point reads, scans, lists, and reads through a cache.

use crate::cache::{Cache, Filled, check_declared};
use crate::job::{Plan, Query, QueryKind, QueryOf, Start, guarded, once};
use crate::not_before;
use crate::store::wait;
use crate::tx::TablesRead;
use crate::weigh::Weigh;
use crate::{CacheStats, Error, Key, Snapshot, Store, runtime};
use std::future::Future;
use std::hash::Hash;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a background query may wait before it starts: users come first, and nobody waits for it.
const BACKGROUND_DEADLINE: Duration = Duration::from_secs(10);

impl Store {
    /// Runs a point read: one or two look-ups by a unique key. With SQLite it runs on the calling thread.
    pub async fn point<T, E, F>(&self, query: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, E> + Send + 'static,
    {
        let (mut query, mut result) = (Some(query), None);
        let inline = self.inner.backend.inline(&mut |snapshot| {
            result = query.take().map(|query| guarded(query, snapshot));
        })?;
        match (inline, result, query) {
            (true, Some(result), _) => {
                self.inner.shared.stats.reads.fetch_add(1, Ordering::Relaxed);
                if result.is_ok() {
                    not_before::note_fresh_read();
                }
                result
            }
            // Boxed, so that the futures of point reads that run inline stay small.
            (_, _, Some(query)) => Box::pin(self.queue(once(query), Plan::of(QueryKind::Point))).await,
            _ => Err(Error::Stopped.into()),
        }
    }

    /// Runs a query that may scan, on a reader thread, in one snapshot of the newest state.
    pub async fn read<T, E, F>(&self, query: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, E> + Send + 'static,
    {
        self.queue(once(query), Plan::of(QueryKind::Scan)).await
    }

    /// Runs a query that only displays data. A replica may answer it with a state that is slightly old, but never older
    /// than this process's last write or the version of [`crate::not_before`]. For a decision, use [`Store::read`].
    pub async fn list<T, E, F>(&self, query: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: FnMut(&mut Snapshot<'_>) -> Result<T, E> + Send + 'static,
    {
        self.queue(query, Plan::of(QueryKind::List)).await
    }

    /// Runs a query on another thread.
    pub(crate) async fn queue<T, E, F>(&self, function: F, plan: Plan) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: FnMut(&mut Snapshot<'_>) -> Result<T, E> + Send + 'static,
    {
        runtime::of_caller()?;
        let Plan { kind, needed, background } = plan;
        let (reply, answer) = oneshot::channel();
        let start = Start::default();
        let shared = &self.inner.shared;
        let carried = not_before::min_version().map_or(0, |version| shared.feed.needed(version));
        let needed = needed.max(carried).max(shared.feed.written());
        let job = QueryOf {
            function,
            point: kind == QueryKind::Point,
            background,
            needed,
            result: None,
            reply,
            start: start.clone(),
            started: false,
            queued_at: Instant::now(),
        };
        let mut job: Box<dyn Query> = Box::new(job);
        // No replica ever has what belongs to another epoch. What nobody has seen here may be made up, and would keep the
        // replica's thread waiting: the primary knows.
        let may_wait = kind == QueryKind::List && needed <= shared.feed.seen();
        let replica = self.inner.backend.replica_queue().filter(|_| may_wait);
        if let Some(queue) = replica {
            match queue.push(job) {
                Ok(()) => return self.answered(answer, &start, background).await,
                // The replica's queue is full, so the primary answers.
                Err((given_back, _)) => job = given_back,
            }
        }
        shared.queries.push(job).map_err(|(_, error)| error)?;
        self.answered(answer, &start, background).await
    }

    async fn answered<T, E: From<Error>>(
        &self,
        answer: oneshot::Receiver<Result<T, E>>,
        start: &Start,
        background: bool,
    ) -> Result<T, E> {
        let shared = &self.inner.shared;
        shared.stats.reads.fetch_add(1, Ordering::Relaxed);
        let deadline = if background { BACKGROUND_DEADLINE } else { shared.queries.deadline };
        let result = wait(answer, start, deadline).await?;
        if result.is_ok() {
            not_before::note_fresh_read();
        }
        result
    }

    /// A cache of query results. All caches share the memory of [`crate::Options::cache_memory`].
    pub fn cache<K, V>(&self, name: &'static str) -> Cache<K, V>
    where
        K: Hash + Eq + Clone + Weigh + Send + Sync + 'static,
        V: Clone + Weigh + Send + Sync + 'static,
    {
        Cache::new(name, &self.inner.shared)
    }

    /// Takes a part of the memory of all caches for something else that is cached, and returns its size.
    pub fn reserve_cache_memory(&self, part: usize) -> usize {
        let bytes = self.inner.shared.options.cache_memory / part.max(1);
        self.inner.shared.cache_memory.reserve(bytes);
        bytes
    }

    /// The counters of each cache.
    pub fn cache_stats(&self) -> Vec<CacheStats> {
        self.inner.shared.cache_memory.stats()
    }

    /// Returns the entry of `cache`, or runs a point read and caches its result until one of the keys changes that the
    /// read declared ([`Snapshot::depends`]). `None` from the query means that the row
    /// does not exist; that is not cached.
    pub fn fill<'a, K, V, E, F>(
        &'a self,
        cache: &'a Cache<K, V>,
        key: K,
        now: crate::Time,
        query: F,
    ) -> impl Future<Output = Result<Option<V>, E>> + Send + 'a
    where
        K: Hash + Eq + Clone + Weigh + Send + Sync + 'static,
        V: Clone + PartialEq + Weigh + Send + Sync + 'static,
        E: From<Error> + Send + 'static,
        F: FnMut(&mut Snapshot<'_>) -> Result<Option<Filled<V>>, E> + Send + 'static,
    {
        let known = cache.get(&key, now);
        // Boxed, so that the futures of cache hits stay small.
        let anew = known.is_none().then(|| Box::pin(self.fill_anew(cache, key, now, query)));
        async move {
            match anew {
                Some(anew) => anew.await,
                None => Ok(known),
            }
        }
    }

    /// Like [`Snapshot::recorded`], for the live query `name`. With [`crate::Options::check`] it fails on SQLite if the query found
    /// rows in a watched table of which it declared no key, or found nothing and declared no key at all: it would not be run
    /// again when that table changes.
    pub fn recorded<T, E: From<Error>>(
        &self,
        snapshot: &mut Snapshot<'_>,
        name: &'static str,
        query: impl FnOnce(&mut Snapshot<'_>) -> Result<T, E>,
    ) -> Result<(T, Vec<Key>), E> {
        // What was read before belongs to another query.
        snapshot.tables_read.iter_mut().for_each(|tables| *tables = TablesRead::default());
        let (value, keys) = snapshot.recorded(query)?;
        if let Some(tables) = snapshot.tables_read.as_mut().map(std::mem::take) {
            check_declared(name, &tables, self.inner.shared.options.watched, &keys)?;
        }
        Ok((value, keys))
    }

    /// Runs a query of which nobody needs the keys, with the check of [`Store::recorded`].
    pub fn checked<T, E: From<Error>>(
        &self,
        snapshot: &mut Snapshot<'_>,
        name: &'static str,
        query: impl FnOnce(&mut Snapshot<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match snapshot.tables_read {
            Some(_) => Ok(self.recorded(snapshot, name, query)?.0),
            None => query(snapshot),
        }
    }

    /// [`Store::fill`] after a look-up that has found nothing.
    pub async fn fill_anew<K, V, E, F>(
        &self,
        cache: &Cache<K, V>,
        key: K,
        now: crate::Time,
        mut query: F,
    ) -> Result<Option<V>, E>
    where
        K: Hash + Eq + Clone + Weigh + Send + Sync + 'static,
        V: Clone + PartialEq + Weigh + Send + Sync + 'static,
        E: From<Error> + Send + 'static,
        F: FnMut(&mut Snapshot<'_>) -> Result<Option<Filled<V>>, E> + Send + 'static,
    {
        let shared = self.inner.shared.clone();
        let checked = cache.clone();
        let seen = shared.feed.position();
        shared.cache_memory.note_time(now);
        let filled = self
            .point(move |snapshot| {
                let (filled, keys) = snapshot.recorded(&mut query)?;
                let Some(filled) = filled else { return Ok(None) };
                let tables = snapshot.tables_read.take();
                if let Some(tables) = &tables {
                    checked.check(tables, shared.options.watched, &keys)?;
                }
                Ok::<_, E>(Some((filled, keys, tables.map(|tables| (tables, query)))))
            })
            .await?;
        let Some((Filled { value, until }, keys, check)) = filled else { return Ok(None) };
        if until > now {
            if let (Some(queries), Some((tables, mut query))) = (cache.queries(), check) {
                let again =
                    move |snapshot: &mut Snapshot<'_>| query(snapshot).ok()?.map(|filled| filled.value);
                queries.note(key.clone(), value.clone(), tables.all, Box::new(again));
            }
            cache.keep(key, Filled { value: value.clone(), until }, &keys, seen);
        }
        Ok(Some(value))
    }
}
