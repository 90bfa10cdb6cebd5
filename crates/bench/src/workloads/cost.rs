//! `cost`: CPU of the server per request, as a ratio to the floor. Each round measures all three, so that the ratios are
//! stable on a noisy machine.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use super::floor::{FloorLoad, TIMEOUT};
use super::servers::{ServerUnderTest, TestBed};
use super::sso::{Mix, SsoLoad};
use crate::cli::CostArgs;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::load::{Plan, measure};
use crate::machine::ensure_descriptors;
use crate::measure::median;
use crate::report::{RunReport, print_result, progress, thousands, write_json};
use crate::setup::{Accounts, Population, populate};

const TENANTS_MAX: usize = 20;
/// Bars, as multiples of the CPU of the floor.
const SUBSCRIPTION_RATIO_MAX: f64 = 1.8;
const DEVICE_CODE_RATIO_MAX: f64 = 4.0;

/// The JSON of `sarsen bench cost`.
#[derive(Serialize)]
pub struct CostReport {
    pub users: usize,
    /// Floor, subscription, device code.
    pub lines: Vec<CostLine>,
    /// In the order in which they were run.
    pub runs: Vec<RunReport>,
}

/// Medians over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct CostLine {
    pub request: &'static str,
    pub per_second: f64,
    pub cpu_us_per_request: f64,
    /// To the floor of the same round.
    pub ratio: f64,
    pub ratio_max: Option<f64>,
    /// Requests that were not accepted, over all rounds. They invalidate the ratio.
    pub not_accepted: u64,
}

/// One of the three in one round.
struct Sample {
    per_second: f64,
    cpu_us: f64,
    ratio: f64,
    not_accepted: u64,
}

/// `sarsen bench cost`.
pub async fn cost(args: &CostArgs, launcher: &Launcher) -> Result<(), Error> {
    launcher.for_tools()?;
    ensure_descriptors(args.users)?;
    let test_bed = TestBed::open(&args.common, launcher, true)?;
    let floor = test_bed.floor().await?;
    let (server, credentials) = test_bed.demo().await?;
    let accounts = args.accounts as usize;
    let population = Population { tenants: TENANTS_MAX.min(accounts), accounts };
    let accounts = populate(server.first(), &credentials, population).await?;

    let mut runs = Vec::new();
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for round in 1..=args.rounds {
        progress(&format!("round {round} of {}", args.rounds));
        let three = one_round(args, &floor, &server, &accounts).await;
        let floor_us = cpu_us(&three[0])?;
        for (run, samples) in three.iter().zip(&mut samples) {
            let cpu_us = cpu_us(run)?;
            samples.push(Sample {
                per_second: run.total.per_second,
                cpu_us,
                ratio: cpu_us / floor_us,
                not_accepted: run.not_accepted(),
            });
        }
        runs.extend(three);
    }
    let [floor_samples, subscription, device_code] = samples;
    let lines = vec![
        CostLine::new("GET / (floor)", &floor_samples, None),
        CostLine::new("GET /api/subscription", &subscription, Some(SUBSCRIPTION_RATIO_MAX)),
        CostLine::new("POST /auth/device/code", &device_code, Some(DEVICE_CODE_RATIO_MAX)),
    ];
    let report = CostReport { users: args.users, lines, runs };
    print_result(&report.render(args.rounds));
    if let Some(path) = &args.common.json {
        write_json(path, &report)?;
    }
    server.stop().await?;
    floor.stop().await
}

async fn one_round(
    args: &CostArgs,
    floor: &ServerUnderTest,
    server: &ServerUnderTest,
    accounts: &Accounts,
) -> [RunReport; 3] {
    let plan = Plan {
        users: args.users,
        think: Duration::ZERO,
        rate: None,
        warm_up: args.warmup,
        duration: args.duration,
        timeout: TIMEOUT,
        seed: args.common.seed,
    };
    let load = Rc::new(FloorLoad::new(floor.first()));
    let floor = measure("cost: floor", &floor.targets, &floor.monitored, &plan, load).await;
    let sso = |mix| Rc::new(SsoLoad::new(accounts.clone(), args.users, mix));
    let (targets, monitored) = (&server.targets, &server.monitored);
    let load = sso(Mix::SubscriptionOnly);
    let subscription = measure("cost: subscription", targets, monitored, &plan, load).await;
    let load = sso(Mix::DeviceCodeOnly);
    let device_code = measure("cost: device code", targets, monitored, &plan, load).await;
    [floor, subscription, device_code]
}

fn cpu_us(run: &RunReport) -> Result<f64, Error> {
    run.server_cpu_us_per_request.filter(|cpu| *cpu > 0.0).ok_or_else(|| {
        let cause = run.failures.first().map_or("no CPU time was measured", |row| row.cause.as_str());
        Error::set_up(run.workload.clone(), format!("no CPU cost per request: {cause}"))
    })
}

impl CostLine {
    fn new(request: &'static str, samples: &[Sample], ratio_max: Option<f64>) -> CostLine {
        let median_of = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
        CostLine {
            request,
            per_second: median_of(|sample| sample.per_second),
            cpu_us_per_request: median_of(|sample| sample.cpu_us),
            ratio: median_of(|sample| sample.ratio),
            ratio_max,
            not_accepted: samples.iter().map(|sample| sample.not_accepted).sum(),
        }
    }
}

impl CostReport {
    fn render(&self, rounds: usize) -> String {
        let mut text = format!(
            "\ncost: {} connections, server on one core, median of {rounds} rounds\n{:<28}{:>10}{:>14}{:>10}  bar\n",
            self.users, "request", "req/s", "CPU us/req", "x floor"
        );
        for line in &self.lines {
            let bar = match line.ratio_max {
                Some(most) if line.ratio <= most => format!("<= {most} held"),
                Some(most) => format!("<= {most} MISSED"),
                None => String::new(),
            };
            let rate = thousands(line.per_second.round() as u64);
            text.push_str(&format!(
                "{:<28}{rate:>10}{:>14.1}{:>10.2}  {bar}\n",
                line.request, line.cpu_us_per_request, line.ratio
            ));
            if line.not_accepted > 0 {
                text.push_str(&format!(
                    "  INVALID: {} requests were not accepted\n",
                    thousands(line.not_accepted)
                ));
            }
        }
        if self.runs.iter().any(|run| run.generator.bound) {
            text.push_str(
                "the generator was the bottleneck of a run: CPU per request is valid, req/s is not\n",
            );
        }
        text
    }
}
