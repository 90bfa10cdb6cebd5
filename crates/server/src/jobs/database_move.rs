//! Moves an installation to another database: copies table by table, then compares.
//!
//! The source needs the schema of this version and is only read. The target must be empty or hold the rows of an
//! earlier attempt of the same move, which then continues after the last copied row. At the end both sides are read
//! and compared table by table, by row count and by a hash of the content. Until then the target is marked, and no
//! server starts on it.
//!
//! A target without the mark that belongs to the installation of the source is a move that has ended. Both sides are
//! compared again and nothing is written: equal tables are a success, others an error, because the rows of one side would
//! be lost.

use crate::clock::Clock;
use crate::jobs::retry;
use identity::schema::MIGRATIONS;
use identity::{database_move, leases};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::transfer::{self, Table, TableRow};
use store::{Error as StoreError, Store, Tx};

/// Rows that one command copies, so that the command is short.
const COPY_SLICE: usize = 1000;
/// Rows that are compared in one step.
const COMPARE_SLICE: usize = 4000;

/// The reason why a move failed.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The target has rows of something else.
    #[error("the target is not empty: its table {0} has rows; choose an empty database")]
    NotEmpty(String),
    /// The target belongs to the installation of the source, and no longer has the same rows.
    #[error(
        "the move into this target is finished, and one of the two databases was used since: {0}. If the server runs on \
         the target, all is well and there is nothing to do. If it went on with the source, move into an empty database"
    )]
    FinishedAndUsed(String),
    /// Another installation moves into the target.
    #[error("another installation is being moved into the target; choose another database")]
    Taken,
    /// A server runs on the source.
    #[error(
        "a server uses the source; stop all of its instances, then start the move again (an instance that was killed \
         counts for 15 more seconds)"
    )]
    Served,
    /// The source was never used by a server.
    #[error("the source is not complete: {0}")]
    Source(String),
    /// Source and target differ.
    #[error("{0}. Was the source in use? Move into an empty database again")]
    Differs(String),
    /// A database returned an error.
    #[error(transparent)]
    Domain(#[from] identity::Error),
}

impl From<StoreError> for MoveError {
    fn from(error: StoreError) -> MoveError {
        MoveError::Domain(error.into())
    }
}

type Result<T> = std::result::Result<T, MoveError>;

/// The current step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Copies rows to the target.
    Copying,
    /// Reads and compares both sides.
    Comparing,
    /// Deletes the rows of a rehearsal.
    Clearing,
}

/// The progress of a move, reported several times a second.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The current step.
    pub step: Step,
    /// The current table.
    pub table: String,
    /// Rows done in this step, over all tables.
    pub done: u64,
    /// Of these, rows that an earlier attempt copied.
    pub found: u64,
    /// All rows of this step.
    pub total: u64,
}

/// A table after copying and comparing.
#[derive(Clone, Debug)]
pub struct MovedTable {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// The hash of its content, equal on both sides. It does not depend on the order of rows.
    pub hash: String,
}

/// What a move did.
#[derive(Clone, Debug)]
pub struct Moved {
    /// All tables, equal on both sides.
    pub tables: Vec<MovedTable>,
    /// The move had ended before: nothing was written, not even by a rehearsal.
    pub before: bool,
}

/// What the target is to this move.
enum Target {
    /// It is empty or has the rows of an earlier attempt, and has the mark of this move.
    Claimed,
    /// It belongs to the installation of the source.
    Finished,
}

/// A move from one open database to another.
pub struct Move<'a> {
    from: &'a Store,
    to: &'a Store,
    clock: &'a dyn Clock,
    tell: Box<dyn FnMut(&Progress) + 'a>,
    progress: Progress,
    told: Instant,
}

impl<'a> Move<'a> {
    /// Creates a move between two databases with the current schema. `tell` receives the progress.
    pub fn new(
        from: &'a Store,
        to: &'a Store,
        clock: &'a dyn Clock,
        tell: impl FnMut(&Progress) + 'a,
    ) -> Move<'a> {
        let progress = Progress { step: Step::Copying, table: String::new(), done: 0, found: 0, total: 0 };
        Move { from, to, clock, tell: Box::new(tell), progress, told: Instant::now() }
    }

    /// Copies and compares everything, and removes the mark. A `rehearsal` deletes the copied rows instead. A move that has
    /// ended is only compared.
    pub async fn run(mut self, rehearsal: bool) -> Result<Moved> {
        let moved = |table: &Table| database_move::is_moved(&table.name);
        let tables: Vec<Arc<Table>> =
            transfer::tables(MIGRATIONS)?.into_iter().filter(moved).map(Arc::new).collect();
        self.check_not_served().await?;
        let target = self.claim_target(&tables).await?;
        self.progress.total = self.count(&tables).await?;
        if matches!(target, Target::Finished) {
            let tables = self.compare_all(&tables).await;
            let tables = tables.map_err(|error| match error {
                MoveError::Differs(table) => MoveError::FinishedAndUsed(table),
                other => other,
            });
            return Ok(Moved { tables: tables?, before: true });
        }
        for table in &tables {
            self.copy(table).await?;
            let copied = table.clone();
            self.to
                .write("move.numbers", move |tx| Ok::<_, identity::Error>(copied.continue_numbers(tx)?))
                .await?;
        }
        // A server that was started meanwhile has changed rows that are copied.
        self.check_not_served().await?;
        let moved = self.compare_all(&tables).await?;
        if rehearsal {
            self.begin_step(Step::Clearing);
            for table in tables.iter().rev() {
                self.clear(table).await?;
            }
        }
        self.to.write("move.end", database_move::end).await?;
        Ok(Moved { tables: moved, before: false })
    }

    /// Checks that no instance serves from the source. A file needs no check: this process has locked it.
    async fn check_not_served(&self) -> Result<()> {
        let now = self.clock.now();
        if self.from.is_shared() && self.from.read(move |snapshot| leases::is_served(snapshot, now)).await? {
            return Err(MoveError::Served);
        }
        Ok(())
    }

    /// Checks that the target is empty, has the mark of this move, or is its end. Marks an empty one.
    async fn claim_target(&mut self, tables: &[Arc<Table>]) -> Result<Target> {
        let source = self.from.read(|snapshot| {
            database_move::check_finished(snapshot)?;
            database_move::installation(snapshot)
        });
        let source = source.await?.ok_or_else(|| {
            MoveError::Source("no server has ever run on it; there is nothing to move".to_owned())
        })?;
        let target = self.to.read(|snapshot| {
            Ok::<_, identity::Error>((
                database_move::unfinished_source(snapshot)?,
                database_move::installation(snapshot)?,
            ))
        });
        match target.await? {
            (Some(marked), _) if marked == source => return Ok(Target::Claimed),
            (None, Some(installation)) if installation == source => return Ok(Target::Finished),
            _ => {}
        }
        for table in tables {
            let wanted = table.clone();
            if self.to.read(move |snapshot| wanted.last_key(snapshot)).await?.is_some() {
                return Err(MoveError::NotEmpty(table.name.clone()));
            }
        }
        if !self.to.write("move.begin", move |tx| database_move::begin(tx, &source)).await? {
            return Err(MoveError::Taken);
        }
        Ok(Target::Claimed)
    }

    async fn compare_all(&mut self, tables: &[Arc<Table>]) -> Result<Vec<MovedTable>> {
        self.begin_step(Step::Comparing);
        let mut compared = Vec::new();
        for table in tables {
            compared.push(self.compare(table).await?);
        }
        Ok(compared)
    }

    async fn count(&self, tables: &[Arc<Table>]) -> Result<u64> {
        let mut total = 0;
        for table in tables {
            let table = table.clone();
            total += self.from.read(move |snapshot| table.count(snapshot)).await?;
        }
        Ok(total)
    }

    /// Copies the rows after the last copied one. Reads the next slice while the current one is written.
    async fn copy(&mut self, table: &Arc<Table>) -> Result<()> {
        let there = table.clone();
        let mut after = self.to.read(move |snapshot| there.last_key(snapshot)).await?;
        if after.is_some() {
            let there = table.clone();
            let found = self.to.read(move |snapshot| there.count(snapshot)).await?;
            self.progress.found += found;
            self.progress.done += found;
        }
        self.progress.table.clone_from(&table.name);
        (self.tell)(&self.progress);
        let mut next = slice(self.from, table, after.clone(), COPY_SLICE).await?;
        while let Some(last) = next.last() {
            after = Some(table.key_of(last));
            let rows = Arc::new(next);
            let (written, read) =
                tokio::join!(self.insert(table, rows.clone()), slice(self.from, table, after, COPY_SLICE));
            written?;
            next = read?;
            self.report(table, rows.len());
        }
        Ok(())
    }

    async fn insert(&self, table: &Arc<Table>, rows: Arc<Vec<TableRow>>) -> Result<()> {
        let table = table.clone();
        let insert = move |tx: &mut Tx<'_>| Ok(table.insert(tx, &rows)?);
        Ok(retry::write(self.to, "move.copy", insert).await?)
    }

    async fn compare(&mut self, table: &Arc<Table>) -> Result<MovedTable> {
        let (mut here, mut there) = (Content::default(), Content::default());
        let (mut after_here, mut after_there) = (None, None);
        loop {
            let (left, right) = tokio::join!(
                slice(self.from, table, after_here.clone(), COMPARE_SLICE),
                slice(self.to, table, after_there.clone(), COMPARE_SLICE)
            );
            let (left, right) = (left?, right?);
            if left.is_empty() && right.is_empty() {
                break;
            }
            after_here = left.last().map(|row| table.key_of(row)).or(after_here);
            after_there = right.last().map(|row| table.key_of(row)).or(after_there);
            here.add(&left);
            there.add(&right);
            self.report(table, left.len());
        }
        if here != there {
            return Err(MoveError::Differs(format!(
                "table {} is not the same on both sides: {} rows with hash {} in the source, {} with {} in the target",
                table.name,
                here.rows,
                here.hash(),
                there.rows,
                there.hash()
            )));
        }
        Ok(MovedTable { name: table.name.clone(), rows: here.rows, hash: here.hash() })
    }

    async fn clear(&mut self, table: &Arc<Table>) -> Result<()> {
        // Not from the beginning each time: SQLite and PostgreSQL would visit the rows deleted so far again.
        let mut after = None;
        loop {
            let rows = Arc::new(slice(self.to, table, after, COPY_SLICE).await?);
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(table.key_of(last));
            let (cleared, deleted) = (table.clone(), rows.clone());
            let clear = move |tx: &mut Tx<'_>| Ok(cleared.delete(tx, &deleted)?);
            retry::write(self.to, "move.clear", clear).await?;
            self.report(table, rows.len());
        }
    }

    fn begin_step(&mut self, step: Step) {
        self.progress.step = step;
        (self.progress.done, self.progress.found) = (0, 0);
        (self.tell)(&self.progress);
    }

    fn report(&mut self, table: &Table, rows: usize) {
        self.progress.table.clone_from(&table.name);
        self.progress.done += rows as u64;
        if self.told.elapsed() >= Duration::from_millis(200) || self.progress.done == self.progress.total {
            self.told = Instant::now();
            (self.tell)(&self.progress);
        }
    }
}

async fn slice(
    store: &Store,
    table: &Arc<Table>,
    after: Option<TableRow>,
    most: usize,
) -> Result<Vec<TableRow>> {
    let table = table.clone();
    Ok(store.read(move |snapshot| table.rows_after(snapshot, after.as_deref(), most)).await?)
}

/// The content of a table without its order: the number of rows and the sum of their hashes.
#[derive(Default, PartialEq, Eq)]
struct Content {
    rows: u64,
    sum: [u64; 4],
}

impl Content {
    fn add(&mut self, rows: &[TableRow]) {
        self.rows += rows.len() as u64;
        for row in rows {
            let hash = identity::secrets::hash(&transfer::canonical(row));
            for (lane, bytes) in self.sum.iter_mut().zip(hash.as_chunks().0) {
                *lane = lane.wrapping_add(u64::from_be_bytes(*bytes));
            }
        }
    }

    fn hash(&self) -> String {
        self.sum.iter().map(|lane| format!("{lane:016x}")).collect()
    }
}
