//! `sso` (W1): subscription checks, device codes and reads of users, over many tenants. Each account has its own token.

mod approval;
mod baseline;
mod ceiling;
mod tokens;

pub use ceiling::{CeilingReport, find_ceiling};

use std::rc::Rc;

use serde::Serialize;
use tokio::time::Instant;

use super::floor::TIMEOUT;
use super::servers::{ServerUnderTest, TestBed, shared_database};
use crate::cli::{Only, SsoArgs};
use crate::error::Error;
use crate::http::Response;
use crate::json_scan::string_field;
use crate::launcher::Launcher;
use crate::load::{Plan, Run, VirtualUser, Workload, measure};
use crate::machine::{connections_max, ensure_descriptors};
use crate::measure::{Cause, RequestKind, Verdict, median};
use crate::memory_limit::{MemoryLimit, System};
use crate::report::{RunReport, print_result, progress, render, write_json};
use crate::setup::{Account, Accounts, Population, populate, refresh_tokens};
use approval::approve;
use baseline::baseline_accounts;
use tokens::many_tokens;

const USERS_DEFAULT: usize = 1_000;
const SUBSCRIPTION_PERCENT: u32 = 70;
const DEVICE_PERCENT: u32 = 20;

/// The mix of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mix {
    /// 70 % subscription, 20 % device flow, 10 % user. A share of `approve_share` of the device codes is approved and redeemed.
    Full { approve_share: f64 },
    /// `GET /api/subscription` alone.
    SubscriptionOnly,
    /// `POST /auth/device/code` alone.
    DeviceCodeOnly,
}

pub struct SsoLoad {
    accounts: Accounts,
    /// Users of the run. With fewer users than accounts, each user takes several accounts in turn.
    users: usize,
    mix: Mix,
}

impl SsoLoad {
    pub fn new(accounts: Accounts, users: usize, mix: Mix) -> SsoLoad {
        SsoLoad { accounts, users, mix }
    }

    fn account_of(&self, user: &VirtualUser) -> &Account {
        let count = self.accounts.len();
        let rounds = if self.users < count { user.operations * self.users } else { 0 };
        &self.accounts[(user.index + rounds) % count]
    }
}

impl Workload for SsoLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let account = self.account_of(user);
        let approve_share = match self.mix {
            Mix::SubscriptionOnly => return subscription(user, account, intended).await,
            Mix::DeviceCodeOnly => return device_code(user, account, intended).await,
            Mix::Full { approve_share } => approve_share,
        };
        match user.random.below(100) {
            0..SUBSCRIPTION_PERCENT => subscription(user, account, intended).await,
            share if share < SUBSCRIPTION_PERCENT + DEVICE_PERCENT => {
                device_flow(user, account, intended, approve_share).await
            }
            _ => read_user(user, account, intended).await,
        }
    }

    async fn background(self: Rc<Self>, run: Rc<Run>) {
        refresh_tokens(self.accounts.clone(), run).await;
    }
}

async fn subscription(user: &mut VirtualUser, account: &Account, intended: Instant) -> Verdict {
    let judge = |response: &Response<'_>| match Verdict::by_status(response, 200) {
        Verdict::Accepted => has(response, "plan", account.plan.as_deref(), "plan is not the account's"),
        verdict => verdict,
    };
    user.send(RequestKind::Subscription, &account.requests().subscription, intended, judge).await
}

async fn read_user(user: &mut VirtualUser, account: &Account, intended: Instant) -> Verdict {
    let judge = |response: &Response<'_>| match Verdict::by_status(response, 200) {
        Verdict::Accepted => has(response, "id", account.user_id.as_deref(), "id is not the account's"),
        verdict => verdict,
    };
    user.send(RequestKind::User, &account.requests().user, intended, judge).await
}

async fn device_code(user: &mut VirtualUser, account: &Account, intended: Instant) -> Verdict {
    let judge = |response: &Response<'_>| match Verdict::by_status(response, 200) {
        Verdict::Accepted if string_field(response.body, "user_code").is_none_or(<[u8]>::is_empty) => {
            Verdict::Failed(Cause::BadBody("no user_code"))
        }
        Verdict::Accepted => has(response, "device_code", None, "no device_code"),
        verdict => verdict,
    };
    user.send(RequestKind::DeviceCode, &account.requests().device_code, intended, judge).await
}

async fn device_flow(
    user: &mut VirtualUser,
    account: &Account,
    intended: Instant,
    approve_share: f64,
) -> Verdict {
    let verdict = device_code(user, account, intended).await;
    if verdict != Verdict::Accepted {
        return verdict;
    }
    let field = |name| string_field(user.body(), name).map(|text| String::from_utf8_lossy(text).into_owned());
    let device_code = field("device_code").unwrap_or_default();
    let user_code = field("user_code").unwrap_or_default();
    let page = field("verification_uri_complete").or_else(|| field("verification_uri")).unwrap_or_default();

    let pending = |response: &Response<'_>| match response.status {
        400 if string_field(response.body, "error") == Some(b"authorization_pending") => Verdict::Accepted,
        // A pending code must never give tokens.
        200 => Verdict::Failed(Cause::BadBody("tokens without approval")),
        400 => Verdict::Failed(Cause::status(response)),
        _ => Verdict::by_status(response, 400),
    };
    let poll = account.poll(&device_code);
    let verdict = user.send(RequestKind::DevicePoll, &poll, Instant::now(), pending).await;
    if verdict == Verdict::Accepted && account.has_browser() && user.random.chance(approve_share) {
        return approve(user, account, &page, &user_code, &poll).await;
    }
    verdict
}

/// The string member `name` must be `expected`, or any string if that is unknown.
fn has(response: &Response<'_>, name: &str, expected: Option<&str>, otherwise: &'static str) -> Verdict {
    let accepted = match (string_field(response.body, name), expected) {
        (Some(found), Some(expected)) => found == expected.as_bytes(),
        (Some(found), None) => !found.is_empty(),
        (None, _) => false,
    };
    if accepted { Verdict::Accepted } else { Verdict::Failed(Cause::BadBody(otherwise)) }
}

/// The JSON of `sarsen bench sso`: for each round the server under test, then the baseline if there is one.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum SsoReport {
    Runs(Vec<RunReport>),
    Ceilings(Vec<CeilingReport>),
}

/// `sarsen bench sso`.
pub async fn sso(args: &SsoArgs, launcher: &Launcher) -> Result<(), Error> {
    if args.many.tokens.is_some() {
        return many_tokens(args, &args.many, launcher).await;
    }
    if shared_database(args.common.database.as_deref(), args.instances)?.is_some() {
        launcher.for_tools()?;
    }
    let users = match args.users {
        Some(users) => users,
        None if args.ceiling => connections_max(),
        None => USERS_DEFAULT,
    };
    if !args.ceiling {
        ensure_descriptors(users)?;
    }
    let limit = args.memory_max.map(|mebibytes| MemoryLimit::open(mebibytes, &System::real()));
    let limited = limit.as_ref().map_or_else(|| launcher.clone(), |limit| limit.over(launcher));
    let test_bed = TestBed::open(&args.common, &limited, args.common.pin)?;
    let mut report = if args.ceiling { SsoReport::Ceilings(Vec::new()) } else { SsoReport::Runs(Vec::new()) };

    let (mut under_test, credentials) = if args.server.url.is_empty() {
        test_bed.suite(args.instances, None).await?
    } else {
        ServerUnderTest::running(&args.server).await?
    };
    if let Some(limit) = &limit {
        under_test.monitored.name = format!("{}, {}", under_test.monitored.name, limit.describe());
    }
    let population =
        Population { tenants: args.server.tenants as usize, accounts: args.server.accounts as usize };
    let accounts = populate(under_test.first(), &credentials, population).await?;
    let mut contenders = vec![(under_test, accounts)];
    if let Some(program) = &args.baseline {
        progress("starting the baseline");
        let (under_test, said) = test_bed.baseline(program).await?;
        let accounts = baseline_accounts(under_test.first(), &said).await?;
        contenders.push((under_test, accounts));
    }
    for round in 1..=args.rounds {
        if args.rounds > 1 {
            progress(&format!("round {round} of {}", args.rounds));
        }
        for (under_test, accounts) in &contenders {
            run_one(args, users, under_test, accounts, &mut report).await?;
        }
    }
    for (under_test, _) in contenders {
        under_test.stop().await?;
    }
    report.compare();
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

async fn run_one(
    args: &SsoArgs,
    users: usize,
    under_test: &ServerUnderTest,
    accounts: &Accounts,
    report: &mut SsoReport,
) -> Result<(), Error> {
    let mix = match args.only {
        Some(Only::Subscription) => Mix::SubscriptionOnly,
        Some(Only::DeviceCode) => Mix::DeviceCodeOnly,
        None => Mix::Full { approve_share: args.approve_share },
    };
    let plan = Plan {
        users,
        think: args.think,
        rate: args.open_loop,
        warm_up: args.warmup,
        duration: args.duration,
        timeout: TIMEOUT,
        seed: args.common.seed,
    };
    match report {
        SsoReport::Runs(runs) => {
            let load = Rc::new(SsoLoad::new(accounts.clone(), users, mix));
            let run = measure("sso", &under_test.targets, &under_test.monitored, &plan, load).await;
            print_result(&render(&run));
            runs.push(run);
        }
        SsoReport::Ceilings(ceilings) => {
            ceilings.push(find_ceiling(under_test, accounts, mix, &plan).await?);
        }
    }
    Ok(())
}

impl SsoReport {
    /// Prints a line with server and baseline for each round.
    fn compare(&self) {
        let best: Vec<Option<&RunReport>> = match self {
            SsoReport::Runs(runs) => runs.iter().map(Some).collect(),
            SsoReport::Ceilings(ceilings) => ceilings.iter().map(CeilingReport::best).collect(),
        };
        let mut ratios = Vec::new();
        for pair in best.as_chunks::<2>().0 {
            let [Some(ours), Some(baseline)] = pair else { continue };
            let times = |ours: f64, theirs: f64| if theirs > 0.0 { ours / theirs } else { f64::INFINITY };
            ratios.push(times(ours.total.accepted_per_second, baseline.total.accepted_per_second));
            print_result(&format!(
                "\n{} against {}: {:.2}x accepted req/s, {:.2}x p99, {} against {} not accepted\n",
                ours.server,
                baseline.server,
                times(ours.total.accepted_per_second, baseline.total.accepted_per_second),
                times(ours.total.latency.p99_us as f64, baseline.total.latency.p99_us as f64),
                ours.not_accepted(),
                baseline.not_accepted(),
            ));
        }
        if ratios.len() > 1 {
            let rounds = ratios.len();
            print_result(&format!("median of {rounds} rounds: {:.2}x accepted req/s\n", median(ratios)));
        }
    }
}
