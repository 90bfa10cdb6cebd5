//! `sarsen-bench-tools history-server`: the back end that `history` judges. A row has a revision, a value and a team; each
//! commit adds the new states to a log.

use live::{Anyone, App, Given, Mutation, Problem, Query};
use sarsen::server_process;
use sarsen::{Error, LogFormat, Result, logs};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::{Key, Migration, Row, Snapshot, Sql, Tx, args, lock, sql};
use utoipa::ToSchema;

/// Run the back end that `history` judges.
#[derive(clap::Args)]
pub struct Args {
    /// The database
    #[arg(long, value_name = "URL")]
    database: String,
    /// A replica of it
    #[arg(long, value_name = "URL")]
    replica: Option<String>,
    /// Where to listen
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// Every so many-th run of a query fails (0: none)
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    failing: u64,
    /// A bug that the checker must find
    #[arg(long, value_enum)]
    plant: Option<Plant>,
}

/// What the back end, or the library below it, does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// A commit is published before it can be read (SQLite)
    PublishBeforeCommit,
    /// The change log is followed by its sequence (MySQL, two instances)
    OrderBySequence,
    /// A client that comes back gets `same`, whatever it holds
    SameOnReturn,
    /// A failed run of a live query counts as one with an equal result
    FailedRunIsUnchanged,
    /// Row changes are sent whatever a stream holds
    AnyBase,
    /// A change between a run and its watch is not noticed
    GapAfterRun,
    /// A row that leaves a team declares its new team only
    MissingKey,
    /// A changed row declares the key of the next row
    OtherRow,
}

impl Plant {
    /// Plants it, if it is a bug of the libraries. The others are in the mutations.
    fn plant(self) {
        match self {
            Plant::PublishBeforeCommit => store::planted::plant(store::planted::Bug::PublishBeforeCommit),
            Plant::OrderBySequence => store::planted::plant(store::planted::Bug::OrderBySequence),
            Plant::SameOnReturn => live::planted::plant(live::planted::Bug::SameOnReturn),
            Plant::FailedRunIsUnchanged => live::planted::plant(live::planted::Bug::FailedRunIsUnchanged),
            Plant::AnyBase => live::planted::plant(live::planted::Bug::AnyBase),
            Plant::GapAfterRun => live::planted::plant(live::planted::Bug::GapAfterRun),
            Plant::MissingKey | Plant::OtherRow => {}
        }
    }
}

const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "rows and their log",
    text: "CREATE TABLE history_rows (
    id BIGINT NOT NULL PRIMARY KEY,
    rev BIGINT NOT NULL,
    written_by {key} NOT NULL,
    value BIGINT NOT NULL,
    team BIGINT NOT NULL,
    INDEX history_rows_team (team)
) {table};

CREATE TABLE history_log (
    row_id BIGINT NOT NULL,
    rev BIGINT NOT NULL,
    written_by {key} NOT NULL,
    value BIGINT NOT NULL,
    team BIGINT NOT NULL,
    PRIMARY KEY (row_id, rev)
) {table};
",
}];

const LOG_PAGE: usize = 1000;

static LOCK: Sql = lock("history_rows", "id");
static ONE: Sql = sql("SELECT id, rev, written_by, value, team FROM history_rows WHERE id = ?1");
static TEAM: Sql =
    sql("SELECT id, rev, written_by, value, team FROM history_rows WHERE team = ?1 ORDER BY value, id");
static FIRST: Sql =
    sql("INSERT INTO history_rows (id, rev, written_by, value, team) VALUES (?1, ?2, ?3, ?4, ?5)");
static NEXT: Sql =
    sql("UPDATE history_rows SET rev = ?2, written_by = ?3, value = ?4, team = ?5 WHERE id = ?1");
static LOG: Sql =
    sql("INSERT INTO history_log (row_id, rev, written_by, value, team) VALUES (?1, ?2, ?3, ?4, ?5)");
static READ_LOG: Sql = sql("SELECT row_id, rev, written_by, value, team FROM history_log
    WHERE row_id = ?1 AND rev > ?2 ORDER BY rev LIMIT 1000");

/// A state of a row.
#[derive(Clone, Serialize, ToSchema)]
struct RowState {
    key: i64,
    rev: i64,
    id: String,
    value: i64,
    team: i64,
}

fn row_state(row: &Row<'_>) -> std::result::Result<RowState, store::Error> {
    Ok(RowState {
        key: row.get(0)?,
        rev: row.get(1)?,
        id: row.get(2)?,
        value: row.get(3)?,
        team: row.get(4)?,
    })
}

fn row_key(id: i64) -> Key {
    Key::row("history_rows", "id", &id.to_string())
}

fn team_key(team: i64) -> Key {
    Key::row("history_rows", "team", &team.to_string())
}

/// Makes some runs of queries fail.
#[derive(Default)]
struct Failing {
    every: u64,
    runs: AtomicU64,
}

/// What is planted, for all queries and mutations of the process.
#[derive(Clone, Copy)]
struct Planted(Option<Plant>);

static FAILING: std::sync::OnceLock<Failing> = std::sync::OnceLock::new();

/// Fails in every so many-th run. The failure may pass.
fn perhaps_fail() -> std::result::Result<(), Problem> {
    let Some(failing) = FAILING.get().filter(|failing| failing.every > 0) else { return Ok(()) };
    match (failing.runs.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(failing.every) {
        true => Err(Problem::unavailable("This run fails on purpose. Try again.", Duration::from_millis(10))),
        false => Ok(()),
    }
}

/// One row.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct GetRow {
    key: i64,
}

impl Query for GetRow {
    const NAME: &'static str = "row";
    const POINT: bool = true;
    type Claims = Anyone;
    type Value = Vec<RowState>;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> std::result::Result<Vec<RowState>, Problem> {
        snapshot.depends(|| [row_key(self.key)]);
        perhaps_fail()?;
        Ok(snapshot.all(&ONE, args![self.key], row_state)?)
    }
}

/// The rows of a team.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ListTeam {
    team: i64,
}

impl Query for ListTeam {
    const NAME: &'static str = "team";
    const ROW_KEY: Option<&'static str> = Some("key");
    type Claims = Anyone;
    type Value = Vec<RowState>;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> std::result::Result<Vec<RowState>, Problem> {
        snapshot.depends(|| [team_key(self.team)]);
        perhaps_fail()?;
        Ok(snapshot.all(&TEAM, args![self.team], row_state)?)
    }
}

/// The log of a row, a thousand states after a revision.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReadLog {
    key: i64,
    after: i64,
}

impl Query for ReadLog {
    const NAME: &'static str = "log";
    type Claims = Anyone;
    type Value = Vec<RowState>;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> std::result::Result<Vec<RowState>, Problem> {
        let mut states = snapshot.all(&READ_LOG, args![self.key, self.after], row_state)?;
        states.truncate(LOG_PAGE);
        Ok(states)
    }
}

/// New states of some rows.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Append {
    id: String,
    rows: Vec<NewState>,
    /// Whether it fails after it has written.
    fails: bool,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewState {
    key: i64,
    value: i64,
    team: i64,
}

impl Append {
    fn run(&self, tx: &mut Tx<'_>, given: &Given) -> std::result::Result<Vec<Vec<i64>>, Problem> {
        let planted = given.state::<Planted>().and_then(|planted| planted.0);
        let mut revs = Vec::new();
        for new in &self.rows {
            tx.lock(&LOCK, new.key.into())?;
            let old = tx.one(&ONE, args![new.key], row_state)?;
            let rev = old.as_ref().map_or(0, |old| old.rev) + 1;
            let values = args![new.key, rev, &*self.id, new.value, new.team];
            tx.exec(if old.is_some() { &NEXT } else { &FIRST }, values)?;
            tx.exec(&LOG, values)?;
            revs.push(vec![new.key, rev]);
            let is_other = planted == Some(Plant::OtherRow);
            tx.changed(row_key(if is_other { new.key + 1 } else { new.key }));
            tx.changed(team_key(new.team));
            if planted != Some(Plant::MissingKey)
                && let Some(old) = old
            {
                tx.changed(team_key(old.team));
            }
        }
        match self.fails {
            true => Err(Problem::conflict("refused_on_purpose", "This mutation fails after it has written.")),
            false => Ok(revs),
        }
    }
}

/// Shares its transaction with others.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
struct AppendBatched(Append);

/// Has a transaction of its own.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
struct AppendAlone(Append);

impl Mutation for AppendBatched {
    const NAME: &'static str = "append";
    const BATCHED: bool = true;
    type Claims = Anyone;
    type Value = Vec<Vec<i64>>;

    fn run(&self, tx: &mut Tx<'_>, _: &Anyone, given: &Given) -> std::result::Result<Self::Value, Problem> {
        self.0.run(tx, given)
    }
}

impl Mutation for AppendAlone {
    const NAME: &'static str = "append_alone";
    type Claims = Anyone;
    type Value = Vec<Vec<i64>>;

    fn run(&self, tx: &mut Tx<'_>, _: &Anyone, given: &Given) -> std::result::Result<Self::Value, Problem> {
        self.0.run(tx, given)
    }
}

/// Serves until a signal stops it.
pub fn run(args: &Args) -> Result<()> {
    let _log = logs::start("warn", LogFormat::Text, false)?;
    args.plant.into_iter().for_each(Plant::plant);
    FAILING.get_or_init(|| Failing { every: args.failing, runs: AtomicU64::new(0) });
    let app = App::new()
        .query::<GetRow>()
        .query::<ListTeam>()
        .query::<ReadLog>()
        .mutation::<AppendBatched>()
        .mutation::<AppendAlone>()
        .migrations(MIGRATIONS)
        .watched(&["history_rows"])
        .with(Arc::new(Planted(args.plant)));
    let mut settings = live::Settings::new(&args.database, args.listen);
    settings.replicas = args.replica.iter().cloned().collect();
    settings.limits.return_time = Duration::from_millis(200);
    settings.limits.poll_time = Duration::from_secs(2);
    server_process::runtime()?.block_on(async {
        let running = live::serve(app, settings).await;
        let running = running.map_err(|error| Error::failed(error.to_string()))?;
        running.until_signal().await;
        Ok(())
    })
}
