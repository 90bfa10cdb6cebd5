//! A small back end to record: notes of their owners, behind tokens that are the name of a user, and plain routes.

use axum::Router;
use axum::routing::get as reading;
use live::extract::{Answered, Json, Once, Path, Query as Parameters};
use live::{
    Anyone, App, Authenticate, Authenticating, Caller, Claims, Given, Mutation, Problem, Query, Running,
    Settings, SignedIn, Subject,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::Time;
use server::testing::TestPlace;
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Migration, Snapshot, Sql, Tx, args, sql};
use utoipa::ToSchema;

static MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "notes",
    text: "CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, owner {key} NOT NULL, text {key} NOT NULL) {table};",
}];
static READ: Sql = sql("SELECT id, owner, text FROM notes WHERE id = ?1");
static OWN: Sql = sql("SELECT id, owner, text FROM notes WHERE owner = ?1 ORDER BY id");
static WRITE: Sql = sql("INSERT INTO notes (id, owner, text) VALUES (?1, ?2, ?3)");
static CHANGE: Sql = sql("UPDATE notes SET text = ?2 WHERE id = ?1");
static DELETE: Sql = sql("DELETE FROM notes WHERE id = ?1");

#[derive(Serialize, ToSchema)]
struct Note {
    id: i64,
    owner: String,
    text: String,
}

fn note(row: &store::Row<'_>) -> Result<Note, store::Error> {
    Ok(Note { id: row.get(0)?, owner: row.get(1)?, text: row.get(2)? })
}

fn key(id: i64) -> Key {
    Key::row("notes", "id", &id.to_string())
}

fn owner_key(owner: &str) -> Key {
    Key::row("notes", "owner", owner)
}

/// One note.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct GetNote {
    id: i64,
}

impl Query for GetNote {
    const NAME: &'static str = "get_note";
    const POINT: bool = true;
    type Claims = Anyone;
    type Value = Note;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> Result<Note, Problem> {
        snapshot.depends(|| [key(self.id)]);
        snapshot.one(&READ, args![self.id], note)?.ok_or_else(|| Problem::not_found("Note"))
    }
}

/// All notes of the caller.
#[derive(Deserialize, ToSchema)]
struct OwnNotes {}

impl Query for OwnNotes {
    const NAME: &'static str = "own_notes";
    const ROW_KEY: Option<&'static str> = Some("id");
    type Claims = Subject;
    type Value = Vec<Note>;
    fn run(&self, snapshot: &mut Snapshot<'_>, user: &Subject) -> Result<Vec<Note>, Problem> {
        snapshot.depends(|| [owner_key(&user.0)]);
        Ok(snapshot.all(&OWN, args![&user.0], note)?)
    }
}

#[derive(Clone, Serialize)]
struct Editor;

impl Claims for Editor {
    fn of(caller: &Caller) -> Result<Editor, Problem> {
        match caller.subject.as_deref() {
            Some("editor") => Ok(Editor),
            _ => Err(Problem::forbidden("Only the editor may read this.")),
        }
    }
}

#[derive(Deserialize, ToSchema)]
struct Drafts {}

impl Query for Drafts {
    const NAME: &'static str = "drafts";
    type Claims = Editor;
    type Value = i64;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Editor) -> Result<i64, Problem> {
        snapshot.depends(|| [owner_key("editor")]);
        Ok(0)
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct WriteNote {
    id: i64,
    text: String,
}

impl WriteNote {
    fn changed(tx: &mut Tx<'_>, id: i64, owner: &str) {
        tx.changed(key(id));
        tx.changed(owner_key(owner));
    }
}

impl Mutation for WriteNote {
    const NAME: &'static str = "write_note";
    type Claims = Subject;
    type Value = i64;
    fn validate(&self) -> Result<(), Problem> {
        Problem::check(!self.text.is_empty(), "text", "have at least one letter")
    }
    fn run(&self, tx: &mut Tx<'_>, user: &Subject, _: &Given) -> Result<i64, Problem> {
        tx.exec(&WRITE, args![self.id, &user.0, &self.text])?;
        WriteNote::changed(tx, self.id, &user.0);
        Ok(self.id)
    }
}

#[derive(Deserialize, ToSchema)]
struct ChangeNote {
    id: i64,
    text: String,
}

impl Mutation for ChangeNote {
    const NAME: &'static str = "change_note";
    type Claims = Subject;
    type Value = ();
    fn run(&self, tx: &mut Tx<'_>, user: &Subject, _: &Given) -> Result<(), Problem> {
        tx.exec(&CHANGE, args![self.id, &self.text])?;
        WriteNote::changed(tx, self.id, &user.0);
        Ok(())
    }
}

#[derive(Deserialize, ToSchema)]
struct DeleteNote {
    id: i64,
}

impl Mutation for DeleteNote {
    const NAME: &'static str = "delete_note";
    type Claims = Subject;
    type Value = ();
    fn run(&self, tx: &mut Tx<'_>, user: &Subject, _: &Given) -> Result<(), Problem> {
        match tx.exec(&DELETE, args![self.id])? {
            0 => Err(Problem::conflict("deleted", "Somebody was faster.")),
            _ => {
                WriteNote::changed(tx, self.id, &user.0);
                Ok(())
            }
        }
    }
}

#[derive(Deserialize, ToSchema)]
struct Fail {}

impl Mutation for Fail {
    const NAME: &'static str = "fail";
    type Claims = SignedIn;
    type Value = ();
    fn run(&self, _: &mut Tx<'_>, _: &SignedIn, _: &Given) -> Result<(), Problem> {
        Err(Problem::unavailable("Not now.", Duration::from_secs(7)))
    }
}

/// A token is the name of its user.
struct Names;

impl Authenticate for Names {
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a> {
        Box::pin(async move {
            match token {
                "bad" => Err(Problem::invalid_token("The token is not valid.")),
                name => Ok(Caller { subject: Some(name.to_owned()), ..Caller::default() }),
            }
        })
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    text: String,
    count: Option<u8>,
}

async fn echo(Json(sent): Json<Sent>) -> Json<Sent> {
    Json(sent)
}

async fn number(Path(number): Path<u8>, Parameters(sent): Parameters<Sent>) -> String {
    format!("{number} {}", sent.text)
}

async fn panics() -> &'static str {
    panic!("a defect of the app")
}

async fn once(once: Once, Json(sent): Json<Sent>) -> Result<Answered, Problem> {
    once.write("once", move |_: &mut Tx<'_>| Ok::<_, Problem>(json!({ "text": sent.text }))).await
}

/// Serves it. The clock stands still.
pub async fn serve(place: &TestPlace) -> Running {
    let mut settings = Settings::new(place.url(), ([127, 0, 0, 1], 0).into());
    settings.clock = Arc::new(|| Time::from_millis(1_800_000_000_000));
    settings.limits.heartbeat = Duration::from_secs(3600);
    settings.limits.subscriptions_max = 4;
    let keyed = Router::new().route("/once", axum::routing::post(once));
    let own = Router::new()
        .route("/echo", reading(|| async { "read" }).post(echo))
        .route("/numbers/{number}", reading(number))
        .route("/panics", reading(panics));
    let app = App::new()
        .query::<GetNote>()
        .query::<OwnNotes>()
        .query::<Drafts>()
        .mutation::<WriteNote>()
        .mutation::<ChangeNote>()
        .mutation::<DeleteNote>()
        .mutation::<Fail>()
        .routes(own)
        .keyed_routes(keyed)
        .migrations(MIGRATIONS)
        .watched(&["notes"])
        .authenticate(Arc::new(Names));
    live::serve(app, settings).await.expect("the app is served")
}
