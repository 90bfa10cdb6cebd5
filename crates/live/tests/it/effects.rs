//! Effects outside of the database: at least once, in order, and a receiver that fails or hangs holds up no other.

use crate::work::Clock;
use live::background::{RunningWork, TABLES, WorkMetrics};
use live::{Attempt, Effect, Failure, Given, Lane, Problem, Work, queue};
use metrics::{Format, Page};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use store::testing::TestPlace;
use store::{Migration, Options, Sql, Store, Tx, args, insert_if_absent, sql};
use tokio::sync::{Notify, mpsc};

const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than the first pause, shorter than the second.
const A_PAUSE: Duration = Duration::from_millis(2_900);

static MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "notes",
    text: "CREATE TABLE notes (id {key} NOT NULL PRIMARY KEY, text {text} NOT NULL) {table};",
}];
static NOTE: Sql = insert_if_absent("notes", &["id", "text"]);
static NOTES: Sql = sql("SELECT text FROM notes ORDER BY id");
static WAITING: Sql = sql("SELECT id FROM live_effects ORDER BY number");

/// A message to a receiver, about something.
#[derive(Clone, Serialize, Deserialize)]
struct Message {
    to: String,
    about: Option<String>,
    text: String,
}

fn message(to: &str, about: Option<&str>, text: &str) -> Message {
    Message { to: to.to_owned(), about: about.map(str::to_owned), text: text.to_owned() }
}

/// What a receiver does with a message at the next attempt. Without one of these it takes it.
#[derive(Clone)]
enum Answer {
    Refuse,
    RefuseForEver,
    Hang,
    /// Takes it, and answers later.
    After(Arc<Notify>),
}

/// The receivers of all messages.
struct Receivers {
    arrived: mpsc::UnboundedSender<(String, String)>,
    answers: Mutex<HashMap<String, Vec<Answer>>>,
}

impl Receivers {
    fn answer(&self, text: &str, answers: &[Answer]) {
        self.answers.lock().insert(text.to_owned(), answers.to_vec());
    }

    fn next(&self, text: &str) -> Option<Answer> {
        let mut answers = self.answers.lock();
        answers.get_mut(text).filter(|answers| !answers.is_empty()).map(|answers| answers.remove(0))
    }
}

impl Effect for Message {
    const NAME: &'static str = "message";
    const LANE: Lane = Lane { places: 8, places_each: 2, deadline: Duration::from_millis(300) };
    type Outcome = &'static str;

    fn receiver(&self) -> String {
        self.to.clone()
    }

    fn subject(&self) -> Option<String> {
        self.about.clone()
    }

    async fn attempt(&self, attempt: &Attempt) -> Result<&'static str, Failure> {
        let receivers = attempt.state::<Receivers>().expect("the receivers");
        let _ = receivers.arrived.send((attempt.id.clone(), self.text.clone()));
        match receivers.next(&self.text) {
            None => Ok("taken"),
            Some(Answer::Refuse) => Err(Failure::new("refused", "not now")),
            Some(Answer::RefuseForEver) => Err(Failure::new("gone", "never")),
            Some(Answer::Hang) => std::future::pending().await,
            Some(Answer::After(go)) => {
                go.notified().await;
                Ok("taken")
            }
        }
    }

    fn done(&self, tx: &mut Tx<'_>, given: &Given, outcome: &&'static str) -> Result<(), Problem> {
        note(tx, given, &format!("{} {outcome}", self.text))
    }

    fn failed(
        &self,
        tx: &mut Tx<'_>,
        given: &Given,
        failure: &Failure,
        is_last: bool,
    ) -> Result<(), Problem> {
        note(tx, given, &format!("{} {} {is_last}", self.text, failure.code()))
    }

    fn pause(&self, attempts: u32, failure: &Failure) -> Option<Duration> {
        (failure.code() != "gone").then(|| Duration::from_secs(2) * attempts)
    }
}

fn note(tx: &mut Tx<'_>, given: &Given, text: &str) -> Result<(), Problem> {
    tx.exec(&NOTE, args![&given.id("note"), text])?;
    Ok(())
}

/// A database, and what messages arrive.
struct Post {
    place: TestPlace,
    store: Store,
    clock: Clock,
    receivers: Arc<Receivers>,
    arrived: mpsc::UnboundedReceiver<(String, String)>,
    metrics: WorkMetrics,
}

fn open(place: &TestPlace) -> Store {
    let mut options = Options::new(place.url(), MIGRATIONS);
    options.tables = &TABLES;
    options.writer.deadline = Duration::from_secs(30);
    Store::open(options).expect("opens")
}

impl Post {
    fn new() -> Post {
        let place = TestPlace::create();
        let (arrived, receives) = mpsc::unbounded_channel();
        let receivers = Arc::new(Receivers { arrived, answers: Mutex::default() });
        let (store, metrics) = (open(&place), WorkMetrics::default());
        Post { place, store, clock: Clock::new(), receivers, arrived: receives, metrics }
    }

    /// An instance on a store of its own, or on the same.
    fn instance(&self, store: &Store) -> RunningWork {
        let clock = self.clock.clone();
        let work = Work::new(store.clone(), move || clock.now()).measured_by(&self.metrics);
        work.with(self.receivers.clone()).effect::<Message>().start().expect("starts")
    }

    async fn queue(&self, messages: &[Message]) -> Vec<String> {
        static DRAWN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
        let (mut random, now) = ([0; 32], self.clock.now());
        random[0] = DRAWN.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let messages = messages.to_vec();
        let command = move |tx: &mut Tx<'_>| {
            let given = Given::at(now, random);
            messages.iter().map(|message| queue(tx, &given, message)).collect()
        };
        self.store.write::<_, Problem, _>("test.queue", command).await.expect("queues")
    }

    /// The id and the text of the next attempt.
    async fn arrives(&mut self) -> (String, String) {
        let next = tokio::time::timeout(PATIENCE, self.arrived.recv()).await.expect("one arrives");
        next.expect("the receivers are there")
    }

    async fn arrive(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(self.arrives().await.1);
        }
        texts
    }

    async fn read(&self, which: &'static Sql) -> Vec<String> {
        let rows = self.store.read(move |snapshot| snapshot.all(which, args![], |row| row.get(0)));
        rows.await.map_err(|error: store::Error| error).expect("reads")
    }

    /// Waits until so many outcomes are noted.
    async fn noted(&self, count: usize) -> Vec<String> {
        let noted = async {
            loop {
                let notes = self.read(&NOTES).await;
                if notes.len() >= count {
                    return notes;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, noted).await.expect("the outcomes are noted")
    }

    /// Waits until the page of metrics has this sample.
    async fn shows(&self, sample: &str) {
        let shown = async {
            loop {
                let mut page = Page::plain();
                self.metrics.show_effects(&mut page, "live_");
                if page.text(Format::for_client(None)).lines().any(|line| line == sample) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, shown).await.unwrap_or_else(|_| panic!("{sample}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_happens_when_its_command_has_committed_and_its_outcome_is_noted_with_its_end() {
    let mut post = Post::new();
    let undone = post.store.write::<(), Problem, _>("test.undone", |tx: &mut Tx<'_>| {
        queue(tx, &Given::at(live_now(), [9; 32]), &message("ada", None, "undone"))?;
        Err(Problem::conflict("changed", "It was changed."))
    });
    undone.await.expect_err("it is undone");
    let ids = post.queue(&[message("ada", None, "hello")]).await;
    // From before the start.
    let running = post.instance(&post.store);
    assert_eq!(post.arrives().await, (ids[0].clone(), "hello".to_owned()));
    assert_eq!(post.noted(1).await, ["hello taken"]);
    assert_eq!(post.read(&WAITING).await, [""; 0]);
    post.shows("live_effects_total{effect=\"message\"} 1").await;
    post.queue(&[message("ada", None, "again")]).await;
    assert_eq!(post.arrive(1).await, ["again"], "it is told, or looks each second");
    running.stop().await;
    post.store.close();
}

fn live_now() -> store::Time {
    Clock::new().now()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_refused_is_repeated_with_its_id_until_it_is_given_up() {
    let mut post = Post::new();
    post.receivers.answer("hello", &[Answer::Refuse, Answer::RefuseForEver]);
    let running = post.instance(&post.store);
    let ids = post.queue(&[message("ada", None, "hello")]).await;
    assert_eq!(post.arrives().await.0, ids[0]);
    assert_eq!(post.noted(1).await, ["hello refused false"]);
    assert_eq!(post.read(&WAITING).await, ids);
    // Before its next attempt.
    post.clock.advance(Duration::from_millis(900));
    post.shows("live_effects_behind_seconds{effect=\"message\"} 0.9").await;
    post.clock.advance(A_PAUSE);
    assert_eq!(post.arrives().await.0, ids[0], "the receiver can know it again");
    assert_eq!(post.noted(2).await[1], "hello gone true");
    assert_eq!(post.read(&WAITING).await, [""; 0]);
    for (name, count) in [("failed", 2), ("given_up", 1)] {
        post.shows(&format!("live_effects_{name}_total{{effect=\"message\"}} {count}")).await;
    }
    running.stop().await;
    post.store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_hangs_has_its_places_until_the_deadline_and_holds_up_no_other() {
    let mut post = Post::new();
    for text in ["slow 1", "slow 2"] {
        post.receivers.answer(text, &[Answer::Hang]);
    }
    let slow = ["slow 1", "slow 2", "slow 3"].map(|text| message("slow", None, text));
    post.queue(&slow).await;
    post.queue(&[message("quick", None, "quick")]).await;
    let running = post.instance(&post.store);
    let mut first = post.arrive(3).await;
    first.sort_unstable();
    assert_eq!(first, ["quick", "slow 1", "slow 2"], "the third has to wait for a place");
    assert_eq!(post.arrive(1).await, ["slow 3"], "after the deadline");
    let notes: BTreeSet<String> = post.noted(4).await.into_iter().collect();
    let expected = ["quick taken", "slow 1 deadline false", "slow 2 deadline false", "slow 3 taken"];
    assert_eq!(notes, expected.map(str::to_owned).into());
    post.clock.advance(A_PAUSE);
    let mut again = post.arrive(2).await;
    again.sort_unstable();
    assert_eq!(again, ["slow 1", "slow 2"]);
    running.stop().await;
    post.store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_of_a_subject_keep_their_order_also_when_one_fails() {
    let mut post = Post::new();
    post.receivers.answer("a1", &[Answer::Refuse]);
    // More than a look reads for one receiver, and in front of the other subject.
    let of_a: Vec<String> = (1..=30).map(|number| format!("a{number}")).collect();
    for text in &of_a {
        post.queue(&[message("ada", Some("a"), text)]).await;
    }
    post.queue(&[message("ada", Some("b"), "b1")]).await;
    let running = post.instance(&post.store);
    assert_eq!(post.arrive(2).await, ["a1", "b1"], "another subject does not wait");
    post.clock.advance(A_PAUSE);
    assert_eq!(post.arrive(30).await, of_a);
    post.noted(32).await;
    assert_eq!(post.read(&WAITING).await, [""; 0]);
    running.stop().await;
    post.store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_instance_did_before_it_died_is_done_again() {
    let mut post = Post::new();
    let go = Arc::new(Notify::new());
    post.receivers.answer("hello", &[Answer::After(go)]);
    let ids = post.queue(&[message("ada", None, "hello")]).await;
    let machine = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let _died = {
        let _on = machine.enter();
        post.instance(&post.store)
    };
    assert_eq!(post.arrives().await.0, ids[0], "the receiver has it");
    // Nothing is noted, and no lease is given back.
    machine.shutdown_background();
    post.clock.advance(Duration::from_secs(61));
    let running = post.instance(&post.store);
    assert_eq!(post.arrives().await.0, ids[0]);
    assert_eq!(post.noted(1).await, ["hello taken"]);
    running.stop().await;
    post.store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_share_a_reader_do_nothing_twice_and_one_follows_the_other_at_its_stop() {
    let mut post = Post::new();
    let stores = match post.place.is_shared() {
        true => [open(&post.place), open(&post.place)],
        // One process owns a file.
        false => [post.store.clone(), post.store.clone()],
    };
    let [first, second] = stores.each_ref().map(|store| post.instance(store));
    let texts: Vec<String> = (100..140).map(|number| number.to_string()).collect();
    for text in &texts {
        post.queue(&[message(&text[..2], None, text)]).await;
    }
    let mut arrived = post.arrive(40).await;
    arrived.sort_unstable();
    post.noted(40).await;
    if post.place.is_shared() {
        assert_eq!(arrived, texts);
        assert!(post.arrived.try_recv().is_err(), "none twice");
    }
    first.stop().await;
    post.queue(&[message("ada", None, "after the first")]).await;
    while post.arrives().await.1 != "after the first" {}
    second.stop().await;
    stores.iter().for_each(Store::close);
    post.store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_an_attempt_end_that_has_begun() {
    let mut post = Post::new();
    let go = Arc::new(Notify::new());
    post.receivers.answer("hello", &[Answer::After(go.clone())]);
    post.queue(&[message("ada", Some("a"), "hello"), message("ada", Some("a"), "next")]).await;
    let running = post.instance(&post.store);
    assert_eq!(post.arrive(1).await, ["hello"]);
    running.begin_stop();
    go.notify_one();
    running.stop().await;
    assert_eq!(post.read(&NOTES).await, ["hello taken"]);
    assert_eq!(post.read(&WAITING).await.len(), 1, "nothing was begun after the stop");
    let running = post.instance(&post.store);
    assert_eq!(post.arrive(1).await, ["next"], "the lease was given back");
    running.stop().await;
    post.store.close();
}
