//! Work for later: [`later`] plans a task in a command's transaction, and [`crate::App::every`] repeats work.
//!
//! A task's changes and its deletion are one transaction, so it takes effect once. Instances take tasks by moving their
//! time forward: the conditional update has one winner. A task that fails is repeated with growing pauses.

use crate::app::Context;
use crate::{Given, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Snapshot, Sql, Time, Tx, args, sql};
use tokio::sync::{Notify, watch};

/// The tables, made at the start of every app.
pub(crate) const TABLES: &str = "CREATE TABLE IF NOT EXISTS live_tasks (
    due_ms BIGINT NOT NULL,
    id {key} NOT NULL,
    name {key} NOT NULL,
    args {text} NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (due_ms, id)
) {table};
CREATE TABLE IF NOT EXISTS live_schedules (
    name {key} NOT NULL PRIMARY KEY,
    next_ms BIGINT NOT NULL
) {table};";

static PLAN: Sql =
    sql("INSERT INTO live_tasks (due_ms, id, name, args, attempts) VALUES (?1, ?2, ?3, ?4, 0)");
static DUE: Sql = sql("SELECT due_ms, id, name, args, attempts FROM live_tasks
     WHERE due_ms <= ?1 AND (due_ms > ?2 OR (due_ms = ?2 AND id > ?3)) ORDER BY due_ms, id LIMIT 16");
static MOVE: Sql = sql("UPDATE live_tasks SET due_ms = ?3, attempts = ?4 WHERE due_ms = ?1 AND id = ?2");
static DONE: Sql = sql("DELETE FROM live_tasks WHERE due_ms = ?1 AND id = ?2");
static SCHEDULE: Sql = store::insert_if_absent("live_schedules", &["name", "next_ms"]);
static NEXT: Sql = sql("SELECT next_ms FROM live_schedules WHERE name = ?1");
static TURN: Sql = sql("UPDATE live_schedules SET next_ms = ?3 WHERE name = ?1 AND next_ms = ?2");

/// How long an instance has for a task before another one may take it.
const LEASE: Duration = Duration::from_secs(60);
/// The longest time between two looks for tasks of other instances.
const LOOK: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(3600);

/// Work that a command can plan with [`later`].
pub trait Task: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name in the database; it must stay the same while tasks are planned.
    const NAME: &'static str;

    /// Does the work, in a transaction of its own. It may run more than once and has no effects but through `tx`. After
    /// an error it is repeated later.
    fn run(&self, tx: &mut Tx<'_>, given: &Given) -> Result<(), Problem>;
}

/// A registered task.
pub(crate) struct TaskEntry {
    pub(crate) name: &'static str,
    pub(crate) run: RunTask,
}

type RunTask = Arc<dyn Fn(&str, &mut Tx<'_>, &Given) -> Result<(), Problem> + Send + Sync>;
/// The future of work that is repeated.
pub(crate) type Working = Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>>;

/// Work that is repeated.
pub(crate) struct Every {
    pub(crate) name: &'static str,
    pub(crate) interval: Duration,
    pub(crate) work: Box<dyn Fn(Context) -> Working + Send + Sync>,
}

impl TaskEntry {
    pub(crate) fn of<T: Task>() -> TaskEntry {
        let run = |args: &str, tx: &mut Tx<'_>, given: &Given| {
            let task: T = serde_json::from_str(args).map_err(|error| {
                tracing::error!(%error, task = T::NAME, "a planned task cannot be read");
                Problem::internal()
            })?;
            task.run(tx, given)
        };
        TaskEntry { name: T::NAME, run: Arc::new(run) }
    }
}

/// Plans a task: it runs at `at` or soon after, once, on one instance, if this command commits.
pub fn later<T: Task>(tx: &mut Tx<'_>, given: &Given, at: Time, task: &T) -> Result<(), Problem> {
    let args = serde_json::to_string(task).map_err(|_| Problem::internal())?;
    let id = given.id("task");
    tx.exec(&PLAN, args![at, &id, T::NAME, &args])?;
    tx.changed(planned());
    Ok(())
}

fn planned() -> Key {
    Key::table("live_tasks")
}

/// Runs tasks and repeats work until the server stops.
pub(crate) async fn run(context: Context, every: Arc<Vec<Every>>, mut stopped: watch::Receiver<bool>) {
    let planned_now = Arc::new(Notify::new());
    let mut watching = None;
    loop {
        if watching.is_none() {
            let (seen, notify) = (context.store().position(), planned_now.clone());
            watching = context.store().watch(&[planned()], seen, move || notify.notify_one());
        }
        for one in every.iter() {
            repeat(&context, one).await;
        }
        if run_due(&context).await {
            continue;
        }
        tokio::select! {
            () = planned_now.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

struct Planned {
    due: Time,
    id: String,
    name: String,
    args: String,
    attempts: i64,
}

/// Tasks that are read at once.
const PAGE: usize = 16;

/// Runs what is due. Returns whether there may be more.
async fn run_due(context: &Context) -> bool {
    let mut after = (Time::from_millis(i64::MIN), String::new());
    loop {
        let due = match read_due(context, after).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "planned tasks cannot be read");
                return false;
            }
        };
        let mut ran = false;
        for task in &due {
            let Some(entry) = context.0.registry.tasks.get(&*task.name) else {
                // Another instance, of another release, may know it.
                tracing::debug!(task = task.name, "this program does not know a planned task");
                continue;
            };
            ran = true;
            if let Err(problem) = run_one(context, entry, task).await {
                tracing::warn!(task = task.name, attempts = task.attempts + 1, code = %problem.code,
                    "a planned task failed and is repeated later");
            }
        }
        match due.last() {
            // Tasks that nobody knows must not hide those behind them.
            Some(last) if !ran && due.len() == PAGE => after = (last.due, last.id.clone()),
            _ => return ran,
        }
    }
}

async fn read_due(context: &Context, after: (Time, String)) -> Result<Vec<Planned>, store::Error> {
    let now = context.now();
    let read = move |snapshot: &mut Snapshot<'_>| {
        snapshot.all(&DUE, args![now, after.0, &after.1], |row| {
            Ok(Planned {
                due: row.get(0)?,
                id: row.get(1)?,
                name: row.get(2)?,
                args: row.get(3)?,
                attempts: row.get(4)?,
            })
        })
    };
    context.store().read(read).await
}

async fn run_one(context: &Context, entry: &TaskEntry, task: &Planned) -> Result<(), Problem> {
    let now = context.now();
    let attempts = task.attempts + 1;
    let pause = RETRY_MIN * 2_u32.saturating_pow(u32::try_from(attempts.min(20)).unwrap_or(20));
    let again = now + pause.clamp(LEASE, RETRY_MAX);
    let (due, id) = (task.due, task.id.clone());
    let claim = move |tx: &mut Tx<'_>| tx.exec(&MOVE, args![due, &id, again, attempts]);
    if context.store().write::<_, store::Error, _>("live.take_task", claim).await? == 0 {
        return Ok(());
    }
    let (id, args, run, registry, random) = (
        task.id.clone(),
        task.args.clone(),
        entry.run.clone(),
        context.0.registry.clone(),
        crate::app::random(),
    );
    let work = move |tx: &mut Tx<'_>| {
        // Whoever deletes it does its work; another instance may have taken it after the lease.
        if tx.exec(&DONE, args![again, &id])? == 0 {
            return Ok(());
        }
        run(&args, tx, &Given::new(now, random, &registry))
    };
    context.store().write(entry.name, work).await
}

/// Does work whose turn has come.
async fn repeat(context: &Context, every: &Every) {
    let (name, now) = (every.name, context.now());
    let read = move |snapshot: &mut Snapshot<'_>| snapshot.one(&NEXT, args![name], |row| row.get::<Time>(0));
    let next: Result<Option<Time>, store::Error> = context.store().point(read).await;
    let Ok(next) = next else { return };
    let Some(next) = next else {
        let plan = move |tx: &mut Tx<'_>| tx.exec(&SCHEDULE, args![name, now]).map(drop);
        // It is planned at the next look otherwise.
        let _ = context.store().write::<_, store::Error, _>("live.plan_turn", plan).await;
        return;
    };
    if next > now || !take_turn(context, name, next, now + every.interval).await {
        return;
    }
    if let Err(problem) = (every.work)(context.clone()).await {
        tracing::warn!(work = name, code = %problem.code, "repeated work failed and is repeated earlier");
        let (planned, earlier) = (now + every.interval, context.now() + RETRY_MIN * 10);
        if earlier < planned {
            take_turn(context, name, planned, earlier).await;
        }
    }
}

/// Moves a turn from one time to another. False if another instance has done so.
async fn take_turn(context: &Context, name: &'static str, from: Time, to: Time) -> bool {
    let turn = move |tx: &mut Tx<'_>| tx.exec(&TURN, args![name, from, to]);
    matches!(context.store().write::<_, store::Error, _>("live.take_turn", turn).await, Ok(1))
}
