//! `attempts` (W5): `PATCH /attempts/{id}` with the answers of a student, on the back end `exam_attempts`.

mod compare;
mod rates;

use std::io::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::back_end::{Database, Site, ensure_program, running};
use super::servers::ServerUnderTest;
use crate::cli::{AttemptsArgs, BackEndArgs};
use crate::error::Error;
use crate::http::{RequestDraft, Response, Target};
use crate::launcher::Launcher;
use crate::load::{VirtualUser, Workload};
use crate::machine::ensure_descriptors;
use crate::measure::{RequestKind, Verdict};
use crate::report::{RunReport, progress, write_json};
use crate::setup::Client;

const NAME: &str = "exam_attempts";

/// The JSON of `sarsen bench attempts`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptsReport {
    /// Open loop, in the order of the runs.
    Rates {
        runs: Vec<RunReport>,
        /// The highest rate that was held.
        held_per_second: Option<f64>,
    },
    /// Closed loop: for each round the server under test, then the baseline.
    Rounds { runs: Vec<RunReport>, ratios: Vec<f64>, median_ratio: f64 },
}

/// Saved answers of random attempts.
pub struct AttemptsLoad {
    /// The request up to the id, and from there on.
    before_id: Vec<u8>,
    after_id: Vec<u8>,
    attempts: u32,
}

impl AttemptsLoad {
    pub fn new(target: &Target, attempts: u32) -> AttemptsLoad {
        const MARK: &str = "ID";
        let draft = RequestDraft::json("PATCH", &format!("/attempts/{MARK}"), &answers());
        let bytes = draft.encode(&target.host);
        // The path is the first place that can have the mark.
        let at = bytes.windows(MARK.len()).position(|part| part == MARK.as_bytes()).unwrap_or(0);
        AttemptsLoad {
            before_id: bytes[..at].to_vec(),
            after_id: bytes[at + MARK.len()..].to_vec(),
            attempts,
        }
    }
}

/// The body of the original load test.
fn answers() -> Value {
    json!({ "answers": { "1": [1], "2": [2], "3": [3], "4": [4] } })
}

impl Workload for AttemptsLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let id = 1 + user.random.below(self.attempts);
        let mut request = Vec::with_capacity(self.before_id.len() + self.after_id.len() + 10);
        request.extend_from_slice(&self.before_id);
        // Writing to a Vec cannot fail.
        let _ = write!(request, "{id}");
        request.extend_from_slice(&self.after_id);
        let judge = |response: &Response<'_>| Verdict::by_statuses(response, &[200, 204]);
        user.send(RequestKind::Answers, &request, intended, judge).await
    }
}

/// `sarsen bench attempts`.
pub async fn attempts(args: &AttemptsArgs, launcher: &Launcher) -> Result<(), Error> {
    let connections = args.connections;
    ensure_descriptors(connections)?;
    if let Some(program) = &args.baseline {
        ensure_program(program, "build it with `cargo build --release` in bench/baselines/attempts_actix")?;
    }
    let mut site = Site::open(&args.back_end, &args.common, launcher, false).await?;
    let under_test = if args.back_end.url.is_empty() {
        let database = site.database(NAME, &args.common)?;
        seed(&site, &args.back_end, &database)?;
        site.start(NAME, &args.back_end, &database).await?
    } else {
        running(NAME, &args.back_end)?
    };
    let report = match &args.baseline {
        None => rates::run(args, connections, &under_test).await?,
        Some(program) => {
            let url = site.baseline_database("baseline", &args.common).await?;
            let count = args.attempts.to_string();
            let mut more = vec!["--attempts", count.as_str()];
            if args.unlogged {
                more.push("--unlogged");
            }
            progress("set-up: starting the baseline");
            let baseline = site.test_bed.baseline_on(program, &url, &more).await?;
            let report = compare::run(args, connections, &under_test, &baseline).await;
            baseline.stop().await?;
            report
        }
    };
    check_stored(&under_test).await?;
    under_test.stop().await?;
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

/// Fills the database before the server starts, because one process owns a SQLite file.
pub(super) fn seed(site: &Site<'_>, back_end: &BackEndArgs, database: &Database) -> Result<(), Error> {
    progress("set-up: filling the table of attempts");
    site.run(NAME, back_end, &["seed", "--database", &database.url])
}

/// After the load an attempt has the answers that were sent.
async fn check_stored(under_test: &ServerUnderTest) -> Result<(), Error> {
    let mut client = Client::new(under_test.first().clone(), 0);
    client.send(&RequestDraft::json("PATCH", "/attempts/1", &answers())).await?.expect(&[200, 204])?;
    let stored: Value = client.send(&RequestDraft::get("/attempts/1")).await?.expect(&[200])?.json()?;
    if stored["answers"] == answers()["answers"] {
        return Ok(());
    }
    Err(Error::Broken("attempt 1 does not have the answers that the server accepted".to_owned()))
}
