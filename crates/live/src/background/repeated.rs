//! Work that is repeated ([`crate::App::every`], [`crate::App::on_log`]), on one instance at a time.
//!
//! A row says when the next turn begins. An instance takes the turn with a conditional update that has one winner, and keeps
//! it by moving the row's time forward while it works. If it dies, that time passes, and the turn begins again. Each work has a
//! loop of its own: a slow one, or one that panics, holds up nothing else.
//!
//! New entries of a log begin a turn early. All instances hear of them; one that finds the turn taken has a turn afterwards,
//! because the one that works may have read the log before, and stop. The next turn of such work is planned for later than any
//! lease lasts, so that the time tells both apart.

use super::tasks::{RETRY_MIN, SKEW_MAX};
use super::{Failure, Worker};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use store::{Log, Snapshot, Sql, Time, Tx, args, sql};
use tokio::sync::{Notify, watch};
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
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// The time between two looks at the row.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// The longest time between two looks where the interval is long.
const LOOK_MAX: Duration = Duration::from_secs(15);
/// Work that a log begins has a turn without new entries when its planned time is nearer than this, so that the time is always
/// further away than a lease.
const PLANNED_MIN: Duration = Duration::from_secs(15 * 60);
/// So far away is the planned time.
const PLANNED: Duration = Duration::from_secs(30 * 60);
/// How far the clocks of two instances may be apart before one takes the lease of another for something else.
pub(super) const CLOCKS_APART: Duration = Duration::from_secs(3 * 60);
/// After an error the next turn begins so much later, unless it is due sooner.
const PAUSE_AFTER_ERROR: Duration = RETRY_MIN.saturating_mul(10);

/// The future of a turn.
type Working = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Work that is repeated.
pub(crate) struct Every {
    pub(crate) name: &'static str,
    when: When,
    /// The time between two looks at the row.
    look: Duration,
    work: Box<dyn Fn() -> Working + Send + Sync>,
}

/// How often instances look whether a turn is due that is repeated after this time.
pub(crate) fn look_for(interval: Duration) -> Duration {
    (interval / 10).clamp(LOOK, LOOK_MAX)
}

impl Every {
    pub(crate) fn new<F, W, E>(name: &'static str, when: When, look: Duration, work: F) -> Every
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let work = Box::new(move || {
            let turn = work();
            Box::pin(async move { turn.await.map_err(Into::into) }) as Working
        });
        Every { name, when, look: look.min(when.interval()), work }
    }
}

/// When the next turn begins.
#[derive(Clone, Copy)]
pub(crate) enum When {
    /// So long after the last one began.
    Passed(Duration),
    /// When the log has new entries.
    Appended(&'static Log),
}

impl When {
    /// The time from the beginning of a turn to the one that is planned.
    fn interval(self) -> Duration {
        match self {
            When::Passed(interval) => interval,
            When::Appended(_) => PLANNED,
        }
    }

    /// Whether a turn may begin that is written down for this time.
    fn is_due(self, next: Time, now: Time, has_news: bool) -> bool {
        // A time that is further away than any turn was written by a clock that was wrong, or for a longer interval.
        let is_wrong = next > now + self.interval().max(LEASE) + CLOCKS_APART;
        let is_planned = next > now + LEASE + CLOCKS_APART;
        let is_early = match self {
            When::Passed(_) => false,
            When::Appended(_) => is_planned && (has_news || next <= now + PLANNED_MIN),
        };
        next <= now || is_wrong || is_early
    }
}

/// Repeats the work until the server stops.
pub(crate) async fn run(worker: Worker, every: Arc<Every>, mut stopped: watch::Receiver<bool>) {
    let woken = Arc::new(Notify::new());
    let (mut watching, mut has_news) = (None, matches!(every.when, When::Appended(_)));
    loop {
        if let When::Appended(log) = every.when
            && watching.is_none()
        {
            // From before the turn: what is appended while it works begins another one.
            let (seen, notify) = (worker.store().position(), woken.clone());
            watching = worker.store().watch(&[log.key()], seen, move || notify.notify_one());
            has_news = true;
        }
        match begin(&worker, &every, has_news).await {
            Ok(Begun::Turn(turn)) => {
                has_news = false;
                work(&worker, &every, turn, &stopped).await;
            }
            // The instance that works may stop before it looks again.
            Ok(Begun::ByAnother) | Err(_) => {}
            Ok(Begun::Not) => has_news = false,
        }
        tokio::select! {
            () = tokio::time::sleep(every.look) => {}
            () = woken.notified() => has_news = true,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// What came of the attempt to begin a turn.
enum Begun {
    Turn(Turn),
    /// Another instance has it.
    ByAnother,
    Not,
}

/// A turn that this instance has.
pub(super) struct Turn {
    began: Time,
    /// What the row says: another instance takes the turn then.
    pub(super) until: Time,
    /// What it says instead if a renewal was done whose outcome is not known.
    perhaps: Option<Time>,
}

impl Turn {
    /// What the row says now; nothing is written.
    pub(super) fn new(began: Time, next: Time) -> Turn {
        Turn { began, until: next, perhaps: None }
    }

    /// Whether another instance may begin the turn.
    pub(super) fn may_be_lost(&self, worker: &Worker) -> bool {
        worker.now() + SKEW_MAX >= self.until
    }

    /// Moves the turn to another time. False if another instance has it.
    pub(super) async fn move_to(
        &mut self,
        worker: &Worker,
        name: &'static str,
        to: Time,
    ) -> Result<bool, store::Error> {
        let mut is_moved = move_turn(worker, name, self.until, to).await;
        if let (Ok(false), Some(perhaps)) = (&is_moved, self.perhaps) {
            is_moved = move_turn(worker, name, perhaps, to).await;
        }
        match &is_moved {
            Ok(_) => (self.until, self.perhaps) = (to, None),
            Err(store::Error::OutcomeUnknown) => self.perhaps = Some(to),
            Err(_) => {}
        }
        is_moved
    }
}

/// When the next turn begins, or the lease on it ends. One that is not known begins now.
pub(super) async fn next_turn(worker: &Worker, name: &'static str) -> Result<Time, store::Error> {
    let read = move |snapshot: &mut Snapshot<'_>| snapshot.one(&NEXT, args![name], |row| row.get::<Time>(0));
    if let Some(next) = worker.store().point::<_, store::Error, _>(read).await? {
        return Ok(next);
    }
    let now = worker.now();
    let plan = move |tx: &mut Tx<'_>| tx.exec(&PLAN, args![name, now]).map(drop);
    worker.store().write::<_, store::Error, _>("live.plan_turn", plan).await?;
    Ok(now)
}

/// Takes the turn if it is due and no other instance has it.
async fn begin(worker: &Worker, every: &Every, has_news: bool) -> Result<Begun, store::Error> {
    let (name, now) = (every.name, worker.now());
    let next = next_turn(worker, name).await?;
    if !every.when.is_due(next, now, has_news) {
        let is_planned = next > now + LEASE + CLOCKS_APART;
        return Ok(if is_planned { Begun::Not } else { Begun::ByAnother });
    }
    let mut turn = Turn::new(now, next);
    Ok(match turn.move_to(worker, name, now + LEASE).await? {
        true => Begun::Turn(turn),
        false => Begun::ByAnother,
    })
}

/// Does the work if its turn is due, and no other instance has it.
pub(crate) async fn run_due(worker: &Worker, every: &Every) -> Option<Result<(), Failure>> {
    match begin(worker, every, true).await {
        // Nobody stops it.
        Ok(Begun::Turn(turn)) => work(worker, every, turn, &watch::channel(false).1).await,
        Ok(Begun::ByAnother | Begun::Not) => None,
        Err(error) => Some(Err(error.into())),
    }
}

/// Does the work, and plans the next turn. None if another instance may have begun it meanwhile.
async fn work(
    worker: &Worker,
    every: &Every,
    mut turn: Turn,
    stopped: &watch::Receiver<bool>,
) -> Option<Result<(), Failure>> {
    let name = every.name;
    let mut working = pin!(caught_in(async { (every.work)().await }));
    let mut pause = LEASE / 3;
    let worked = loop {
        tokio::select! {
            worked = &mut working => break worked.unwrap_or_else(|_| Err(Failure::new("panicked", "it panicked; the log says where"))),
            () = tokio::time::sleep(pause) => {
                let until = worker.now() + LEASE;
                match turn.move_to(worker, name, until).await {
                    Ok(true) => pause = LEASE / 3,
                    Ok(false) => {
                        tracing::warn!(work = name, "another instance has begun this turn of repeated work; it ends here");
                        return None;
                    }
                    // The database may answer before the time has passed.
                    Err(error) => {
                        tracing::warn!(%error, work = name, "a turn of repeated work cannot be kept");
                        pause = LOOK;
                        if turn.may_be_lost(worker) {
                            tracing::warn!(work = name, "another instance may begin this turn of repeated work; it ends here");
                            return None;
                        }
                    }
                }
            }
        }
    };
    let mut next = match every.when {
        When::Passed(interval) => turn.began + interval,
        // Further away than a lease, however long the turn took.
        When::Appended(_) => worker.now() + PLANNED,
    };
    match &worked {
        Ok(()) => worker.metrics().turn_succeeded(name, worker.now()),
        Err(failure) => {
            worker.metrics().turn_failed(name);
            tracing::warn!(
                work = name,
                code = failure.code(),
                why = failure.why(),
                "repeated work failed and is repeated earlier"
            );
            next = next.min(worker.now() + PAUSE_AFTER_ERROR);
        }
    }
    // A full server must not have done work done again. A database that is not shared has no other instance to lose it to.
    while let Err(error) = turn.move_to(worker, name, next).await {
        if worker.store().is_shared() && turn.may_be_lost(worker) || *stopped.borrow() {
            tracing::warn!(%error, work = name, "a turn of repeated work is done but could not be marked, so it is repeated");
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Some(worked)
}

/// Moves a turn from one time to another. False if another instance has done so.
async fn move_turn(worker: &Worker, name: &'static str, from: Time, to: Time) -> Result<bool, store::Error> {
    let turn = move |tx: &mut Tx<'_>| tx.exec(&MOVE, args![name, from, to]);
    Ok(worker.store().write::<_, store::Error, _>("live.take_turn", turn).await? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::log;

    static LOG: Log = log("log");

    #[test]
    fn news_begin_a_turn_that_is_planned_and_none_that_another_instance_has() {
        let now = Time::from_millis(1_800_000_000_000);
        let is_due = |seconds, has_news| {
            When::Appended(&LOG).is_due(now + Duration::from_secs(seconds), now, has_news)
        };
        assert!(is_due(0, false), "its time has come, or that of an instance that died");
        for leased in [1, 60, 239] {
            assert!(!is_due(leased, true), "{leased}");
        }
        for planned in [241, 900, 1799] {
            assert!(is_due(planned, true), "{planned}");
        }
        assert!(is_due(899, false) && !is_due(901, false), "before the time could be that of a lease");
        assert!(is_due(3600, false), "a clock was wrong");
    }
}
