//! `capacity`: the highest load of each workload on this machine, the resource that ran out, and what it means in users.

pub(in crate::workloads) mod climb;
mod report;

pub use climb::Climb;
pub use report::{CapacityReport, InUsers};

use std::rc::Rc;
use std::time::Duration;

use self::climb::{Held, climb};
use super::attempts::{AttemptsLoad, seed};
use super::back_end::Site;
use super::floor::TIMEOUT;
use super::live::{Crowd, Level};
use super::login::LoginLoad;
use super::servers::{ServerUnderTest, TestBed};
use super::sso::{Mix, SsoLoad};
use super::writes::WritesLoad;
use crate::cli::{BackEndArgs, CapacityArgs, Part};
use crate::error::Error;
use crate::launcher::Launcher;
use crate::load::{Plan, Workload, measure};
use crate::machine::{connections_max, ensure_descriptors};
use crate::report::{RunReport, print_result, progress, write_json};
use crate::setup::{Population, create_sign_ins, populate};

const USERS_FIRST: usize = 16;
/// More connections than this do not show more of a machine.
const USERS_MAX: usize = 16_384;
/// A user keeps one hashing thread busy.
const SIGN_INS_FIRST: usize = 1;
const LIVE_USERS_FIRST: usize = 125;
const COUNTERS: usize = 128;
const INTERVAL: Duration = Duration::from_millis(100);
const WRITE_SHARE: f64 = 0.3;
/// Accounts with passwords.
const SIGN_INS: usize = 50;
const POPULATION: Population = Population { tenants: 20, accounts: 1_000 };
/// Rows that `exam_attempts seed` makes.
const ATTEMPTS: u32 = 100_000;

/// Its rate is one of sign-ins, not of requests.
const SIGN_INS_TITLE: &str = "W2 sign-ins";

/// `sarsen bench capacity`.
pub async fn capacity(args: &CapacityArgs, launcher: &Launcher) -> Result<(), Error> {
    ensure_descriptors(USERS_FIRST)?;
    if args.common.database.is_some() {
        return Err(Error::Usage(
            "capacity measures throw-away SQLite databases; leave --database out".to_owned(),
        ));
    }
    let parts = [
        (Part::Sso, "sarsen", "W1 single sign-on"),
        (Part::Login, "sarsen", SIGN_INS_TITLE),
        (Part::Writes, "request_log", "W3 durable writes"),
        (Part::Live, "counters", "W4 live queries"),
        (Part::Attempts, "exam_attempts", "W5 saved answers"),
    ];
    let mut climbs = Vec::new();
    for (part, program, title) in parts {
        let back_end = back_end(args, launcher, program);
        let is_there = program == "sarsen" || back_end.program.as_ref().is_some_and(|path| path.is_file());
        match args.only.is_empty() {
            false if !args.only.contains(&part) => continue,
            true if !is_there => {
                progress(&format!("{title}: left out, because {program} is missing"));
                continue;
            }
            _ => progress(&format!("{title}:")),
        }
        let climb = match part {
            Part::Sso => sso(args, launcher, title).await?,
            Part::Login => login(args, launcher, title).await?,
            Part::Writes => writes(args, launcher, &back_end, title).await?,
            Part::Live => live(args, launcher, &back_end, title).await?,
            Part::Attempts => attempts(args, launcher, &back_end, title).await?,
        };
        climbs.push(climb);
    }
    let report = CapacityReport::new(args, climbs);
    print_result(&report.render());
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

fn back_end(args: &CapacityArgs, launcher: &Launcher, name: &str) -> BackEndArgs {
    let program = match &args.programs {
        Some(folder) => folder.join(name),
        None => launcher.program.with_file_name(name),
    };
    BackEndArgs {
        program: Some(program),
        url: Vec::new(),
        postgres: false,
        postgres_programs: None,
        instances: 1,
    }
}

async fn sso(args: &CapacityArgs, launcher: &Launcher, title: &str) -> Result<Climb, Error> {
    let test_bed = TestBed::open(&args.common, launcher, args.common.pin)?;
    let (under_test, credentials) = test_bed.demo().await?;
    let accounts = populate(under_test.first(), &credentials, POPULATION).await?;
    let climbed = closed_loop(args, title, USERS_FIRST, &under_test, |users| {
        SsoLoad::new(accounts.clone(), users, Mix::Full { approve_share: 0.0 })
    })
    .await?;
    under_test.stop().await?;
    Ok(climbed)
}

async fn login(args: &CapacityArgs, launcher: &Launcher, title: &str) -> Result<Climb, Error> {
    let test_bed = TestBed::open(&args.common, launcher, args.common.pin)?;
    let (under_test, credentials) = test_bed.demo().await?;
    let (target, tenants) = (under_test.first(), POPULATION.tenants);
    let sign_ins = create_sign_ins(target, &credentials, tenants, SIGN_INS).await?;
    let load = |_| LoginLoad::sign_ins_only(sign_ins.clone());
    let climbed = closed_loop(args, title, SIGN_INS_FIRST, &under_test, load).await?;
    under_test.stop().await?;
    // The server hashes on few threads, so that other requests find a core.
    let ran_out = "CPU: the threads that hash passwords".to_owned();
    Ok(Climb { ran_out, advice: "use more cores, or faster ones", ..climbed })
}

async fn writes(
    args: &CapacityArgs,
    launcher: &Launcher,
    back_end: &BackEndArgs,
    title: &str,
) -> Result<Climb, Error> {
    let site = Site::open(back_end, &args.common, launcher, false).await?;
    let database = site.database("request_log", &args.common)?;
    let under_test = site.start("request_log", back_end, &database).await?;
    let climbed =
        closed_loop(args, title, USERS_FIRST, &under_test, |_| WritesLoad::new(under_test.first())).await?;
    under_test.stop().await?;
    Ok(climbed)
}

async fn attempts(
    args: &CapacityArgs,
    launcher: &Launcher,
    back_end: &BackEndArgs,
    title: &str,
) -> Result<Climb, Error> {
    let site = Site::open(back_end, &args.common, launcher, false).await?;
    let database = site.database("exam_attempts", &args.common)?;
    seed(&site, back_end, &database)?;
    let under_test = site.start("exam_attempts", back_end, &database).await?;
    let load = |_| AttemptsLoad::new(under_test.first(), ATTEMPTS);
    let climbed = closed_loop(args, title, USERS_FIRST, &under_test, load).await?;
    under_test.stop().await?;
    Ok(climbed)
}

async fn live(
    args: &CapacityArgs,
    launcher: &Launcher,
    back_end: &BackEndArgs,
    title: &str,
) -> Result<Climb, Error> {
    let site = Site::open(back_end, &args.common, launcher, false).await?;
    let database = site.database("counters", &args.common)?;
    let under_test = site.start("counters", back_end, &database).await?;
    // A user has a stream and a connection for its calls.
    let most = USERS_MAX.min(connections_max() / 2);
    let mut crowd = Crowd::open(&under_test.targets, COUNTERS, most).await?;
    let climbed = climb(title, args.bound, LIVE_USERS_FIRST, most, async |users| {
        ensure_descriptors(2 * users)?;
        let level = Level {
            users,
            writers: None,
            interval: INTERVAL,
            write_share: WRITE_SHARE,
            warm_up: args.warmup,
            duration: args.duration,
            seed: args.common.seed,
        };
        let level = level.run(&under_test, &mut crowd).await?;
        let is_in_time = u128::from(level.write_to_frame.p99_us) <= args.bound.as_micros();
        let streams =
            Held { holds: is_in_time && level.stream_failures.is_empty(), otherwise: "write -> frame" };
        Ok((level.run, Some(streams)))
    })
    .await?;
    drop(crowd);
    under_test.stop().await?;
    Ok(climbed)
}

/// A closed loop without think time.
async fn closed_loop<W: Workload>(
    args: &CapacityArgs,
    title: &str,
    first: usize,
    under_test: &ServerUnderTest,
    load: impl Fn(usize) -> W,
) -> Result<Climb, Error> {
    climb(title, args.bound, first, USERS_MAX.min(connections_max()), async |users| {
        ensure_descriptors(users)?;
        let plan = Plan {
            users,
            think: Duration::ZERO,
            rate: None,
            warm_up: args.warmup,
            duration: args.duration,
            timeout: TIMEOUT,
            seed: args.common.seed,
        };
        let load = Rc::new(load(users));
        let run: RunReport = measure(title, &under_test.targets, &under_test.monitored, &plan, load).await;
        Ok((run, None))
    })
    .await
}
