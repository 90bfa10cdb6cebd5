//! `cost`: CPU of the server per request, as a ratio to the floor. Each round measures all of them, so that the ratios are
//! stable on a noisy machine. With TLS it is a second server on the same data, after the first.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use super::floor::{FloorLoad, TIMEOUT};
use super::servers::{ServerUnderTest, TestBed};
use super::sso::{Mix, SsoLoad};
use crate::cli::CostArgs;
use crate::error::Error;
use crate::http::Wire;
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
    /// Floor, subscription, device code; with `--protocols` the subscription by others too.
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

/// One request in one round.
struct Sample {
    per_second: f64,
    cpu_us: f64,
    ratio: f64,
    not_accepted: u64,
}

/// What is measured in each round.
struct Measured {
    request: &'static str,
    ratio_max: Option<f64>,
    load: Load,
    wire: Wire,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy)]
enum Load {
    Floor,
    Sso(Mix),
}

impl Measured {
    fn new(request: &'static str, load: Load, wire: Wire) -> Measured {
        Measured { request, ratio_max: None, load, wire, samples: Vec::new() }
    }

    fn with_bar(self, ratio_max: f64) -> Measured {
        Measured { ratio_max: Some(ratio_max), ..self }
    }
}

/// The servers of a run, and its results.
struct Bench<'a> {
    args: &'a CostArgs,
    floor: ServerUnderTest,
    accounts: Accounts,
    runs: Vec<RunReport>,
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
    let mut bench = Bench { args, floor, accounts, runs: Vec::new() };

    let (subscription, plain) = (Load::Sso(Mix::SubscriptionOnly), Wire::default());
    let mut measured = vec![
        Measured::new("GET / (floor)", Load::Floor, plain.clone()),
        Measured::new("GET /api/subscription", subscription, plain.clone()).with_bar(SUBSCRIPTION_RATIO_MAX),
        Measured::new("POST /auth/device/code", Load::Sso(Mix::DeviceCodeOnly), plain.clone())
            .with_bar(DEVICE_CODE_RATIO_MAX),
    ];
    if args.protocols {
        let by_http2 = "GET /api/subscription, HTTP/2";
        measured.push(Measured::new(by_http2, subscription, plain.http2()));
    }
    bench.rounds(&server, &mut measured).await?;
    let issuer = server.first().origin.clone();
    server.stop().await?;
    let mut lines: Vec<CostLine> = measured.iter().map(CostLine::new).collect();
    if args.protocols {
        let server = test_bed.encrypted(&issuer).await?;
        let tls = server.first().wire.clone();
        let mut measured = [
            Measured::new("GET / (floor)", Load::Floor, plain),
            Measured::new("GET /api/subscription, TLS", subscription, tls.clone()),
            Measured::new("GET /api/subscription, TLS, HTTP/2", subscription, tls.http2()),
        ];
        bench.rounds(&server, &mut measured).await?;
        server.stop().await?;
        // The floor has its line.
        lines.extend(measured[1..].iter().map(CostLine::new));
    }
    let Bench { floor, runs, .. } = bench;
    let report = CostReport { users: args.users, lines, runs };
    print_result(&report.render(args.rounds));
    if let Some(path) = &args.common.json {
        write_json(path, &report)?;
    }
    floor.stop().await
}

impl Bench<'_> {
    /// Measures all of it in each round. The first one is the floor.
    async fn rounds(&mut self, server: &ServerUnderTest, measured: &mut [Measured]) -> Result<(), Error> {
        for round in 1..=self.args.rounds {
            progress(&format!("round {round} of {}", self.args.rounds));
            let mut floor_us = None;
            for one in &mut *measured {
                let run = self.run(server, one).await;
                let cpu_us = cpu_us(&run)?;
                one.samples.push(Sample {
                    per_second: run.total.per_second,
                    cpu_us,
                    ratio: cpu_us / *floor_us.get_or_insert(cpu_us),
                    not_accepted: run.not_accepted(),
                });
                self.runs.push(run);
            }
        }
        Ok(())
    }

    async fn run(&self, server: &ServerUnderTest, measured: &Measured) -> RunReport {
        let plan = Plan {
            users: self.args.users,
            think: Duration::ZERO,
            rate: None,
            warm_up: self.args.warmup,
            duration: self.args.duration,
            timeout: TIMEOUT,
            seed: self.args.common.seed,
        };
        let name = format!("cost: {}", measured.request);
        match measured.load {
            Load::Floor => {
                let load = Rc::new(FloorLoad::new(self.floor.first()));
                measure(&name, &self.floor.targets, &self.floor.monitored, &plan, load).await
            }
            Load::Sso(mix) => {
                let load = Rc::new(SsoLoad::new(self.accounts.clone(), self.args.users, mix));
                let targets: Vec<_> =
                    server.targets.iter().map(|target| target.over(&measured.wire)).collect();
                measure(&name, &targets, &server.monitored, &plan, load).await
            }
        }
    }
}

fn cpu_us(run: &RunReport) -> Result<f64, Error> {
    run.server_cpu_us_per_request.filter(|cpu| *cpu > 0.0).ok_or_else(|| {
        let cause = run.failures.first().map_or("no CPU time was measured", |row| row.cause.as_str());
        Error::set_up(run.workload.clone(), format!("no CPU cost per request: {cause}"))
    })
}

impl CostLine {
    fn new(measured: &Measured) -> CostLine {
        let samples = &measured.samples;
        let median_of = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
        CostLine {
            request: measured.request,
            per_second: median_of(|sample| sample.per_second),
            cpu_us_per_request: median_of(|sample| sample.cpu_us),
            ratio: median_of(|sample| sample.ratio),
            ratio_max: measured.ratio_max,
            not_accepted: samples.iter().map(|sample| sample.not_accepted).sum(),
        }
    }
}

impl CostReport {
    fn render(&self, rounds: usize) -> String {
        let mut text = format!(
            "\ncost: {} connections, server on one core, median of {rounds} rounds\n{:<36}{:>10}{:>14}{:>10}  bar\n",
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
                "{:<36}{rate:>10}{:>14.1}{:>10.2}  {bar}\n",
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
