//! Work for later: [`later`] plans a task in a command's transaction, [`cancel`] cancels it.
//!
//! A task's changes and its deletion are one transaction, so it takes effect once. Instances take tasks by moving their
//! time forward: the conditional update has one winner. A task that fails is repeated with growing pauses.

use super::{Worker, drawn};
use crate::{Given, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Backoff, Key, Snapshot, Sql, Time, Tx, args, sql};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_tasks (
    due_ms BIGINT NOT NULL,
    id {key} NOT NULL,
    name {key} NOT NULL,
    args {text} NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (name, due_ms, id)
) {table};";

static PLAN: Sql =
    sql("INSERT INTO live_tasks (due_ms, id, name, args, attempts) VALUES (?1, ?2, ?3, ?4, 0)");
static NAMES: Sql = sql("SELECT name, COUNT(*) FROM live_tasks GROUP BY name");
static DUE: Sql = sql("SELECT due_ms, id, args, attempts FROM live_tasks
     WHERE due_ms <= ?1 AND name = ?2 ORDER BY due_ms, id LIMIT 16");
static MOVE: Sql =
    sql("UPDATE live_tasks SET due_ms = ?4, attempts = ?5 WHERE name = ?1 AND due_ms = ?2 AND id = ?3");
/// Of repeated tasks, which may have been moved by a clock that was wrong.
static TOO_LATE: Sql = sql(
    "SELECT due_ms, id, args, attempts FROM live_tasks WHERE due_ms > ?1 AND name = ?2 AND attempts > 0 LIMIT 16",
);
static DONE: Sql = sql("DELETE FROM live_tasks WHERE name = ?1 AND due_ms = ?2 AND id = ?3");
/// The rows of `DUE` and `TOO_LATE`.
const PAGE: usize = 16;
/// How long an instance has for a task before another one may take it.
const LEASE: Duration = Duration::from_secs(60);
/// The longest time between two looks for tasks of other instances.
const LOOK: Duration = Duration::from_secs(1);
pub(crate) const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(3600);
/// How far the clocks of two instances may be apart.
pub(crate) const SKEW_MAX: Duration = Duration::from_secs(30);

/// Work that a command can plan with [`later`].
pub trait Task: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name in the database; it must stay the same while tasks are planned.
    const NAME: &'static str;

    /// Does the work, in a transaction of its own. It may run more than once and has no effects but through `tx`. After
    /// an error it is repeated later.
    fn run(&self, tx: &mut Tx<'_>, given: &Given) -> Result<(), Problem>;
}

/// A registered task.
#[derive(Clone)]
pub(crate) struct TaskEntry {
    pub(crate) name: &'static str,
    pub(crate) run: RunTask,
}

type RunTask = Arc<dyn Fn(&str, &mut Tx<'_>, &Given) -> Result<(), Problem> + Send + Sync>;

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

/// Plans a task: it runs at `at` or soon after, once, on one instance, if this command commits. Returns what [`cancel`]
/// takes, at most 64 characters.
pub fn later<T: Task>(tx: &mut Tx<'_>, given: &Given, at: Time, task: &T) -> Result<String, Problem> {
    let args = serde_json::to_string(task).map_err(Problem::defect)?;
    let id = given.id("task");
    tx.exec(&PLAN, args![at, &id, T::NAME, &args])?;
    tx.changed(planned());
    Ok(format!("{}.{id}", at.millis()))
}

/// Cancels a task that [`later`] has planned, if this command commits. Returns whether it was still waiting for its time: one
/// that has begun, or is repeated after an error, goes on.
pub fn cancel<T: Task>(tx: &mut Tx<'_>, planned: &str) -> Result<bool, Problem> {
    let Some((due, id)) = planned.split_once('.') else { return Ok(false) };
    let Ok(due) = due.parse() else { return Ok(false) };
    Ok(tx.exec(&DONE, args![T::NAME, Time::from_millis(due), id])? > 0)
}

/// Of one row that is not there: a change of a whole table is held against everything that is watched.
fn planned() -> Key {
    Key::row("live_tasks", "planned", "any")
}

/// Runs tasks until the server stops.
pub(crate) async fn run(worker: Worker, mut stopped: watch::Receiver<bool>) {
    warn_of_unknown(&worker).await;
    if worker.tasks().is_empty() {
        return;
    }
    let planned_now = Arc::new(Notify::new());
    let (mut watching, mut corrected) = (None, None::<Instant>);
    while !*stopped.borrow() {
        if corrected.is_none_or(|at| at.elapsed() > RETRY_MAX) {
            // Soon again if there are more, or the database does not answer.
            corrected = correct(&worker).await.is_ok_and(|are_more| !are_more).then(Instant::now);
        }
        if watching.is_none() {
            let (seen, notify) = (worker.store().position(), planned_now.clone());
            watching = worker.store().watch(&[planned()], seen, move || notify.notify_one());
        }
        match run_due(&worker).await {
            Ok(true) => continue,
            Ok(false) => {}
            // The database refuses commands, or is away: asking at once would only keep it busy.
            Err(problem) => {
                tracing::warn!(code = %problem.code, why = %problem.words(), "planned tasks cannot be taken; trying again")
            }
        }
        tokio::select! {
            () = planned_now.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// Names the tasks that wait for a program that knows them. They stay: another instance, of another release, may.
async fn warn_of_unknown(worker: &Worker) {
    let read = |snapshot: &mut Snapshot<'_>| {
        snapshot.all(&NAMES, &[], |row| Ok((row.get::<String>(0)?, row.get::<i64>(1)?)))
    };
    let names: Result<Vec<_>, store::Error> = worker.store().read(read).await;
    for (task, waiting) in names.into_iter().flatten() {
        if !worker.tasks().contains_key(&*task) {
            tracing::warn!(
                task,
                waiting,
                "tasks are planned that this program does not know; add `App::task` for them"
            );
        }
    }
}

struct Planned {
    due: Time,
    id: String,
    args: String,
    attempts: i64,
}

/// Runs some of what is due. Returns whether there may be more.
async fn run_due(worker: &Worker) -> Result<bool, Problem> {
    let (mut due, mut late) = (Vec::new(), Duration::ZERO);
    // All are read before one begins: an error here must interrupt none.
    for entry in worker.tasks().values() {
        due.extend(read_due(worker, entry.name).await?.into_iter().map(|task| (entry.clone(), task)));
    }
    let (ran, mut running) = (!due.is_empty(), JoinSet::new());
    // Side by side: so their commits share the disk's time, and many of one name hold up others no longer than one of them takes.
    for (entry, task) in due {
        late = late.max(worker.now().since(task.due));
        let worker = worker.clone();
        running.spawn(async move { run_one(&worker, &entry, &task).await });
    }
    worker.metrics().tasks_are_late(u64::try_from(late.as_millis()).unwrap_or(u64::MAX));
    let mut outcome = Ok(ran);
    while let Some(ended) = running.join_next().await {
        let ended = ended.map_err(Problem::defect).and_then(|ended| ended);
        outcome = outcome.and(ended.map(|()| ran));
    }
    outcome
}

async fn read_due(worker: &Worker, name: &'static str) -> Result<Vec<Planned>, store::Error> {
    read_tasks(worker, &DUE, worker.now(), name).await
}

async fn read_tasks(
    worker: &Worker,
    which: &'static Sql,
    than: Time,
    name: &'static str,
) -> Result<Vec<Planned>, store::Error> {
    let read = move |snapshot: &mut Snapshot<'_>| {
        snapshot.all(which, args![than, name], |row| {
            Ok(Planned { due: row.get(0)?, id: row.get(1)?, args: row.get(2)?, attempts: row.get(3)? })
        })
    };
    worker.store().read(read).await
}

/// Makes tasks due that wait for longer than any pause: they failed under a clock that was ahead. Returns whether there may
/// be more.
async fn correct(worker: &Worker) -> Result<bool, store::Error> {
    let (now, mut are_more) = (worker.now(), false);
    for entry in worker.tasks().values() {
        let name = entry.name;
        let late = read_tasks(worker, &TOO_LATE, now + RETRY_MAX + SKEW_MAX, name).await?;
        are_more |= late.len() >= PAGE;
        for task in late {
            tracing::warn!(
                task = name,
                "a task that failed waits for a time that no pause lasts; it is tried now"
            );
            let correct =
                move |tx: &mut Tx<'_>| tx.exec(&MOVE, args![name, task.due, &task.id, now, task.attempts]);
            worker.store().write::<_, store::Error, _>("live.correct_task", correct).await?;
        }
    }
    Ok(are_more)
}

/// Takes a task and runs it. An error: it could not be taken.
async fn run_one(worker: &Worker, entry: &TaskEntry, task: &Planned) -> Result<(), Problem> {
    let now = worker.now();
    let attempts = task.attempts + 1;
    let failures = u32::try_from(attempts).unwrap_or(u32::MAX);
    let pause = Backoff::new(RETRY_MIN, RETRY_MAX).after(failures).take();
    let again = now + pause.max(LEASE);
    let (name, due, id) = (entry.name, task.due, task.id.clone());
    let claim = move |tx: &mut Tx<'_>| tx.exec(&MOVE, args![name, due, &id, again, attempts]);
    if worker.store().write::<_, store::Error, _>("live.take_task", claim).await? == 0 {
        return Ok(());
    }
    let (id, args, run, with, random) =
        (task.id.clone(), task.args.clone(), entry.run.clone(), worker.clone(), drawn());
    let work = move |tx: &mut Tx<'_>| {
        // The instance that deletes it does its work; another one may have taken it after the lease.
        if tx.exec(&DONE, args![name, again, &id])? == 0 {
            return Ok(());
        }
        tx.snapshot().set_time(now);
        run(&args, tx, &with.given(now, random))
    };
    match worker.store().write::<_, Problem, _>(entry.name, work).await {
        Ok(()) => worker.metrics().task_done(),
        Err(problem) => {
            tracing::warn!(task = entry.name, attempts, code = %problem.code, why = %problem.words(), "a planned task failed and is repeated later");
            worker.metrics().task_failed()
        }
    };
    Ok(())
}
