//! The check of declared keys in debug builds (SQLite only): it refuses what was found or changed without a key, and nothing
//! that found no row.

use crate::app::{app, session_key};
use crate::client::Client;
use live::{Anyone, App, Given, Mutation, Problem, Query, Running, Subject};
use serde::Deserialize;
use serde_json::{Value, json};
use store::testing::{Kind, TestPlace, kind};
use store::{Key, Snapshot, Sql, Tx, args, sql};
use utoipa::ToSchema;

static SHARED: Sql =
    sql("SELECT c.id FROM sessions s JOIN counters c ON c.owner = s.role WHERE s.id = ?1 ORDER BY c.id");
static ROLE: Sql = sql("SELECT role FROM sessions WHERE id = ?1");
static OF_OWNER: Sql = sql("SELECT id FROM counters WHERE owner = ?1 ORDER BY id");
static RESET: Sql = sql("UPDATE counters SET value = 0 WHERE owner = ?1");
static DELETE_OF_OWNER: Sql = sql("DELETE FROM counters WHERE owner = ?1");

fn counter_key(id: i64) -> Key {
    Key::row("counters", "id", &id.to_string())
}

/// The counters of the owner that the caller's session names.
#[derive(Deserialize, ToSchema)]
struct SharedCounters {
    /// Declares no key of the counters that it finds.
    #[serde(default)]
    is_forgetful: bool,
    /// Declares no key of the session.
    #[serde(default)]
    is_keyless: bool,
    /// Reads in two statements, and not in a join.
    #[serde(default)]
    in_steps: bool,
}

impl Query for SharedCounters {
    const NAME: &'static str = "shared_counters";
    type Claims = Subject;
    type Value = Vec<i64>;

    fn run(&self, snapshot: &mut Snapshot<'_>, Subject(user): &Subject) -> Result<Vec<i64>, Problem> {
        if !self.is_keyless {
            snapshot.depends(|| [session_key(user)]);
        }
        let found: Vec<i64> = match self.in_steps {
            false => snapshot.all(&SHARED, args![user], |row| row.get(0))?,
            true => {
                let role = snapshot.one(&ROLE, args![user], |row| row.get::<String>(0))?;
                snapshot.all(&OF_OWNER, args![role.as_deref().unwrap_or_default()], |row| row.get(0))?
            }
        };
        if !self.is_forgetful {
            snapshot.depends(|| found.iter().map(|id| counter_key(*id)));
        }
        Ok(found)
    }
}

/// Changes all counters of an owner and declares nothing.
#[derive(Deserialize, ToSchema)]
struct Silent {
    owner: String,
    is_deletion: bool,
}

impl Mutation for Silent {
    const NAME: &'static str = "silent";
    type Claims = Anyone;
    type Value = u64;

    fn run(&self, tx: &mut Tx<'_>, _: &Anyone, _: &Given) -> Result<u64, Problem> {
        let statement = if self.is_deletion { &DELETE_OF_OWNER } else { &RESET };
        Ok(tx.exec(statement, args![&self.owner])?)
    }
}

/// The same with a statement that is to change one row.
#[derive(Deserialize, ToSchema)]
struct SilentOne {
    owner: String,
}

impl Mutation for SilentOne {
    const NAME: &'static str = "silent_one";
    const BATCHED: bool = true;
    type Claims = Anyone;
    type Value = bool;

    fn run(&self, tx: &mut Tx<'_>, _: &Anyone, _: &Given) -> Result<bool, Problem> {
        Ok(tx.exec_one(&RESET, args![&self.owner])?)
    }
}

fn checked_app() -> App {
    app().query::<SharedCounters>().mutation::<Silent>().mutation::<SilentOne>()
}

/// Only SQLite tells which tables a statement uses.
async fn start() -> Option<(Running, TestPlace, Client<'static>)> {
    if kind() != Kind::Sqlite {
        return None;
    }
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let settings = live::Settings { check: true, ..settings };
    let running = live::serve(checked_app(), settings).await.expect("the app is served");
    let ada = Client::new(running.address, "ada");
    Some((running, database, ada))
}

/// What `/rpc` and a live query answer: a value, or the text of a problem. Both must agree.
fn both(ada: &Client<'_>, args: &Value) -> Result<Value, String> {
    let called = ada.call("shared_counters", args.clone());
    let called = match called.status {
        200 => Ok(called.json()["value"].clone()),
        status => Err(format!("{status} {}", called.json()["detail"].as_str().expect("a detail"))),
    };
    let mut events = ada.live(json!([{ "key": "a", "query": "shared_counters", "args": args }]));
    events.expect("hello");
    let first = events.next().expect("an event");
    let live = match &*first.name {
        "value" => Ok(first.data["value"].clone()),
        _ => {
            let problem = &first.data["problem"];
            Err(format!("{} {}", problem["status"], problem["detail"].as_str().expect("a detail")))
        }
    };
    assert_eq!(called, live, "RPC and live query answer {args} differently");
    called
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_finds_nothing_needs_no_key_of_what_it_did_not_find() {
    let Some((running, _database, ada)) = start().await else { return };
    for args in [json!({}), json!({ "in_steps": true }), json!({ "is_forgetful": true })] {
        assert_eq!(both(&ada, &args), Ok(json!([])), "{args}");
    }
    let keyless = both(&ada, &json!({ "is_keyless": true })).expect_err("nothing makes it run again");
    assert!(keyless.contains("500 shared_counters uses table"), "{keyless}");

    // The first row of a new user arrives by the key of the joined table.
    let mut events = ada.live(json!([{ "key": "a", "query": "shared_counters", "args": {} }]));
    events.expect("hello");
    assert_eq!(events.expect("value").data["value"], json!([]));
    ada.call("create", json!({ "id": 7 }));
    ada.call("set_session", json!({ "id": "ada", "role": "ada" }));
    assert_eq!(events.expect("value").data["value"], json!([7]));

    // What is found needs a key.
    for args in [json!({}), json!({ "in_steps": true })] {
        assert_eq!(both(&ada, &args), Ok(json!([7])), "{args}");
    }
    for in_steps in [false, true] {
        let args = json!({ "is_forgetful": true, "in_steps": in_steps });
        let forgotten = both(&ada, &args).expect_err("a key of counters is missing");
        assert!(forgotten.contains("500 shared_counters uses table counters"), "{forgotten}");
        let args = json!({ "is_keyless": true, "in_steps": in_steps });
        let forgotten = both(&ada, &args).expect_err("a key of sessions is missing");
        assert!(forgotten.contains("500 shared_counters uses table sessions"), "{forgotten}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutation_that_changes_no_row_needs_no_key() {
    let Some((running, _database, ada)) = start().await else { return };
    let calls = |owner: &str| {
        [
            ("silent", json!({ "owner": owner, "is_deletion": false })),
            ("silent_one", json!({ "owner": owner })),
            ("silent", json!({ "owner": owner, "is_deletion": true })),
        ]
    };
    for (name, args) in calls("nobody") {
        let answer = ada.call(name, args);
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
    }
    // One row, and two.
    for id in [1, 2] {
        ada.call("create", json!({ "id": id }));
        for (name, args) in calls("ada") {
            let refused = ada.call(name, args);
            let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
            assert_eq!(refused.status, 500, "{name} with {id} rows: {}", refused.body);
            assert!(detail.contains("uses table counters without declaring a key"), "{detail}");
        }
    }
    assert_eq!(ada.call("own_counters", json!({})).json()["value"].as_array().map(Vec::len), Some(2));
    running.stop().await;
}
