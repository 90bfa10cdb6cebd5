//! `revocation`: how long can another instance serve stale data after one instance has acknowledged a change?
//!
//! Beside W1 in open loop, probers make changes and poll the other instance. The time to the first answer with the change is
//! an upper bound.

mod counts;
mod probe;
mod report;

pub use report::{BrokenRow, ProbeRow, RevocationReport};

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::fault::InjectedFault;
use super::floor::TIMEOUT;
use super::servers::{ServerUnderTest, TestBed, shared_database};
use super::sso::{Mix, SsoLoad};
use crate::cli::RevocationArgs;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::load::{Plan, measure};
use crate::machine::ensure_descriptors;
use crate::report::{RunReport, print_result, progress, render, thousands, write_json};
use crate::setup::{Accounts, Credentials, Population, create_probe_accounts, populate};
use counts::{Change, ProbeCounts};
use probe::Prober;
use report::Setting;

const LOAD_DEFAULT: f64 = 0.5;
/// The run that `--load` refers to.
const CEILING_USERS: usize = 64;
const CEILING_DURATION_MAX: Duration = Duration::from_secs(10);
const CEILING_WARM_UP_MAX: Duration = Duration::from_secs(3);
const MIX: Mix = Mix::Full { approve_share: 0.0 };

/// `sarsen bench revocation`.
pub async fn revocation(args: &RevocationArgs, launcher: &Launcher) -> Result<(), Error> {
    check(args)?;
    if args.server.url.is_empty() || args.long_transaction || args.lagging_replica.is_some() {
        launcher.for_tools()?;
    }
    ensure_descriptors(args.users.max(CEILING_USERS) + 2 * args.probers)?;
    let test_bed = TestBed::open(&args.common, launcher, args.common.pin)?;
    let (under_test, credentials) = if args.server.url.is_empty() {
        test_bed.suite(args.instances, args.lagging_replica.as_deref()).await?
    } else {
        ServerUnderTest::running(&args.server).await?
    };
    let population =
        Population { tenants: args.server.tenants as usize, accounts: args.server.accounts as usize };
    let accounts = populate(under_test.first(), &credentials, population).await?;
    let report = run(args, &test_bed, &under_test, &credentials, accounts).await?;
    print_result(&report.render());
    if let Some(path) = &args.common.json {
        write_json(path, &report)?;
    }
    under_test.stop().await?;
    report.verdict()
}

fn check(args: &RevocationArgs) -> Result<(), Error> {
    let wrong = |text: &str| Err(Error::Usage(text.to_owned()));
    let database = args.common.database.as_deref();
    match args.server.url.len() {
        0 if args.instances < 2 => {
            return wrong("revocation needs two instances; use --instances 2 or more");
        }
        0 => shared_database(database, args.instances).map(drop)?,
        1 => {
            return wrong("revocation needs two instances; use --url for each of them");
        }
        _ if args.long_transaction && database.is_none() => {
            return wrong("--long-transaction needs --database: the database of the servers of --url");
        }
        _ => {}
    }
    match args.lagging_replica.as_deref() {
        Some(url) if !url.starts_with("postgres://") && !url.starts_with("postgresql://") => {
            wrong("--lagging-replica is for a standby of PostgreSQL; use postgres://…")
        }
        _ => Ok(()),
    }
}

async fn run(
    args: &RevocationArgs,
    test_bed: &TestBed<'_>,
    under_test: &ServerUnderTest,
    credentials: &Credentials,
    accounts: Accounts,
) -> Result<RevocationReport, Error> {
    progress("set-up: the organizations of the probers");
    let (admin, probe_account) = create_probe_accounts(under_test.first(), credentials, args.probers).await?;
    let (rate, rate_from, ceiling) = pace(args, under_test, &accounts).await?;
    let faults = inject_fault(args, test_bed).await?;
    let plan = Plan { users: args.users, rate: Some(rate), ..plan(args) };
    let load = Rc::new(SsoLoad::new(accounts, plan.users, MIX));

    let counts = Rc::new(RefCell::new(ProbeCounts::new()));
    let from = Instant::now() + plan.warm_up;
    let to = from + plan.duration;
    let every = Duration::from_secs_f64(args.probers as f64 / args.probe_rate);
    let mut probers = JoinSet::new();
    for (number, probe_account) in probe_account.into_iter().enumerate() {
        let prober = Prober::new(admin.clone(), probe_account, &under_test.targets, number);
        let first = from + Duration::from_secs_f64(number as f64 / args.probe_rate);
        let turns = Turns { first, every, to };
        probers.spawn_local(probe(prober, turns, number, counts.clone()));
    }
    let mut display = JoinSet::new();
    let shown = counts.clone();
    display.spawn_local(async move { show(&shown, from).await });
    let load =
        measure("sso beside revocation", &under_test.targets, &under_test.monitored, &plan, load).await;
    // The last probes may take until their time limit.
    while let Some(ended) = probers.join_next().await {
        ended.map_err(|error| Error::set_up("probing", error.to_string()))?;
    }
    drop(display);
    let disturbed_by = faults.iter().map(|(name, _)| *name).collect();
    faults.into_iter().try_for_each(|(_, fault)| fault.end())?;
    let (instances, probers) = (under_test.targets.len(), args.probers);
    let probe_rate_per_second = args.probe_rate;
    let setting = Setting {
        instances,
        probers,
        probe_rate_per_second,
        disturbed_by,
        rate_per_second: rate,
        rate_from,
        ceiling,
    };
    Ok(RevocationReport::new(setting, &counts.borrow(), load))
}

/// The schedule of a prober. It is open loop like W1, so that a second in which no change takes effect counts as a second
/// and not as one probe.
struct Turns {
    first: Instant,
    every: Duration,
    to: Instant,
}

/// Cycles through the changes until the run ends. Probers start at different changes.
async fn probe(mut prober: Prober, turns: Turns, number: usize, counts: Rc<RefCell<ProbeCounts>>) {
    let mut due = turns.first;
    for change in Change::ALL.into_iter().cycle().skip(number % Change::ALL.len()) {
        if due >= turns.to {
            return;
        }
        let prepared = prober.prepare().await;
        if Instant::now() > due + turns.every {
            counts.borrow_mut().miss();
        } else {
            sleep_until(due).await;
            let probe = match prepared {
                Ok(()) => prober.probe(change).await,
                Err(error) => Err(error),
            };
            counts.borrow_mut().note(change, probe);
        }
        due += turns.every;
    }
}

async fn show(counts: &RefCell<ProbeCounts>, from: Instant) {
    sleep_until(from).await;
    loop {
        sleep(Duration::from_secs(1)).await;
        progress(&counts.borrow().live());
    }
}

/// The rate of W1, its explanation, and the closed-loop run that it is a share of.
async fn pace(
    args: &RevocationArgs,
    under_test: &ServerUnderTest,
    accounts: &Accounts,
) -> Result<(f64, String, Option<RunReport>), Error> {
    if let Some(rate) = args.rate {
        return Ok((rate, "--rate".to_owned(), None));
    }
    progress("measuring the closed-loop rate of W1");
    let (warm_up, duration) = (args.warmup.min(CEILING_WARM_UP_MAX), args.duration.min(CEILING_DURATION_MAX));
    let plan = Plan { users: CEILING_USERS, warm_up, duration, ..plan(args) };
    let load = Rc::new(SsoLoad::new(accounts.clone(), plan.users, MIX));
    let run = measure("sso: ceiling", &under_test.targets, &under_test.monitored, &plan, load).await;
    let reached = run.operations_per_second;
    if reached <= 0.0 || run.total.accepted == 0 {
        print_result(&render(&run));
        return Err(Error::set_up("measuring the closed-loop rate of W1", "no request was accepted"));
    }
    let share = args.load.unwrap_or(LOAD_DEFAULT);
    let from = format!(
        "{share} of {}, the closed-loop rate of {CEILING_USERS} users in {:.0} s without probes",
        thousands(reached.round() as u64),
        run.duration_s
    );
    Ok((reached * share, from, Some(run)))
}

fn plan(args: &RevocationArgs) -> Plan {
    Plan {
        users: args.users,
        think: Duration::ZERO,
        rate: None,
        warm_up: args.warmup,
        duration: args.duration,
        timeout: TIMEOUT,
        seed: args.common.seed,
    }
}

/// Injects the faults of the run.
async fn inject_fault(
    args: &RevocationArgs,
    test_bed: &TestBed<'_>,
) -> Result<Vec<(&'static str, InjectedFault)>, Error> {
    let mut faults = Vec::new();
    if let Some(url) = args.common.database.as_deref().filter(|_| args.long_transaction) {
        faults.push((
            "a transaction with a write stays open",
            test_bed.inject_fault("hold-transaction", url).await?,
        ));
    }
    if let Some(url) = &args.lagging_replica {
        faults.push(("a standby does not replay", test_bed.inject_fault("pause-replay", url).await?));
    }
    Ok(faults)
}
