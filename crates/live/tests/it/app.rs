//! The back end under test: counters with owners, behind tokens that are the user's name.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use live::extract::Path;
use live::{
    Anyone, App, Authenticate, Authenticating, Caller, Claims, Context, Given, Mutation, Problem, Query,
    Running, Settings, SignedIn, Subject, Task,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use store::testing::TestPlace;
use store::{Key, Migration, Snapshot, Sql, Time, Tx, args, sql};
use utoipa::ToSchema;

pub static MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "counters",
    text: "CREATE TABLE counters (id BIGINT NOT NULL PRIMARY KEY, owner {key} NOT NULL, value BIGINT NOT NULL) {table};
CREATE TABLE sessions (id {key} NOT NULL PRIMARY KEY, role {key} NOT NULL) {table};",
}];

static READ: Sql = sql("SELECT id, owner, value FROM counters WHERE id = ?1");
static OWN: Sql = sql("SELECT id, owner, value FROM counters WHERE owner = ?1 ORDER BY id");
static ADD: Sql = sql("UPDATE counters SET value = value + 1 WHERE id = ?1");
static CREATE: Sql = sql("INSERT INTO counters (id, owner, value) VALUES (?1, ?2, 0)");
static LOCK: Sql = store::lock("counters", "id");
static DELETE: Sql = sql("DELETE FROM counters WHERE id = ?1");
static SESSION: Sql = sql("SELECT role FROM sessions WHERE id = ?1");
static SET_SESSION: Sql = store::upsert("sessions", &["id"], &["role"]);
static END_SESSION: Sql = sql("DELETE FROM sessions WHERE id = ?1");

fn counter_key(id: i64) -> Key {
    Key::row("counters", "id", &id.to_string())
}

fn owner_key(owner: &str) -> Key {
    Key::row("counters", "owner", owner)
}

pub fn session_key(id: &str) -> Key {
    Key::row("sessions", "id", id)
}

#[derive(Serialize, ToSchema)]
pub struct Counter {
    id: i64,
    owner: String,
    value: i64,
}

fn counter(row: &store::Row<'_>) -> Result<Counter, store::Error> {
    Ok(Counter { id: row.get(0)?, owner: row.get(1)?, value: row.get(2)? })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetCounter {
    id: i64,
}

impl Query for GetCounter {
    const NAME: &'static str = "get_counter";
    const POINT: bool = true;
    type Claims = Anyone;
    type Value = Counter;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> Result<Counter, Problem> {
        snapshot.depends(|| [counter_key(self.id)]);
        snapshot.one(&READ, args![self.id], counter)?.ok_or_else(|| Problem::not_found("Counter"))
    }
}

#[derive(Deserialize, ToSchema)]
struct OwnCounters {}

impl Query for OwnCounters {
    const NAME: &'static str = "own_counters";
    const ROW_KEY: Option<&'static str> = Some("id");
    type Claims = Subject;
    type Value = Vec<Counter>;
    fn run(&self, snapshot: &mut Snapshot<'_>, user: &Subject) -> Result<Vec<Counter>, Problem> {
        snapshot.depends(|| [owner_key(&user.0)]);
        Ok(snapshot.all(&OWN, args![&user.0], counter)?)
    }
}

/// What only a teacher may read.
#[derive(Clone, Serialize)]
struct Teacher;

impl Claims for Teacher {
    fn of(caller: &Caller) -> Result<Teacher, Problem> {
        match caller.claims.get("role").and_then(|role| role.as_str()) {
            Some("teacher") => Ok(Teacher),
            _ => Err(Problem::forbidden("Only teachers may read this.")),
        }
    }
}

#[derive(Deserialize, ToSchema)]
struct Secret {
    id: i64,
}

impl Query for Secret {
    const NAME: &'static str = "secret";
    type Claims = Teacher;
    type Value = i64;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Teacher) -> Result<i64, Problem> {
        snapshot.depends(|| [counter_key(self.id)]);
        let found = snapshot.one(&READ, args![self.id], counter)?;
        Ok(found.map_or(-1, |counter| counter.value))
    }
}

/// The role of the caller, which is the answer; without one nobody may ask.
#[derive(Clone, Serialize)]
struct OwnRole(String);

impl Claims for OwnRole {
    fn of(caller: &Caller) -> Result<OwnRole, Problem> {
        let role = caller.claims.get("role").and_then(|role| role.as_str()).filter(|role| *role != "none");
        role.map(|role| OwnRole(role.to_owned())).ok_or_else(|| Problem::forbidden("You have no role."))
    }
}

/// Depends on a counter, and does not show it.
#[derive(Deserialize, ToSchema)]
struct RoleBeside {
    id: i64,
}

impl Query for RoleBeside {
    const NAME: &'static str = "role_beside";
    type Claims = OwnRole;
    type Value = String;
    fn run(&self, snapshot: &mut Snapshot<'_>, role: &OwnRole) -> Result<String, Problem> {
        snapshot.depends(|| [counter_key(self.id)]);
        Ok(role.0.clone())
    }
}

/// What only somebody with a role at the server may read, by the claim that its events change.
#[derive(Clone, Serialize)]
struct Staff;

impl Claims for Staff {
    fn of(caller: &Caller) -> Result<Staff, Problem> {
        match caller.claims.get("administers").and_then(|list| list.as_array()) {
            Some(list) if list.iter().any(|one| one["org"] == "acme") => Ok(Staff),
            _ => Err(Problem::forbidden("Only administrators may read this.")),
        }
    }
}

#[derive(Deserialize, ToSchema)]
struct StaffSecret {
    id: i64,
}

impl Query for StaffSecret {
    const NAME: &'static str = "staff_secret";
    type Claims = Staff;
    type Value = i64;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Staff) -> Result<i64, Problem> {
        Secret { id: self.id }.run(snapshot, &Teacher)
    }
}

/// A long answer.
#[derive(Deserialize, ToSchema)]
struct Letters {
    count: usize,
}

impl Query for Letters {
    const NAME: &'static str = "letters";
    type Claims = Anyone;
    type Value = String;
    fn run(&self, _: &mut Snapshot<'_>, _: &Anyone) -> Result<String, Problem> {
        Ok("x".repeat(self.count))
    }
}

/// A query with defects: it panics for negative ids, and fails for others.
#[derive(Deserialize, ToSchema)]
struct Fragile {
    id: i64,
}

impl Query for Fragile {
    const NAME: &'static str = "fragile";
    type Claims = Anyone;
    type Value = i64;
    fn validate(&self) -> Result<(), Problem> {
        assert!(self.id >= 0, "a defect of the app");
        Ok(())
    }
    fn run(&self, _: &mut Snapshot<'_>, _: &Anyone) -> Result<i64, Problem> {
        Err(Problem::internal())
    }
}

#[derive(Deserialize, ToSchema)]
struct Create {
    id: i64,
}

impl Mutation for Create {
    const NAME: &'static str = "create";
    type Claims = Subject;
    type Value = ();
    fn run(&self, tx: &mut Tx<'_>, user: &Subject, _: &Given) -> Result<(), Problem> {
        tx.exec(&CREATE, args![self.id, &user.0])?;
        tx.changed(counter_key(self.id));
        tx.changed(owner_key(&user.0));
        Ok(())
    }
}

#[derive(Serialize, Deserialize, ToSchema)]
pub struct Increment {
    pub id: i64,
}

impl Increment {
    pub fn add(&self, tx: &mut Tx<'_>) -> Result<i64, Problem> {
        let found = tx.one(&READ, args![self.id], counter)?;
        let found = found.ok_or_else(|| Problem::not_found("Counter"))?;
        tx.exec(&ADD, args![self.id])?;
        tx.changed(counter_key(self.id));
        tx.changed(owner_key(&found.owner));
        Ok(found.value + 1)
    }
}

impl Mutation for Increment {
    const NAME: &'static str = "increment";
    const BATCHED: bool = true;
    type Claims = SignedIn;
    type Value = i64;
    fn validate(&self) -> Result<(), Problem> {
        if self.id < 0 { Err(Problem::invalid("id", "`id` must not be negative.")) } else { Ok(()) }
    }
    fn run(&self, tx: &mut Tx<'_>, _: &SignedIn, _: &Given) -> Result<i64, Problem> {
        self.add(tx)
    }
}

impl Task for Increment {
    const NAME: &'static str = "increment_later";
    fn run(&self, tx: &mut Tx<'_>, _: &Given) -> Result<(), Problem> {
        self.add(tx).map(drop)
    }
}

/// The hour, which no row has.
#[derive(Deserialize, ToSchema)]
struct Hour {}

impl Query for Hour {
    const NAME: &'static str = "hour";
    const REFRESH: Option<Duration> = Some(Duration::from_secs(1));
    type Claims = Anyone;
    type Value = i64;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> Result<i64, Problem> {
        Ok(live::now(snapshot).millis() / 3_600_000)
    }
}

/// Adds one now, and one in a moment.
#[derive(Deserialize, ToSchema)]
struct Twice {
    id: i64,
}

impl Mutation for Twice {
    const NAME: &'static str = "twice";
    type Claims = SignedIn;
    type Value = i64;
    fn run(&self, tx: &mut Tx<'_>, _: &SignedIn, given: &Given) -> Result<i64, Problem> {
        live::later(tx, given, given.now + Duration::from_millis(1), &Increment { id: self.id })?;
        Increment { id: self.id }.add(tx)
    }
}

/// Takes a counter that nobody has incremented: the first wins.
#[derive(Deserialize, ToSchema)]
struct Take {
    id: i64,
}

impl Mutation for Take {
    const NAME: &'static str = "take";
    type Claims = SignedIn;
    type Value = i64;
    fn run(&self, tx: &mut Tx<'_>, _: &SignedIn, _: &Given) -> Result<i64, Problem> {
        tx.lock(&LOCK, self.id.into())?;
        match tx.one(&READ, args![self.id], counter)? {
            Some(found) if found.value == 0 => Increment { id: self.id }.add(tx),
            _ => Err(Problem::conflict("taken", "Somebody was faster.")),
        }
    }
}

#[derive(Deserialize, ToSchema)]
struct Delete {
    id: i64,
}

impl Mutation for Delete {
    const NAME: &'static str = "delete";
    type Claims = Subject;
    type Value = ();
    fn run(&self, tx: &mut Tx<'_>, user: &Subject, _: &Given) -> Result<(), Problem> {
        tx.exec(&DELETE, args![self.id])?;
        tx.changed(counter_key(self.id));
        tx.changed(owner_key(&user.0));
        Ok(())
    }
}

/// Sets a session's role; no role ends it.
#[derive(Deserialize, ToSchema)]
struct SetSession {
    id: String,
    role: Option<String>,
}

impl Mutation for SetSession {
    const NAME: &'static str = "set_session";
    type Claims = Anyone;
    type Value = ();
    fn run(&self, tx: &mut Tx<'_>, _: &Anyone, _: &Given) -> Result<(), Problem> {
        match &self.role {
            Some(role) => tx.exec(&SET_SESSION, args![&self.id, role])?,
            None => tx.exec(&END_SESSION, args![&self.id])?,
        };
        tx.changed(session_key(&self.id));
        Ok(())
    }
}

/// A token `name` has no session; `name@session` ends with its session and has its role; `name@maybe…` has the role of its
/// session while there is one; `name!300` lives for 300 ms. A session with the role `broken` cannot be read. `name#id` ends
/// with the session of its own id. `key:session` is a key whose owner is the role of its session. A session with the role `until N`
/// ends at that time, in milliseconds.
struct Names;

impl Authenticate for Names {
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a> {
        Box::pin(async move {
            if token == "bad" {
                return Err(Problem::unauthenticated());
            }
            if let Some(key) = token.strip_prefix("key:") {
                return Ok(Caller::anonymous().with_claim("key", key));
            }
            let (token, id) = token.split_once('#').map_or((token, None), |(token, id)| (token, Some(id)));
            let (token, life) =
                token.split_once('!').map_or((token, None), |(token, ms)| (token, ms.parse().ok()));
            let (name, session) = token.split_once('@').unwrap_or((token, ""));
            let expires = life.map(|ms| now() + Duration::from_millis(ms));
            let caller = Caller { subject: Some(name.to_owned()), expires, ..Caller::default() };
            let caller = caller.with_claim("session", session);
            Ok(id.map_or(caller.clone(), |id| caller.with_claim("jti", id)))
        })
    }

    fn has_standing(&self) -> bool {
        true
    }

    fn standing(&self, snapshot: &mut Snapshot<'_>, caller: &Caller) -> Result<Option<Caller>, Problem> {
        if let Some(key) = caller.claims.get("key").and_then(|key| key.as_str()) {
            snapshot.depends(|| [session_key(key)]);
            let owner: Option<String> = snapshot.one(&SESSION, args![key], |row| row.get(0))?;
            return Ok(owner.map(|owner| Caller { subject: Some(owner), ..caller.clone() }));
        }
        let session = caller.claims.get("session").and_then(|session| session.as_str()).unwrap_or_default();
        if let Some(id) = caller.claims.get("jti").and_then(|id| id.as_str()) {
            snapshot.depends(|| [session_key(id)]);
            let role: Option<String> = snapshot.one(&SESSION, args![id], |row| row.get(0))?;
            return Ok(role.map(|_| caller.clone()));
        }
        // All callers without a token share this session and its role.
        let session = if caller.subject.is_none() { "maybe-guest" } else { session };
        if session.is_empty() {
            return Ok(Some(caller.clone()));
        }
        snapshot.depends(|| [session_key(session)]);
        let role: Option<String> = snapshot.one(&SESSION, args![session], |row| row.get(0))?;
        if role.as_deref() == Some("broken") {
            return Err(Problem::internal());
        }
        if role.is_none() && session.starts_with("maybe") {
            return Ok(Some(caller.clone()));
        }
        if let Some(until) = role.as_deref().and_then(|role| role.strip_prefix("until ")?.parse().ok()) {
            return Ok(Some(Caller { expires: Some(Time::from_millis(until)), ..caller.clone() }));
        }
        Ok(role.map(|role| caller.clone().with_claim("role", role)))
    }
}

async fn panics() -> &'static str {
    panic!("a defect of the app")
}

/// Changes a session without saying so, as one does that was changed a moment ago: caches still have it as it was.
async fn unseen(
    State(context): State<Context>,
    Path((session, role)): Path<(String, String)>,
) -> Result<(), Problem> {
    let change = move |tx: &mut Tx<'_>| match &*role {
        "none" => tx.exec(&END_SESSION, args![&session]).map(drop),
        role => tx.exec(&SET_SESSION, args![&session, role]).map(drop),
    };
    context.store().write("session.unseen", change).await.map_err(|error: store::Error| error.into())
}

pub fn app() -> App {
    App::new()
        .query::<GetCounter>()
        .query::<Hour>()
        .query::<OwnCounters>()
        .query::<Secret>()
        .query::<RoleBeside>()
        .query::<StaffSecret>()
        .query::<Fragile>()
        .query::<Letters>()
        .mutation::<Create>()
        .mutation::<Increment>()
        .mutation::<Twice>()
        .mutation::<Take>()
        .mutation::<Delete>()
        .mutation::<SetSession>()
        .task::<Increment>()
        .routes(Router::new().route("/panics", get(panics)).route("/unseen/{session}/{role}", post(unseen)))
        .migrations(MIGRATIONS)
        .watched(&["counters", "sessions"])
        .authenticate(Arc::new(Names))
}

/// A running back end on a throw-away database.
pub struct Server {
    pub running: Running,
    pub database: TestPlace,
}

pub async fn start() -> Server {
    let database = TestPlace::create();
    let running = serve(&database).await;
    Server { running, database }
}

/// One more instance on the same database.
pub async fn serve(database: &TestPlace) -> Running {
    serve_with(database.url(), |settings| settings.check = true).await
}

/// An instance with settings that the test changes.
pub async fn serve_with(database: String, change: impl FnOnce(&mut Settings)) -> Running {
    let mut settings = Settings::new(database, ([127, 0, 0, 1], 0).into());
    settings.clock = Arc::new(now);
    change(&mut settings);
    live::serve(app(), settings).await.expect("the app is served")
}

#[expect(clippy::disallowed_methods, reason = "tokens and tasks go by real time here")]
pub fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
