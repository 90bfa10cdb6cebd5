//! `sarsen` as a library: crates outside of this workspace depend on it by path and build, with SQLite only.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"//! Embeds the server, and has the commands of `sarsen`.

use clap::Parser;
use sarsen::program::{self, Context};
use sarsen::server::{App, Limits, SecretKey, Settings, Store, SystemClock, SystemRandom};
use std::sync::Arc;

#[derive(Parser)]
enum Command {
    Embedded,
    #[command(flatten)]
    Sarsen(Box<program::Command>),
}

async fn embedded() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(sarsen::server::store_options("sqlite:own.db"))?;
    let key = SecretKey::parse(&SecretKey::generate(&SystemRandom))?;
    let settings = Settings::new("http://localhost:7070");
    let app = App::new(store, settings, key, Arc::new(SystemClock), Arc::new(SystemRandom), None)?;
    sarsen::server::first_start::prepare(&app).await?;
    sarsen::server::serve(app, &["127.0.0.1:7070".parse()?], Limits::default()).await?.stop().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match Command::parse() {
        Command::Embedded => sarsen::server_process::runtime()?.block_on(embedded()),
        Command::Sarsen(command) => Ok(program::run(*command, &Context::of_this_process()?)?),
    }
}
"#;

/// A back end without identity, as in `authentication.md` and `database.md` of `docs/extend`.
const BACK_END: &str = r#"//! A back end of another program, on `sarsen::live` and `sarsen::store`.

use axum::extract::State;
use sarsen::live::auth::{Accept, Issuer, LocalIssuer, Sarsen};
use sarsen::live::extract::Json;
use sarsen::live::{App, Authenticate, Authenticating, Caller, Claims, Context, Problem, Program, Query};
use sarsen::store::{Error, Key, Log, Snapshot, Sql, Time, Tx, args, log, sql};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

static READ: Sql = sql("SELECT value FROM counters WHERE id = ?1");
static ACTIVE: Sql = sql("SELECT 1 FROM sessions WHERE user_id = ?1");

#[derive(Clone, serde::Serialize)]
struct Teacher {
    school: String,
}

impl Claims for Teacher {
    fn of(caller: &Caller) -> Result<Teacher, Problem> {
        match (caller.claims.get("role"), caller.claims.get("school")) {
            (Some(role), Some(school)) if role == "teacher" => Ok(Teacher { school: school.to_string() }),
            _ => Err(Problem::forbidden("Only teachers may read this.")),
        }
    }
}

#[derive(serde::Deserialize, utoipa::ToSchema)]
struct GetCounter {
    id: i64,
}

impl Query for GetCounter {
    const NAME: &'static str = "get_counter";
    type Claims = Teacher;
    type Value = i64;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Teacher) -> Result<i64, Problem> {
        snapshot.depends(|| [Key::row("counters", "id", &self.id.to_string())]);
        let value = snapshot.one(&READ, args![self.id], |row| row.get(0))?;
        value.ok_or_else(|| Problem::not_found("Counter"))
    }
}

struct Sessions {
    issuer: LocalIssuer,
}

impl Authenticate for Sessions {
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a> {
        self.issuer.authenticate(token)
    }
    fn has_standing(&self) -> bool {
        true
    }
    fn standing(&self, snapshot: &mut Snapshot<'_>, caller: &Caller) -> Result<Option<Caller>, Problem> {
        let user = caller.user()?;
        snapshot.depends(|| [Key::row("sessions", "user_id", user)]);
        let is_active = snapshot.one(&ACTIVE, args![user], |row| row.get::<i64>(0))?.is_some();
        Ok(is_active.then(|| caller.clone()))
    }
}

static HASHES: Semaphore = Semaphore::const_new(2);

#[derive(serde::Deserialize)]
struct SignUp {
    name: String,
    password: String,
}

async fn sign_up(State(context): State<Context>, Json(form): Json<SignUp>) -> Result<Json<String>, Problem> {
    let SignUp { name, password } = form;
    let permit = HASHES.acquire().await.map_err(Problem::defect)?;
    let hashing = tokio::task::spawn_blocking(move || {
        let hash = hash_of(&password);
        drop(permit);
        hash
    });
    let hash = hashing.await.map_err(Problem::defect)?;
    let user = context.given().id("user");
    let id = user.clone();
    context.store().write("user.create", move |tx| create_user(tx, &id, &name, &hash)).await?;
    let issuer = context.state::<LocalIssuer>().ok_or_else(|| Problem::defect("the app has no LocalIssuer"))?;
    let token = issuer.issue(&user, Duration::from_secs(3600), serde_json::Map::new());
    Ok(Json(token.map_err(Problem::defect)?))
}

fn hash_of(_password: &str) -> String {
    unreachable!("the program is only compiled")
}

fn create_user(_tx: &mut Tx<'_>, _id: &str, _name: &str, _hash: &str) -> Result<(), Problem> {
    unreachable!("the program is only compiled")
}

static SIGNED_UP: Log = log("signed_up");

async fn welcome(context: Context) -> Result<(), Problem> {
    loop {
        let page = context.store().read(|snapshot| snapshot.log_page(&SIGNED_UP, "welcome", 1)).await;
        let page = page.map_err(|error: Error| Problem::from(error))?;
        let Some(entry) = page.entries.first() else { return Ok(()) };
        let week_ago = context.now() - Duration::from_secs(7 * 86_400);
        let read = entry.at.min(week_ago);
        let done = move |tx: &mut Tx<'_>| {
            tx.trim_log(&SIGNED_UP, read)?;
            match tx.keep_place(&SIGNED_UP, "welcome", &page)? {
                true => Ok(()),
                false => Err(Problem::conflict("welcomed", "Another instance has done this.")),
            }
        };
        context.store().write::<_, Problem, _>("welcome.done", done).await?;
    }
}

/// Programs with keys that the database knows.
struct Keys;

impl Authenticate for Keys {
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a> {
        let hash = hash_of(token);
        Box::pin(async move { Ok(Caller::anonymous().with_claim("key", hash)) })
    }
    fn has_standing(&self) -> bool {
        true
    }
    fn standing(&self, snapshot: &mut Snapshot<'_>, caller: &Caller) -> Result<Option<Caller>, Problem> {
        let hash = caller.claims.get("key").and_then(|key| key.as_str()).unwrap_or_default();
        snapshot.depends(|| [Key::row("keys", "hash", hash)]);
        let owner: Option<(String, Option<Time>)> =
            snapshot.one(&OWNER, args![hash], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(owner.map(|(owner, ends_at)| Caller { subject: Some(owner), expires: ends_at, ..caller.clone() }))
    }
}

static OWNER: Sql = sql("SELECT owner, ends_at FROM keys WHERE hash = ?1");

/// As in `operation.md`.
fn program() -> Program {
    Program::new("board", "Boards that people share.", "127.0.0.1:8080").settings(|settings| {
        if let Ok(url) = std::env::var("DATABASE_URL") {
            settings.database = url;
        }
        settings.operator_token = std::env::var("OPERATOR_TOKEN").ok();
        settings.limits.streams_max = 50_000;
    })
}

async fn page() -> &'static str {
    "the page"
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = App::new().query::<GetCounter>().on_log(&SIGNED_UP, "welcome", welcome);
    let app = app.routes(axum::Router::new().route("/sign_up", axum::routing::post(sign_up))).fallback(page);
    let _program = program();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let _app = match arguments.as_slice() {
        [issuer, key] => app.authenticate(Arc::new(Sarsen::new(issuer, "acme/sketch", key)?)),
        [issuer] => app.authenticate(Arc::new(Issuer::discover(issuer, Accept::audience("api"))?)),
        [_, _, _] => app.authenticate(Arc::new(Keys)),
        _ => app.authenticate(Arc::new(Sessions { issuer: LocalIssuer::open("own.key", "own")? })),
    };
    Ok(())
}
"#;

#[test]
#[ignore = "it compiles for half a minute: the soak runs it"]
fn soak_a_program_of_another_workspace_embeds_the_server() {
    let clap = "clap = { version = \"4\", features = [\"derive\"] }";
    builds("embedding", PROGRAM, "identity", clap);
}

#[test]
#[ignore = "it compiles for a minute: the soak runs it"]
fn soak_a_back_end_of_another_workspace_builds_without_the_identity_server() {
    let others = "axum = { version = \"0.8\", default-features = false }\n\
                  serde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"\n\
                  tokio = { version = \"1\", features = [\"rt\", \"sync\"] }\nutoipa = \"6\"";
    let folder = builds("back_end", BACK_END, "live", others);
    let tree = cargo(&folder, &["tree", "--offline", "--prefix", "none", "--edges", "normal"]);
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"sarsen-live") && crates.contains(&"sarsen-store"), "{tree}");
    for absent in [
        "sarsen-server",
        "sarsen-identity",
        "sarsen-bench",
        "sarsen-browser",
        "clap",
        "argon2",
        "maud",
        "ureq",
        "postgres",
        "mysql_async",
    ] {
        assert!(!crates.contains(&absent), "{absent} is in:\n{tree}");
    }
}

/// Checks a program with one feature of `sarsen`, and returns its folder.
fn builds(name: &str, program: &str, feature: &str, others: &str) -> tempfile::TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("src")).expect("made");
    std::fs::write(path("src/main.rs"), program).expect("written");
    std::fs::write(path("Cargo.toml"), manifest(&root, name, feature, others)).expect("written");
    // The same versions as here, so that cargo needs no network.
    std::fs::copy(root.join("Cargo.lock"), path("Cargo.lock")).expect("copied");
    let target = target_folder();
    cargo(&folder, &["check", "--offline", "--quiet", "--target-dir", &target.display().to_string()]);
    folder
}

fn cargo(folder: &tempfile::TempDir, arguments: &[&str]) -> String {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.args(arguments).current_dir(folder.path()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn manifest(root: &Path, name: &str, feature: &str, others: &str) -> String {
    let sarsen = toml::Value::from(root.join("crates/sarsen").display().to_string());
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).expect("reads");
    let workspace: toml::Table = workspace.parse().expect("a manifest");
    // With the profile of this workspace, cargo takes what the lints and the tests have compiled already.
    let profile = toml::Table::from_iter([("profile".to_owned(), workspace["profile"].clone())]);
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {others}\n\
         sarsen = {{ path = {sarsen}, default-features = false, features = [\"{feature}\"] }}\n\n{profile}"
    )
}

/// The folder in which cargo has built this test.
fn target_folder() -> PathBuf {
    let program = Path::new(crate::PROGRAM);
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.expect("a target folder").to_owned()
}
