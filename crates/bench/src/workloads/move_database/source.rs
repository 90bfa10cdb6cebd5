//! The source of `move`: a demo on SQLite, filled with accounts. It may be kept for other runs.

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

/// A filled installation and its accounts.
#[derive(Serialize, Deserialize)]
pub(super) struct Source {
    pub users: u32,
    /// Its issuer.
    pub issuer: String,
    /// The slug of the organization with the accounts, and its administrator.
    pub organization: String,
    pub admin: Credentials,
    /// A device client of the organization.
    pub client_id: String,
    /// One of the accounts, and its plan.
    pub person: Credentials,
    pub plan: String,
    /// The rows of each table.
    pub rows: BTreeMap<String, u64>,
    /// The rows of the accounts, and the time to create them.
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
    /// The source that an earlier run left in the folder, or a new one with `users`. A new one is moved in a rehearsal before
    /// it is filled, so that an unusable target is found at once.
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
                "{} is not a completely filled folder of a bench; remove it or use another folder",
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
                "--from: this folder has {} users, not {users}; remove --users or use another folder",
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
        progress("set-up: a rehearsal before the accounts are created");
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
            .map_err(|error| Error::set_up("fill", format!("unexpected JSON: {error}")))?;
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
        // It has passwords, though only of a throw-away installation.
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
