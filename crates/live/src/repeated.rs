//! Work that an app repeats ([`crate::App::every`]), on one instance at a time.
//!
//! A row says when the next turn begins. An instance takes the turn with a conditional update that has one winner, and keeps
//! it by moving the row's time forward while it works. If it dies, that time passes, and the turn begins again. Each work has a
//! loop of its own: a slow one, or one that panics, holds up nothing else.

use crate::Problem;
use crate::app::Context;
use crate::tasks::{RETRY_MIN, SKEW_MAX};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::{Snapshot, Sql, Time, Tx, args, sql};
use tokio::sync::watch;
use web::panics::caught_in;

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_schedules (
    name {key} NOT NULL PRIMARY KEY,
    next_ms BIGINT NOT NULL
) {table};";

static PLAN: Sql = store::insert_if_absent("live_schedules", &["name", "next_ms"]);
static NEXT: Sql = sql("SELECT next_ms FROM live_schedules WHERE name = ?1");
static MOVE: Sql = sql("UPDATE live_schedules SET next_ms = ?3 WHERE name = ?1 AND next_ms = ?2");

/// How long an instance that works may be silent before another one begins the turn again. It renews its lease when two
/// thirds of it are left, so that clocks may be [`SKEW_MAX`] apart.
const LEASE: Duration = Duration::from_secs(60);
/// The time between two looks at the row.
const LOOK: Duration = Duration::from_secs(1);
/// After an error the next turn begins so much later, unless it is due sooner.
const PAUSE_AFTER_ERROR: Duration = RETRY_MIN.saturating_mul(10);

/// The future of a turn.
pub(crate) type Working = Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>>;

/// Work that is repeated.
pub(crate) struct Every {
    pub(crate) name: &'static str,
    pub(crate) interval: Duration,
    pub(crate) work: Box<dyn Fn(Context) -> Working + Send + Sync>,
}

/// Repeats the work until the server stops.
pub(crate) async fn run(context: Context, every: Every, mut stopped: watch::Receiver<bool>) {
    loop {
        if let Some(began) = begin(&context, &every).await {
            work(&context, &every, began, &stopped).await;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK.min(every.interval)) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// A turn that this instance has.
struct Turn {
    began: Time,
    /// What the row says: another instance takes the turn then.
    until: Time,
    /// What it says instead if a renewal was done whose outcome is not known.
    perhaps: Option<Time>,
}

impl Turn {
    /// Whether another instance may begin the turn.
    fn may_be_lost(&self, context: &Context) -> bool {
        context.now() + SKEW_MAX >= self.until
    }

    /// Moves the turn to another time. False if another instance has it.
    async fn move_to(
        &mut self,
        context: &Context,
        name: &'static str,
        to: Time,
    ) -> Result<bool, store::Error> {
        let mut is_moved = move_turn(context, name, self.until, to).await;
        if let (Ok(false), Some(perhaps)) = (&is_moved, self.perhaps) {
            is_moved = move_turn(context, name, perhaps, to).await;
        }
        match &is_moved {
            Ok(_) => (self.until, self.perhaps) = (to, None),
            Err(store::Error::OutcomeUnknown) => self.perhaps = Some(to),
            Err(_) => {}
        }
        is_moved
    }
}

/// Takes the turn if it is due and no other instance has it.
async fn begin(context: &Context, every: &Every) -> Option<Turn> {
    let (name, now) = (every.name, context.now());
    let read = move |snapshot: &mut Snapshot<'_>| snapshot.one(&NEXT, args![name], |row| row.get::<Time>(0));
    let next: Result<Option<Time>, store::Error> = context.store().point(read).await;
    let Some(next) = next.ok()? else {
        let plan = move |tx: &mut Tx<'_>| tx.exec(&PLAN, args![name, now]).map(drop);
        // It is planned at the next look otherwise.
        let _ = context.store().write::<_, store::Error, _>("live.plan_turn", plan).await;
        return None;
    };
    // A time that is further away than any turn was written by a clock that was wrong, or for a longer interval.
    let latest = now + every.interval.max(LEASE) + SKEW_MAX;
    if next > now && next <= latest {
        return None;
    }
    let until = now + LEASE;
    let is_taken = move_turn(context, name, next, until).await;
    matches!(is_taken, Ok(true)).then_some(Turn { began: now, until, perhaps: None })
}

/// Does the work, and plans the next turn.
async fn work(context: &Context, every: &Every, mut turn: Turn, stopped: &watch::Receiver<bool>) {
    let name = every.name;
    let mut working = pin!(caught_in(async { (every.work)(context.clone()).await }));
    let mut pause = LEASE / 3;
    let worked = loop {
        tokio::select! {
            worked = &mut working => break worked.unwrap_or_else(|_| Err(Problem::internal())),
            () = tokio::time::sleep(pause) => {
                let until = context.now() + LEASE;
                match turn.move_to(context, name, until).await {
                    Ok(true) => pause = LEASE / 3,
                    Ok(false) => {
                        tracing::warn!(work = name, "another instance has begun this turn of repeated work; it ends here");
                        return;
                    }
                    // The database may answer before the time has passed.
                    Err(error) => {
                        tracing::warn!(%error, work = name, "a turn of repeated work cannot be kept");
                        pause = LOOK;
                        if turn.may_be_lost(context) {
                            tracing::warn!(work = name, "another instance may begin this turn of repeated work; it ends here");
                            return;
                        }
                    }
                }
            }
        }
    };
    let mut next = turn.began + every.interval;
    if let Err(problem) = worked {
        context.0.work.turns_failed.fetch_add(1, Relaxed);
        tracing::warn!(work = name, code = %problem.code, why = %problem.words(), "repeated work failed and is repeated earlier");
        next = next.min(context.now() + PAUSE_AFTER_ERROR);
    }
    // A full server must not have done work done again. A database that is not shared has no other instance to lose it to.
    while let Err(error) = turn.move_to(context, name, next).await {
        if context.store().is_shared() && turn.may_be_lost(context) || *stopped.borrow() {
            tracing::warn!(%error, work = name, "a turn of repeated work is done but could not be marked, so it is repeated");
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Moves a turn from one time to another. False if another instance has done so.
async fn move_turn(
    context: &Context,
    name: &'static str,
    from: Time,
    to: Time,
) -> Result<bool, store::Error> {
    let turn = move |tx: &mut Tx<'_>| tx.exec(&MOVE, args![name, from, to]);
    Ok(context.store().write::<_, store::Error, _>("live.take_turn", turn).await? == 1)
}
