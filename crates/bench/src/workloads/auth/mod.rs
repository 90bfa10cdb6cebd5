//! `auth`: registrations, sign-ins with passwords, approvals of organizations and reads of the audit trail in one mix, beside
//! the rate at which the machine hashes passwords.

mod mix;

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use self::mix::{AuthLoad, Shares};
use super::capacity::climb::climb;
use super::floor::TIMEOUT;
use super::login::{CAPACITY_USERS, LoginLoad};
use super::servers::{ServerUnderTest, TestBed};
use crate::cli::AuthArgs;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::load::{Plan, Workload, measure};
use crate::machine::ensure_descriptors;
use crate::report::{RunReport, milliseconds, print_result, progress, render, write_json};
use crate::setup::{Registrations, create_registrations};

const TENANTS: usize = 10;
const USERS_FIRST: usize = 2;
/// As for the ceiling of W1.
const P99_MAX: Duration = Duration::from_secs(1);

/// The JSON of `sarsen bench auth`.
#[derive(Serialize)]
pub struct AuthReport {
    /// Sign-ins a second in closed loop, without other requests.
    pub argon2_per_second: f64,
    /// Share of the requests that hash, as asked for.
    pub hash_share: f64,
    pub levels: Vec<RunReport>,
    /// Index of the level that counts.
    pub best: Option<usize>,
    /// Why there was no further level.
    pub ended: Option<String>,
}

/// `sarsen bench auth`.
pub async fn auth(args: &AuthArgs, launcher: &Launcher) -> Result<(), Error> {
    ensure_descriptors(args.users)?;
    let test_bed = TestBed::open(&args.common, launcher, args.common.pin)?;
    let (under_test, credentials) = test_bed.demo().await?;
    let accounts =
        create_registrations(under_test.first(), &credentials, TENANTS, args.accounts as usize).await?;
    let accounts = Rc::new(accounts);
    progress("measuring how many passwords the machine can hash");
    let sign_ins = Rc::new(LoginLoad::sign_ins_only(accounts.forms()));
    let raw = run(args, &under_test, CAPACITY_USERS, None, "auth: passwords alone", sign_ins).await;
    let argon2_per_second = raw.total.accepted_per_second;
    let shares = Shares::with_hashing(args.hash_share);
    let report = match args.rate {
        Some(rate) => {
            let load = Rc::new(AuthLoad::new(accounts, shares).await?);
            let operations = rate / shares.requests_per_operation();
            let level = run(args, &under_test, args.users, Some(operations), "auth", load).await;
            print_result(&render(&level));
            AuthReport {
                argon2_per_second,
                hash_share: args.hash_share,
                levels: vec![level],
                best: Some(0),
                ended: None,
            }
        }
        None => saturate(args, &under_test, &accounts, shares, argon2_per_second).await?,
    };
    under_test.stop().await?;
    print_result(&report.render());
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

async fn saturate(
    args: &AuthArgs,
    under_test: &ServerUnderTest,
    accounts: &Rc<Registrations>,
    shares: Shares,
    argon2_per_second: f64,
) -> Result<AuthReport, Error> {
    let climbed = climb("auth", P99_MAX, USERS_FIRST, args.users, async |users| {
        let load = Rc::new(AuthLoad::new(accounts.clone(), shares).await?);
        Ok((run(args, under_test, users, None, "auth", load).await, None))
    })
    .await?;
    Ok(AuthReport {
        argon2_per_second,
        hash_share: args.hash_share,
        levels: climbed.levels,
        best: climbed.best,
        ended: Some(climbed.ended),
    })
}

async fn run<W: Workload>(
    args: &AuthArgs,
    under_test: &ServerUnderTest,
    users: usize,
    rate: Option<f64>,
    title: &str,
    load: Rc<W>,
) -> RunReport {
    let plan = Plan {
        users,
        think: Duration::ZERO,
        rate,
        warm_up: args.time.warmup,
        duration: args.time.duration,
        timeout: TIMEOUT,
        seed: args.common.seed,
    };
    measure(title, &under_test.targets, &under_test.monitored, &plan, load).await
}

impl AuthReport {
    fn render(&self) -> String {
        let mut text = format!("\npasswords alone: {:.1} a second\n", self.argon2_per_second);
        // Writing to a String cannot fail.
        if let Some(ended) = &self.ended {
            let _ = writeln!(text, "ended: {ended}");
        }
        let Some(best) = self.best.map(|index| &self.levels[index]) else {
            text.push_str("no level held\n");
            return text;
        };
        let all = &best.total;
        let _ = writeln!(
            text,
            "{} users: {:.1} requests/s, p95 {} ms, {} not accepted",
            best.users,
            all.accepted_per_second,
            milliseconds(all.latency.p95_us),
            best.not_accepted()
        );
        if let Some(parts) = &best.by_hashing {
            let share = parts.hashing.count as f64 / all.count.max(1) as f64;
            let _ = writeln!(
                text,
                "{:.1} % of them hash a password ({:.1} a second): p95 {} ms; the others: p95 {} ms",
                share * 100.0,
                parts.hashing.accepted_per_second,
                milliseconds(parts.hashing.latency.p95_us),
                milliseconds(parts.others.latency.p95_us)
            );
        }
        text
    }
}
