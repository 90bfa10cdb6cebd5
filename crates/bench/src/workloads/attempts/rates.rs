//! Open loop: each rate in turn, and the highest one that is held.

use std::rc::Rc;
use std::time::Duration;

use super::{AttemptsLoad, AttemptsReport};
use crate::cli::AttemptsArgs;
use crate::error::Error;
use crate::load::{Plan, measure};
use crate::report::{RunReport, milliseconds, print_result, progress, render, thousands};
use crate::workloads::floor::TIMEOUT;
use crate::workloads::servers::ServerUnderTest;

const MEAN_US_MAX: f64 = 20_000.0;
const MAX_US_MAX: u64 = 1_000_000;
/// From one rate of the search for the ceiling to the next.
const STEP: f64 = 1.25;
/// The search downwards ends here.
const RATE_MIN: f64 = 100.0;
/// A run that delivers less than this share of its rate did not reach it.
const REACHED: f64 = 0.99;

pub(super) async fn run(
    args: &AttemptsArgs,
    connections: usize,
    under_test: &ServerUnderTest,
) -> Result<AttemptsReport, Error> {
    let mut runs = Vec::new();
    let mut held: Option<f64> = None;
    for rate in &args.rates {
        let run = one(args, connections, under_test, *rate).await;
        print_result(&render(&run));
        print_result(&line(&run));
        if holds(&run) {
            held = Some(held.unwrap_or(0.0).max(*rate));
        }
        runs.push(run);
    }
    if args.ceiling {
        let last = args.rates.last().copied().unwrap_or(RATE_MIN);
        // Upwards from a rate that is held, otherwise downwards from the lowest one.
        let goes_up = held == Some(last);
        let lowest = args.rates.iter().copied().fold(last, f64::min);
        let mut rate = if goes_up { last * STEP } else { lowest / STEP };
        while (goes_up || held.is_none()) && rate >= RATE_MIN {
            progress(&format!("ceiling: {} requests/s", thousands(rate.round() as u64)));
            let run = one(args, connections, under_test, rate).await;
            print_result(&line(&run));
            let is_held = holds(&run);
            runs.push(run);
            if is_held {
                held = Some(rate);
            }
            if is_held != goes_up {
                break;
            }
            rate = if goes_up { rate * STEP } else { rate / STEP };
        }
    }
    print_result(&match held {
        Some(rate) => {
            format!("\nhighest rate that was held: {} requests/s\n", thousands(rate.round() as u64))
        }
        None => "\nno rate was held\n".to_owned(),
    });
    Ok(AttemptsReport::Rates { runs, held_per_second: held })
}

async fn one(args: &AttemptsArgs, connections: usize, under_test: &ServerUnderTest, rate: f64) -> RunReport {
    let plan = Plan {
        users: connections,
        think: Duration::ZERO,
        rate: Some(rate),
        warm_up: args.warmup,
        duration: args.duration,
        timeout: TIMEOUT,
        seed: args.common.seed,
    };
    let load = Rc::new(AttemptsLoad::new(under_test.first(), args.attempts));
    measure("attempts", &under_test.targets, &under_test.monitored, &plan, load).await
}

fn holds(run: &RunReport) -> bool {
    let reached = run.intended_per_second.is_some_and(|rate| run.total.accepted_per_second >= REACHED * rate);
    let latency = &run.total.latency;
    reached && run.not_accepted() == 0 && latency.mean_us < MEAN_US_MAX && latency.max_us < MAX_US_MAX
}

fn line(run: &RunReport) -> String {
    let latency = &run.total.latency;
    format!(
        "{:>8} requests/s by schedule: {:>8} accepted, mean {:>8}  p99 {:>8}  max {:>8} ms, not accepted {:>6}: {}{}\n",
        thousands(run.intended_per_second.unwrap_or_default().round() as u64),
        thousands(run.total.accepted_per_second.round() as u64),
        milliseconds(latency.mean_us.round() as u64),
        milliseconds(latency.p99_us),
        milliseconds(latency.max_us),
        thousands(run.not_accepted()),
        if holds(run) { "held (mean < 20 ms, max < 1 s)" } else { "not held" },
        if run.generator.bound { ", GENERATOR-BOUND" } else { "" },
    )
}
