//! A whole installation moves to another database.

use crate::support::{Admin, text};
use identity::events;
use live::background::{Attempt, Effect, Failure, Work};
use live::{Given, Problem};
use serde_json::json;
use server::Store;
use server::database_move::{Move, MoveError, Moved, MovedTable, Progress, Step};
use server::testing::TestServer;
use server::{Clock as _, SystemClock};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::testing::TestPlace;
use store::{Snapshot, Tx};
use tokio::sync::mpsc;

fn open(path: &Path) -> Store {
    Store::open(server::store_options(format!("sqlite:{}", path.display()))).expect("opens")
}

async fn moved(
    from: &Store,
    to: &Store,
    rehearsal: bool,
) -> Result<(Vec<MovedTable>, Vec<Progress>), MoveError> {
    let mut told = Vec::new();
    let moved =
        Move::new(from, to, &SystemClock, |progress| told.push(progress.clone())).run(rehearsal).await?;
    assert!(!moved.before, "it was finished before");
    Ok((moved.tables, told))
}

/// The same, of a move that has ended.
async fn again(from: &Store, to: &Store, rehearsal: bool) -> Result<Moved, MoveError> {
    Move::new(from, to, &SystemClock, |progress| assert_ne!(progress.step, Step::Clearing))
        .run(rehearsal)
        .await
}

/// A server that was in use: people, plans, sessions, an audit trail.
async fn used() -> TestServer {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for number in 0..30 {
        let user = json!({ "email": format!("person-{number}@acme.test"), "name": "Ünïcode \u{1f9d1}" });
        admin.make("/api/organizations/acme/users", user).await;
    }
    server
}

fn rows(tables: &[MovedTable], name: &str) -> u64 {
    tables.iter().find(|table| table.name == name).map_or(0, |table| table.rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_arrives_once_and_the_server_goes_on_there() {
    let server = used().await;
    let folder = tempfile::tempdir().expect("a folder");
    let target = open(&folder.path().join("target.db"));

    let (rehearsed, told) = moved(&server.app.store, &target, true).await.expect("a rehearsal");
    assert!(told.iter().any(|progress| progress.step == Step::Clearing), "{told:?}");
    let (tables, told) = moved(&server.app.store, &target, false).await.expect("the move itself");
    assert!(rows(&tables, "users") >= 34 && rows(&tables, "audit") >= 30, "{tables:?}");
    assert!(rows(&tables, "sessions") > 0 && rows(&tables, "subscriptions") > 0, "{tables:?}");
    let total: u64 = tables.iter().map(|table| table.rows).sum();
    assert!(told.iter().all(|progress| progress.done <= progress.total && progress.total >= total));
    let equal = |(one, other): (&MovedTable, &MovedTable)| one.name == other.name && one.hash == other.hash;
    assert!(tables.iter().zip(&rehearsed).all(equal), "what was rehearsed is what is moved");

    server.stop().await;
    target.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_move_that_is_run_again_says_so_and_changes_nothing() {
    let server = used().await;
    let folder = tempfile::tempdir().expect("a folder");
    let target = open(&folder.path().join("target.db"));
    let (tables, _) = moved(&server.app.store, &target, false).await.expect("moves");
    for rehearsal in [false, true] {
        let found = again(&server.app.store, &target, rehearsal).await.expect("is finished");
        let equal =
            |(one, other): (&MovedTable, &MovedTable)| one.name == other.name && one.hash == other.hash;
        assert!(found.before && found.tables.iter().zip(&tables).all(equal), "{found:?}");
    }
    target.read(identity::database_move::check_finished).await.expect("may be served");

    // The server goes on with the source, so that the target lacks what it wrote.
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    admin.make("/api/organizations/acme/users", json!({ "email": "late@acme.test" })).await;
    let used = again(&server.app.store, &target, false).await.expect_err("they differ");
    assert!(matches!(&used, MoveError::FinishedAndUsed(_)), "{used}");
    assert!(used.to_string().starts_with("the move into this target is finished"), "{used}");
    server.stop().await;
    target.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_of_events_are_reset_after_a_move() {
    let server = used().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let found = owner.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let suspension = format!("/api/organizations/acme/users/{}/suspension", text(&found["items"][0], "id"));
    owner.change("PUT", &suspension, json!({})).await;
    let (history, now) = (server.app.store.log_history(), server.clock.now());
    let begin = move |snapshot: &mut Snapshot<'_>| events::begin(snapshot, history);
    let cursor = server.app.store.read(begin).await.expect("a cursor");
    let behind = |history| {
        let cursor = cursor.clone();
        move |snapshot: &mut Snapshot<'_>| events::deliver(snapshot, &cursor, history, 10, &[], 1 << 20, now)
    };
    let here = server.app.store.read(behind(history)).await.expect("reads");
    assert!(here.is_some(), "the cursor is good where it was given");

    let folder = tempfile::tempdir().expect("a folder");
    let target = open(&folder.path().join("target.db"));
    moved(&server.app.store, &target, false).await.expect("moves");
    let there = target.read(behind(target.log_history())).await.expect("reads");
    assert!(there.is_none(), "the stream answers `reset`, and the client reads the whole state");
    server.stop().await;
    target.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_broke_off_goes_on_and_nobody_is_served_before_its_end() {
    let server = used().await;
    let folder = tempfile::tempdir().expect("a folder");
    let target = open(&folder.path().join("target.db"));
    // What a move leaves behind that ended in the middle: the mark, some tables, a part of one.
    let source = server
        .app
        .store
        .read(identity::database_move::installation)
        .await
        .expect("reads")
        .expect("has a key");
    let mark = source.clone();
    target.write("mark", move |tx| identity::database_move::begin(tx, &mark)).await.expect("marks");
    let tables = store::transfer::tables(identity::schema::MIGRATIONS).expect("tables");
    for table in tables.into_iter().filter(|table| ["organizations", "users"].contains(&table.name.as_str()))
    {
        let wanted = table.clone();
        let half = server.app.store.read(move |snapshot| wanted.rows_after(snapshot, None, 3)).await;
        let half = half.map_err(|error: store::Error| error).expect("reads");
        let put = target.write("half", move |tx| table.insert(tx, &half)).await;
        put.map_err(|error: store::Error| error).expect("writes");
    }
    let key = identity::secrets::SecretKey::new(&[7; 32]);
    let checked = server::backups::check_store(&target, &key).await.expect("reads");
    assert!(checked.problems.iter().any(|problem| problem.contains("unfinished")), "{:?}", checked.problems);
    let unfinished = target.read(identity::database_move::check_finished).await.expect_err("not finished");
    assert!(unfinished.to_string().contains("sarsen move"), "{unfinished}");

    let (tables, _) = moved(&server.app.store, &target, false).await.expect("goes on");
    assert!(rows(&tables, "users") >= 34);
    target.read(identity::database_move::check_finished).await.expect("may be served");
    server.stop().await;
    target.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_with_other_data_and_a_source_without_any_are_refused() {
    let (server, other) = (used().await, used().await);
    let refused = moved(&server.app.store, &other.app.store, false).await.expect_err("not empty");
    assert!(matches!(refused, MoveError::NotEmpty(_)), "{refused}");
    let folder = tempfile::tempdir().expect("a folder");
    let awaited = open(&folder.path().join("awaited.db"));
    awaited.write("mark", |tx| identity::database_move::begin(tx, "somebody else")).await.expect("marks");
    let taken = moved(&server.app.store, &awaited, false).await.expect_err("another one comes");
    assert!(matches!(taken, MoveError::Taken), "{taken}");
    let folder = tempfile::tempdir().expect("a folder");
    let (empty, target) = (open(&folder.path().join("empty.db")), open(&folder.path().join("target.db")));
    let nothing = moved(&empty, &target, false).await.expect_err("nothing to move");
    assert!(matches!(nothing, MoveError::Source(_)), "{nothing}");
    server.stop().await;
    other.stop().await;
}

/// Letters of one subject, which arrive in the channel that the work has.
#[derive(serde::Serialize, serde::Deserialize)]
struct Letter(String);

impl Effect for Letter {
    const NAME: &'static str = "letter";
    type Outcome = ();

    fn subject(&self) -> Option<String> {
        Some("ada".to_owned())
    }

    async fn attempt(&self, attempt: &Attempt) -> Result<(), Failure> {
        let arrived = attempt.state::<mpsc::UnboundedSender<String>>().expect("the channel");
        arrived.send(self.0.clone()).map_err(|_| Failure::new("gone", "nobody waits"))
    }
}

async fn post(store: &Store, letter: &'static str) {
    let now = SystemClock.now();
    let queue = move |tx: &mut Tx<'_>| {
        live::queue(tx, &Given::at(now, [letter.as_bytes()[0]; 32]), &Letter(letter.to_owned()))
    };
    store.write::<_, Problem, _>("test.post", queue).await.expect("is queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_that_wait_are_moved_and_backed_up_and_happen_there_in_order() {
    let server = TestServer::start().await;
    let place = TestPlace::create();
    let target = Store::open(server::store_options(place.url())).expect("opens");
    for letter in ["a", "b", "c"] {
        post(&server.app.store, letter).await;
    }
    moved(&server.app.store, &target, false).await.expect("moves");
    // Behind those that came, whatever numbers they have.
    post(&target, "d").await;
    let folder = tempfile::tempdir().expect("a folder");
    let serving = match place.is_shared() {
        true => target.clone(),
        // What goes on is a backup of a file.
        false => {
            let copy = folder.path().join("copy.db");
            let key = identity::secrets::SecretKey::new(&[7; 32]);
            server::backups::copy(Path::new(place.url().trim_start_matches("sqlite:")), &copy, &key)
                .expect("is backed up");
            open(&copy)
        }
    };
    let (arrived, mut letters) = mpsc::unbounded_channel::<String>();
    let work = Work::new(serving.clone(), || SystemClock.now()).with(Arc::new(arrived)).effect::<Letter>();
    let running = work.start().expect("starts");
    for expected in ["a", "b", "c", "d"] {
        let letter =
            tokio::time::timeout(Duration::from_secs(20), letters.recv()).await.expect("one arrives");
        assert_eq!(letter.as_deref(), Some(expected));
    }
    running.stop().await;
    serving.close();
    target.close();
    server.stop().await;
}
