//! Work for later and work that is repeated, when something goes wrong.

use crate::app::{app, now};
use crate::client::Client;
use live::{App, Context, Problem, Running, Settings};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use store::testing::{Kind, TestPlace, kind};
use store::{Sql, Time, Tx, args, sql};
use tokio::sync::{Notify, mpsc};

const HOUR: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(20);

/// A clock that the test moves.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn new() -> Clock {
        Clock(Arc::new(AtomicI64::new(now().millis())))
    }

    fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).expect("a short time"), SeqCst);
    }
}

async fn serve(database: &TestPlace, clock: &Clock, app: App) -> Running {
    let mut settings = Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let time = clock.0.clone();
    settings.clock = Arc::new(move || Time::from_millis(time.load(SeqCst)));
    live::serve(app, settings).await.expect("the app is served")
}

/// Says that a turn has begun.
type Began = mpsc::UnboundedReceiver<()>;

async fn turn(began: &mut Began) {
    tokio::time::timeout(PATIENCE, began.recv()).await.expect("a turn begins").expect("the server runs");
}

/// An app that repeats this work, which gets the number of the turn.
fn repeating<W>(work: impl Fn(usize) -> W + Send + Sync + 'static) -> (App, Began)
where
    W: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let ((say, began), turns) = (mpsc::unbounded_channel(), AtomicUsize::new(0));
    let turn = move |_: Context| {
        say.send(()).expect("the test waits");
        work(turns.fetch_add(1, SeqCst))
    };
    (app().every("work", HOUR, turn), began)
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_panics_is_repeated_and_holds_up_no_task() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let (app, mut began) = repeating(|number| async move {
        assert!(number > 0, "the first turn fails");
        Ok(())
    });
    let running = serve(&database, &clock, app).await;
    turn(&mut began).await;
    let ada = Client::new(running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let mut events = ada.live(json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]));
    ada.value("twice", json!({ "id": 1 }));
    clock.advance(Duration::from_secs(1));
    events.until(|value| value["value"] == 2);
    let has = |sample: &str| ada.send("GET", "/metrics", &[], "").body.contains(sample);
    while !has("\nlive_work_failed_total 1\n") {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(11));
    turn(&mut began).await;
    while !has("\nlive_tasks_total 1\n") {
        tokio::task::yield_now().await;
    }
    assert!(has("\nlive_tasks_failed_total 0\n"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_work_holds_up_no_other_work() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let (app, mut slow) = repeating(|_| std::future::pending());
    let (say, mut other) = mpsc::unbounded_channel();
    let app = app.every("other", HOUR, move |_| {
        say.send(()).expect("the test waits");
        async { Ok(()) }
    });
    let running = serve(&database, &clock, app).await;
    turn(&mut slow).await;
    turn(&mut other).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_stop_interrupts_begins_again() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let (app, mut began) = repeating(|_| std::future::pending());
    let running = serve(&database, &clock, app).await;
    turn(&mut began).await;
    running.stop().await;
    // The instance that died may be working still, so another one waits a minute, not the hour.
    clock.advance(Duration::from_secs(61));
    let (app, mut began) = repeating(|_| async { Ok(()) });
    let running = serve(&database, &clock, app).await;
    turn(&mut began).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_wrong_clock_planned_is_taken() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let ahead = Clock::new();
    ahead.advance(HOUR * 24 * 365 * 10);
    let (app, mut began) = repeating(|_| async { Ok(()) });
    let running = serve(&database, &ahead, app).await;
    turn(&mut began).await;
    running.stop().await;
    let (app, mut began) = repeating(|_| async { Ok(()) });
    let running = serve(&database, &clock, app).await;
    turn(&mut began).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_cannot_be_taken_are_tried_once_a_second() {
    static REFUSE: Sql =
        sql("CREATE TRIGGER refuse BEFORE UPDATE ON live_tasks BEGIN SELECT RAISE(ABORT, 'no'); END");
    if kind() != Kind::Sqlite {
        return;
    }
    let (database, clock) = (TestPlace::create(), Clock::new());
    let running = serve(&database, &clock, app()).await;
    let store = running.context.store();
    store
        .write::<_, store::Error, _>("test", |tx: &mut Tx<'_>| tx.exec(&REFUSE, &[]))
        .await
        .expect("a trigger");
    let ada = Client::new(running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    ada.value("twice", json!({ "id": 1 }));
    let (failed, began) = (store.stats().failed, Instant::now());
    clock.advance(Duration::from_secs(1));
    // Three pauses of a second, one of which the plan may cut short.
    while store.stats().failed < failed + 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(1900), "{:?}", began.elapsed());
    running.stop().await;
}

/// Says when the work that has it ends.
struct Ends(mpsc::UnboundedSender<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_cannot_be_kept_ends_when_another_instance_may_begin_it() {
    if kind() != Kind::Sqlite {
        return;
    }
    let (database, clock) = (TestPlace::create(), Clock::new());
    let (say, mut ended) = mpsc::unbounded_channel();
    let (app, mut began) = repeating(move |_| {
        let ends = Ends(say.clone());
        async move {
            let _ends = ends;
            std::future::pending().await
        }
    });
    let running = serve(&database, &clock, app).await;
    turn(&mut began).await;
    run(&running, &REFUSE).await;
    clock.advance(Duration::from_secs(50));
    // The turn is renewed 20 s after its begin.
    tokio::time::timeout(2 * PATIENCE, ended.recv()).await.expect("it ends");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_done_is_marked_as_done_when_the_database_accepts_that_again() {
    if kind() != Kind::Sqlite {
        return;
    }
    let (database, clock) = (TestPlace::create(), Clock::new());
    let finish = Arc::new(Notify::new());
    let (app, mut began) = repeating({
        let finish = finish.clone();
        move |_| {
            let finish = finish.clone();
            async move {
                finish.notified().await;
                Ok(())
            }
        }
    });
    let running = serve(&database, &clock, app).await;
    let store = running.context.store().clone();
    turn(&mut began).await;
    run(&running, &REFUSE).await;
    let failed = store.stats().failed;
    finish.notify_one();
    while store.stats().failed < failed + 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    run(&running, &ACCEPT).await;
    let done = Time::from_millis(clock.0.load(SeqCst)) + HOUR;
    let is_marked = async {
        loop {
            let next = store.read(|snapshot| snapshot.one(&NEXT, args![], |row| row.get::<Time>(0)));
            match next.await.map_err(|error: store::Error| error).expect("a row") {
                Some(next) if next >= done => return,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, is_marked).await.expect("it is marked, and not done again");
    running.stop().await;
}

static NEXT: Sql = sql("SELECT next_ms FROM live_schedules WHERE name = 'work'");
static REFUSE: Sql =
    sql("CREATE TRIGGER refuse BEFORE UPDATE ON live_schedules BEGIN SELECT RAISE(ABORT, 'no'); END");
static ACCEPT: Sql = sql("DROP TRIGGER refuse");

async fn run(running: &live::Running, statement: &'static Sql) {
    let command = move |tx: &mut Tx<'_>| tx.exec(statement, &[]);
    running.context.store().write::<_, store::Error, _>("test", command).await.expect("it is done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_failed_under_a_wrong_clock_does_not_wait_for_years() {
    let (database, clock, ahead) = (TestPlace::create(), Clock::new(), Clock::new());
    ahead.advance(HOUR * 24 * 365 * 10);
    let running = serve(&database, &ahead, app()).await;
    let ada = Client::new(running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    ada.value("twice", json!({ "id": 1 }));
    ada.value("delete", json!({ "id": 1 }));
    ahead.advance(Duration::from_secs(1));
    while !ada.send("GET", "/metrics", &[], "").body.contains("\nlive_tasks_failed_total 1\n") {
        tokio::task::yield_now().await;
    }
    running.stop().await;
    let running = serve(&database, &clock, app()).await;
    let ada = Client::new(running.address, "ada");
    let mut events = ada.live(json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]));
    ada.value("create", json!({ "id": 1 }));
    // It fails again where it comes before the counter, and is repeated a minute later.
    clock.advance(Duration::from_secs(61));
    events.until(|value| value["value"] == 1);
    running.stop().await;
}
