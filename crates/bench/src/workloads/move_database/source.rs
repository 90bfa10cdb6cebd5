//! What `move` moves: a demo on SQLite that was filled with accounts. It may be kept for another run.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Mover, TableRow};
use crate::error::Error;
use crate::launcher::Launcher;
use crate::report::progress;
use crate::setup::Credentials;
use crate::subprocess::Outcome;
use crate::workloads::servers::TestBed;

const USERS_DEFAULT: u32 = 1_000_000;

/// A filled installation, and who lives there.
#[derive(Serialize, Deserialize)]
pub(super) struct Source {
    pub users: u32,
    /// How it calls itself.
    pub issuer: String,
    /// The slug of the organization where the accounts are, and who administers it.
    pub organization: String,
    pub admin: Credentials,
    /// A device client there.
    pub client_id: String,
    /// One of the accounts, and its plan.
    pub person: Credentials,
    pub plan: String,
    /// All rows that there are, by table.
    pub rows: BTreeMap<String, u64>,
    /// How many of them are the filling, and how long that took.
    pub filled_rows: u64,
    pub fill_s: f64,
}

/// The line that `sarsen-bench-tools fill` prints.
#[derive(Deserialize)]
struct Filled {
    #[serde(flatten)]
    person: Credentials,
    plan: String,
    rows: BTreeMap<String, u64>,
    seconds: f64,
}

impl Source {
    /// The one that an earlier run has left in the test bed's folder, or a new one of `users`. Before it fills a new one it
    /// has the little that is there moved and taken back: a target that does not do is then found at once.
    pub async fn open(
        test_bed: &TestBed<'_>,
        launcher: &Launcher,
        mover: &Mover,
        users: Option<u32>,
    ) -> Result<Source, Error> {
        let record = record(test_bed.data());
        if record.exists() {
            return Source::kept(&record, users);
        }
        if database_of(test_bed.data()).exists() {
            return Err(Error::Usage(format!(
                "{} holds something else than a bench has filled to the end; remove it or name another folder",
                test_bed.data().display()
            )));
        }
        let source = Source::make(test_bed, launcher, mover, users.unwrap_or(USERS_DEFAULT)).await?;
        source.keep(&record)?;
        Ok(source)
    }

    /// For `sarsen move --from`.
    pub fn url(test_bed: &TestBed<'_>) -> String {
        format!("sqlite:{}", database_of(test_bed.data()).display())
    }

    fn kept(record: &Path, users: Option<u32>) -> Result<Source, Error> {
        let what = || format!("cannot read {}", record.display());
        let text = std::fs::read(record).map_err(Error::io(what()))?;
        let source: Source =
            serde_json::from_slice(&text).map_err(std::io::Error::from).map_err(Error::io(what()))?;
        match users {
            Some(users) if users != source.users => Err(Error::Usage(format!(
                "--from: {} users are in this folder, not {users}; leave out --users or name another folder",
                source.users
            ))),
            _ => Ok(source),
        }
    }

    async fn make(
        test_bed: &TestBed<'_>,
        launcher: &Launcher,
        mover: &Mover,
        users: u32,
    ) -> Result<Source, Error> {
        let (demo, _) = test_bed.demo().await?;
        let said = |pointer: &str| demo.ready_text(pointer).map(str::to_owned);
        let (issuer, organization) = (said("/issuer")?, said("/organization/slug")?);
        let client_id = said("/clients/cli/client_id")?;
        let admin = Credentials {
            email: said("/organization/admin/email")?,
            password: said("/organization/admin/password")?,
        };
        demo.stop().await?;
        progress("set-up: rehearsing with what is there before it is filled");
        let (_, tables) = mover.rehearse().await?;
        let mut rows: BTreeMap<String, u64> =
            tables.into_iter().map(|TableRow { table, rows, .. }| (table, rows)).collect();

        let arguments = [
            "fill".to_owned(),
            "--database".to_owned(),
            Source::url(test_bed),
            "--org".to_owned(),
            organization.clone(),
            "--users".to_owned(),
            users.to_string(),
        ];
        let filled = launcher.for_tools()?.run("fill", &arguments, |_| false).await?;
        let line = if let Outcome::Completed(line) = filled.outcome { line } else { Value::Null };
        let filled: Filled = serde_json::from_value(line)
            .map_err(|error| Error::set_up("filling", format!("not the JSON that was expected: {error}")))?;
        for (table, new) in &filled.rows {
            *rows.entry(table.clone()).or_default() += new;
        }
        Ok(Source {
            users,
            issuer,
            organization,
            admin,
            client_id,
            person: filled.person,
            plan: filled.plan,
            filled_rows: filled.rows.values().sum(),
            rows,
            fill_s: filled.seconds,
        })
    }

    fn keep(&self, record: &Path) -> Result<(), Error> {
        let what = || Error::io(format!("cannot write {}", record.display()));
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::from).map_err(what())?;
        // It holds passwords, if only of an installation that nobody uses.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(record);
        file.and_then(|mut file| file.write_all(&text)).map_err(what())
    }
}

fn record(data: &Path) -> PathBuf {
    data.join("bench-move.json")
}

fn database_of(data: &Path) -> PathBuf {
    data.join("demo.db")
}
