//! Work for later and work that is repeated, when something goes wrong.

use crate::app::{Increment, app, now};
use crate::client::Client;
use live::{App, Context, Problem, Running, Settings};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use store::testing::{Kind, TestPlace, kind};
use store::{Error, Log, Sql, Time, Tx, args, log, sql};
use tokio::sync::{Notify, mpsc};

const HOUR: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(20);

/// A clock that the test moves.
#[derive(Clone)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    pub fn new() -> Clock {
        Clock(Arc::new(AtomicI64::new(now().millis())))
    }

    pub fn now(&self) -> Time {
        Time::from_millis(self.0.load(SeqCst))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).expect("a short time"), SeqCst);
    }
}

async fn serve(database: &TestPlace, clock: &Clock, app: App) -> Running {
    let mut settings = Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let clock = clock.clone();
    settings.clock = Arc::new(move || clock.now());
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
async fn an_answer_that_depends_on_the_time_changes_with_it() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let running = serve(&database, &clock, app()).await;
    let ada = Client::new(running.address, "ada");
    let hour = ada.value("hour", json!({})).as_i64().expect("an hour");
    let mut events = ada.live(json!([{ "key": "a", "query": "hour", "args": {} }]));
    events.expect("hello");
    assert_eq!(events.expect("value").value(), &json!(hour));
    for later in [1, 2] {
        clock.advance(HOUR);
        assert_eq!(events.expect("value").value(), &json!(hour + later), "nothing was written");
    }
    assert_eq!(ada.value("hour", json!({})), hour + 2);
    drop(events);
    // A poll that comes after a pause gets an answer of its own time.
    let poll = || {
        let body = json!({ "subscriptions": [{ "key": "a", "query": "hour", "args": {} }] }).to_string();
        ada.send("POST", "/live/poll", &[], &body).body
    };
    poll();
    clock.advance(Duration::from_secs(3600));
    let polled = Instant::now();
    while polled.elapsed() < Duration::from_millis(1_100) {
        ada.value("hour", json!({}));
    }
    let shown = poll();
    assert!(shown.contains(&format!("\"value\":{}", hour + 3)), "{shown}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_cancelled_before_its_time_does_not_run() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let running = serve(&database, &clock, app()).await;
    let store = running.context.store();
    let ada = Client::new(running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let plan = || {
        let given = running.context.given();
        store.write::<_, Problem, _>("test.plan", move |tx: &mut Tx<'_>| {
            live::later(tx, &given, given.now + HOUR, &Increment { id: 1 })
        })
    };
    let cancel = |planned: &str| {
        let planned = planned.to_owned();
        store.write::<_, Problem, _>("test.cancel", move |tx: &mut Tx<'_>| {
            live::cancel::<Increment>(tx, &planned)
        })
    };
    let (first, second) = (plan().await.expect("plans"), plan().await.expect("plans"));
    assert!(first.len() <= 64, "{first}");
    assert!(cancel(&first).await.expect("cancels"));
    for not_planned in [&*first, "", "7", "x.y"] {
        assert!(!cancel(not_planned).await.expect("nothing to cancel"), "{not_planned}");
    }
    clock.advance(HOUR + Duration::from_secs(1));
    let has = |sample: &str| ada.send("GET", "/metrics", &[], "").body.contains(sample);
    while !has("\nlive_tasks_total 1\n") {
        tokio::task::yield_now().await;
    }
    assert_eq!(ada.value("get_counter", json!({ "id": 1 }))["value"], 1, "the other one has run, alone");
    assert!(!cancel(&second).await.expect("it is done"));
    running.stop().await;
}

static MAILS: Log = log("mails");

async fn append(running: &Running) {
    let now = running.context.now();
    let append = move |tx: &mut Tx<'_>| tx.append(&MAILS, now, "a mail");
    running.context.store().write::<_, Error, _>("test.append", append).await.expect("appends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_entry_of_a_log_begins_a_turn_at_once_also_at_another_instance() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let (go, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let ((say, mut began), opened) = (mpsc::unbounded_channel(), gate.clone());
    let reader = |who: &'static str| {
        let (say, opened, go) = (say.clone(), opened.clone(), go.clone());
        app().on_log(&MAILS, "send", move |context: Context| {
            let (say, opened, go) = (say.clone(), opened.clone(), go.clone());
            async move {
                say.send(who).expect("the test waits");
                if who == "slow" {
                    opened.notified().await;
                }
                let page = context.store().read(|snapshot| snapshot.log_page(&MAILS, "sender", 10)).await;
                let page = page.map_err(|error: Error| Problem::from(error))?;
                let done = move |tx: &mut Tx<'_>| tx.keep_place(&MAILS, "sender", &page).map(drop);
                context.store().write::<_, Error, _>("test.done", done).await?;
                go.notify_one();
                Ok(())
            }
        })
    };
    let next = async |began: &mut mpsc::UnboundedReceiver<&'static str>| {
        tokio::time::timeout(PATIENCE, began.recv()).await.expect("a turn begins").expect("the server runs")
    };
    let slow = serve(&database, &clock, reader("slow")).await;
    assert_eq!(next(&mut began).await, "slow", "the first turn");
    // It may have read the log already.
    append(&slow).await;
    gate.notify_one();
    assert_eq!(next(&mut began).await, "slow", "what came while it worked");
    gate.notify_one();
    go.notified().await;
    append(&slow).await;
    assert_eq!(next(&mut began).await, "slow", "no time has passed");
    gate.notify_one();
    if kind() != Kind::Sqlite {
        // Both hear of it, and one of them has the turn.
        let other = serve(&database, &clock, reader("quick")).await;
        slow.stop().await;
        clock.advance(Duration::from_secs(61));
        append(&other).await;
        assert_eq!(next(&mut began).await, "quick");
        other.stop().await;
        return;
    }
    slow.stop().await;
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
