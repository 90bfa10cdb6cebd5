//! `login` (W2): sign-ins with passwords at multiples of what the machine can hash, while products go on with their reads.
//!
//! A password costs tens of milliseconds of CPU time. The server must sign in as many users as the machine can hash, refuse
//! the others at once, and answer everything else as quickly as before.

use std::cell::Cell;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::floor::TIMEOUT;
use super::servers::{ServerUnderTest, TestBed};
use super::sso::{Mix, SsoLoad};
use crate::cli::LoginArgs;
use crate::error::Error;
use crate::http::Response;
use crate::launcher::Launcher;
use crate::load::{Plan, Run, VirtualUser, Workload, measure};
use crate::machine::ensure_descriptors;
use crate::measure::{RequestKind, Verdict};
use crate::report::{KindRow, RunReport, milliseconds, print_result, progress, thousands, write_json};
use crate::setup::{Population, create_sign_ins, create_throttled_sign_in, populate};

const READERS: Population = Population { tenants: 10, accounts: 100 };
/// Enough to keep the hashing threads busy, and few enough to avoid refusals.
pub(super) const CAPACITY_USERS: usize = 4;
/// Of the capacity, from this multiple on.
const ACCEPTED_MIN: (f64, f64) = (1.0, 0.9);
const REFUSAL_P99_MAX: Duration = Duration::from_millis(50);
/// p99 of the reads: the longer of this many times the quiet one, and this much more.
const READS_SLOWER_MAX: (f64, Duration) = (3.0, Duration::from_millis(10));

/// The JSON of `sarsen bench login`.
#[derive(Serialize)]
pub struct LoginReport {
    /// Sign-ins a second in closed loop, with nothing beside them. The multiples are of this.
    pub capacity_per_second: f64,
    pub reads_per_second: f64,
    /// The reads alone.
    pub quiet: RunReport,
    pub levels: Vec<LoginLevel>,
}

/// Reads and sign-ins at a multiple of the capacity.
#[derive(Serialize)]
pub struct LoginLevel {
    pub multiple: f64,
    /// Sign-ins a second in closed loop, while as many reads are answered and as many sign-ins refused: what is left to hash.
    pub capacity_beside_per_second: f64,
    pub run: RunReport,
}

/// Sign-ins among reads.
pub struct LoginLoad {
    /// Forms that are ready to be sent, taken in turn.
    sign_ins: Rc<Vec<Vec<u8>>>,
    next: Cell<usize>,
    reads: Rc<SsoLoad>,
    /// Share of sign-ins in all operations.
    share: f64,
}

impl LoginLoad {
    pub fn new(sign_ins: Rc<Vec<Vec<u8>>>, reads: Rc<SsoLoad>, share: f64) -> LoginLoad {
        LoginLoad { sign_ins, next: Cell::new(0), reads, share }
    }
}

impl LoginLoad {
    /// Without reads.
    pub fn sign_ins_only(sign_ins: Rc<Vec<Vec<u8>>>) -> LoginLoad {
        let nobody = SsoLoad::new(Rc::default(), 0, Mix::SubscriptionOnly);
        LoginLoad::new(sign_ins, Rc::new(nobody), 1.0)
    }
}

impl Workload for LoginLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        if !user.random.chance(self.share) {
            return self.reads.operation(user, intended).await;
        }
        let turn = self.next.replace(self.next.get() + 1);
        let request = &self.sign_ins[turn % self.sign_ins.len()];
        // A wrong password is the page again, with another status.
        let judge = |response: &Response<'_>| Verdict::by_statuses(response, &[302, 303]);
        user.send(RequestKind::SignIn, request, intended, judge).await
    }

    async fn background(self: Rc<Self>, run: Rc<Run>) {
        self.reads.clone().background(run).await;
    }
}

/// `sarsen bench login`.
pub async fn login(args: &LoginArgs, launcher: &Launcher) -> Result<(), Error> {
    ensure_descriptors(args.users)?;
    let test_bed = TestBed::open(&args.common, launcher, args.common.pin)?;
    let (under_test, credentials) = test_bed.demo().await?;
    let readers = populate(under_test.first(), &credentials, READERS).await?;
    let reads = Rc::new(SsoLoad::new(readers, args.users, Mix::SubscriptionOnly));
    let tenants = READERS.tenants;
    let sign_ins = create_sign_ins(under_test.first(), &credentials, tenants, args.accounts as usize).await?;
    let refused = Rc::new(vec![create_throttled_sign_in(under_test.first(), &credentials).await?]);
    let loads = Loads { sign_ins, refused, reads };
    let load = |share| loads.sign_ins(share);

    progress("measuring how many passwords the machine can hash");
    let capacity = run(args, &under_test, CAPACITY_USERS, None, "login: capacity", load(1.0)).await;
    let capacity_per_second = capacity.total.accepted_per_second;
    if capacity_per_second <= 0.0 {
        let why = capacity.failures.iter().chain(&capacity.refusals).map(|row| row.cause.clone());
        let why = why.collect::<Vec<_>>().join(", ");
        return Err(Error::set_up("measuring the capacity", format!("no sign-in was accepted: {why}")));
    }
    progress("measuring the reads alone");
    let quiet = run(args, &under_test, args.users, Some(args.reads), "login: quiet", load(0.0)).await;
    let mut levels = Vec::new();
    for multiple in &args.multiples {
        progress(&format!("{multiple} times the capacity of {capacity_per_second:.0} sign-ins/s"));
        let capacity_beside = beside(args, &under_test, capacity_per_second, *multiple, &loads).await;
        let sign_ins_per_second = capacity_per_second * multiple;
        let rate = args.reads + sign_ins_per_second;
        let load = load(sign_ins_per_second / rate);
        let run = run(args, &under_test, args.users, Some(rate), "login", load).await;
        levels.push(LoginLevel { multiple: *multiple, capacity_beside_per_second: capacity_beside, run });
    }
    under_test.stop().await?;
    let report = LoginReport { capacity_per_second, reads_per_second: args.reads, quiet, levels };
    print_result(&report.render());
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

/// What a run is made of.
struct Loads {
    sign_ins: Rc<Vec<Vec<u8>>>,
    /// The server refuses it without hashing.
    refused: Rc<Vec<Vec<u8>>>,
    reads: Rc<SsoLoad>,
}

impl Loads {
    fn sign_ins(&self, share: f64) -> Rc<LoginLoad> {
        Rc::new(LoginLoad::new(self.sign_ins.clone(), self.reads.clone(), share))
    }

    fn refusals(&self, share: f64) -> Rc<LoginLoad> {
        Rc::new(LoginLoad::new(self.refused.clone(), self.reads.clone(), share))
    }
}

/// The sign-ins a second that the machine can hash beside the reads and the refusals of a multiple: they and the generator take
/// the same processors.
async fn beside(
    args: &LoginArgs,
    under_test: &ServerUnderTest,
    capacity_per_second: f64,
    multiple: f64,
    loads: &Loads,
) -> f64 {
    let refused = capacity_per_second * (multiple - 1.0).max(0.0);
    progress(&format!("what it can hash beside {:.0} reads and {refused:.0} refusals a second", args.reads));
    let rate = args.reads + refused;
    let others =
        run(args, under_test, args.users, Some(rate), "login: others", loads.refusals(refused / rate));
    let hashed = run(args, under_test, CAPACITY_USERS, None, "login: beside them", loads.sign_ins(1.0));
    let (hashed, _) = tokio::join!(hashed, others);
    hashed.total.accepted_per_second
}

async fn run(
    args: &LoginArgs,
    under_test: &ServerUnderTest,
    users: usize,
    rate: Option<f64>,
    title: &str,
    load: Rc<LoginLoad>,
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

impl LoginReport {
    fn render(&self) -> String {
        let quiet = row(&self.quiet, RequestKind::Subscription).map_or(0, |row| row.latency.p99_us);
        let mut text = format!(
            "\nlogin on {}: sign-ins with passwords beside {} reads a second, times in ms\n\
             capacity {:.1} sign-ins/s, with nothing beside them; reads alone p99 {}\n\
             {:>8} | {:>8} {:>8} {:>8} {:>8} {:>8} | {:>7} {:>8} | {:>8} | {:>6} | {:>7}\n",
            self.quiet.server,
            thousands(self.reads_per_second.round() as u64),
            self.capacity_per_second,
            milliseconds(quiet),
            "multiple",
            "possible",
            "accepted",
            "share %",
            "p50",
            "p99",
            "refused",
            "p99",
            "reads p99",
            "failed",
            "MiB",
        );
        // Writing to a String cannot fail.
        for level in &self.levels {
            let _ = writeln!(text, "{}", self.level(level));
        }
        for (what, held) in self.levels.iter().flat_map(|level| self.bars(level, quiet)) {
            let _ = writeln!(text, "{}: {what}", if held { "held" } else { "MISSED" });
        }
        for level in &self.levels {
            for row in &level.run.failures {
                let _ = writeln!(text, "{} times: {} × {}", level.multiple, thousands(row.count), row.cause);
            }
        }
        text
    }

    fn level(&self, level: &LoginLevel) -> String {
        let (sign_ins, reads) =
            (row(&level.run, RequestKind::SignIn), row(&level.run, RequestKind::Subscription));
        let accepted = sign_ins.map_or(0.0, |row| row.accepted_per_second);
        let of = |value: Option<u64>| value.map_or("-".to_owned(), milliseconds);
        let resident = level.run.server_memory.as_ref().map(|memory| memory.resident_bytes);
        format!(
            "{:>8} | {:>8.1} {:>8.1} {:>8.0} {:>8} {:>8} | {:>7} {:>8} | {:>9} | {:>6} | {:>7}",
            level.multiple,
            level.capacity_beside_per_second,
            accepted,
            accepted / level.capacity_beside_per_second * 100.0,
            of(sign_ins.map(|row| row.latency.p50_us)),
            of(sign_ins.map(|row| row.latency.p99_us)),
            thousands(sign_ins.map_or(0, |row| row.refused)),
            of(sign_ins.and_then(|row| row.refused_latency).map(|refused| refused.p99_us)),
            of(reads.map(|row| row.latency.p99_us)),
            thousands(level.run.total.failed),
            resident.map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1_048_576.0)),
        )
    }

    /// What WORKLOADS asks of a level, and whether it held.
    fn bars(&self, level: &LoginLevel, quiet_us: u64) -> Vec<(String, bool)> {
        let mut bars = Vec::new();
        let sign_ins = row(&level.run, RequestKind::SignIn);
        if level.multiple >= ACCEPTED_MIN.0 {
            let accepted = sign_ins.map_or(0.0, |row| row.accepted_per_second);
            let share = accepted / level.capacity_beside_per_second;
            let what = format!(
                "{} times: {:.0} % of what it can hash beside the others are accepted (at least {:.0} %)",
                level.multiple,
                share * 100.0,
                ACCEPTED_MIN.1 * 100.0
            );
            bars.push((what, share >= ACCEPTED_MIN.1));
        }
        if let Some(refused) = sign_ins.and_then(|row| row.refused_latency) {
            let what = format!(
                "{} times: p99 of refusals {} ms (at most 50)",
                level.multiple,
                milliseconds(refused.p99_us)
            );
            bars.push((what, u128::from(refused.p99_us) <= REFUSAL_P99_MAX.as_micros()));
        }
        if let Some(reads) = row(&level.run, RequestKind::Subscription) {
            let (times, more) = READS_SLOWER_MAX;
            let bound_us = ((quiet_us as f64 * times) as u64).max(quiet_us + more.as_micros() as u64);
            let what = format!(
                "{} times: p99 of reads {} ms (at most {})",
                level.multiple,
                milliseconds(reads.latency.p99_us),
                milliseconds(bound_us)
            );
            bars.push((what, reads.latency.p99_us <= bound_us));
        }
        let what = format!("{} times: no failure ({})", level.multiple, thousands(level.run.total.failed));
        bars.push((what, level.run.total.failed == 0));
        bars
    }
}

fn row(run: &RunReport, kind: RequestKind) -> Option<&KindRow> {
    run.kinds.iter().find(|row| row.request == kind.label() && row.count > 0)
}
