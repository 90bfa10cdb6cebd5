//! The server under test and the baseline in turn, in closed loop with the same connections.

use std::rc::Rc;
use std::time::Duration;

use super::{AttemptsLoad, AttemptsReport};
use crate::cli::AttemptsArgs;
use crate::load::{Plan, measure};
use crate::measure::median;
use crate::report::{print_result, progress, render};
use crate::workloads::floor::TIMEOUT;
use crate::workloads::servers::ServerUnderTest;

pub(super) async fn run(
    args: &AttemptsArgs,
    connections: usize,
    under_test: &ServerUnderTest,
    baseline: &ServerUnderTest,
) -> AttemptsReport {
    let plan = Plan {
        users: connections,
        think: Duration::ZERO,
        rate: None,
        warm_up: args.warmup,
        duration: args.duration,
        timeout: TIMEOUT,
        seed: args.common.seed,
    };
    let mut runs = Vec::new();
    let mut ratios = Vec::new();
    for round in 1..=args.rounds {
        progress(&format!("round {round} of {}", args.rounds));
        let mut rates = [0.0; 2];
        for (rate, server) in rates.iter_mut().zip([under_test, baseline]) {
            let load = Rc::new(AttemptsLoad::new(server.first(), args.attempts));
            let run = measure("attempts", &server.targets, &server.monitored, &plan, load).await;
            print_result(&render(&run));
            *rate = run.total.accepted_per_second;
            runs.push(run);
        }
        let [ours, theirs] = rates;
        let ratio = if theirs > 0.0 { ours / theirs } else { f64::INFINITY };
        print_result(&format!(
            "\nround {round}: {ours:.0} against {theirs:.0} accepted requests/s: {ratio:.2}x\n"
        ));
        ratios.push(ratio);
    }
    let median_ratio = median(ratios.clone());
    let kind = if args.unlogged { "UNLOGGED table" } else { "logged table" };
    print_result(&format!("median of {} rounds, baseline with a {kind}: {median_ratio:.2}x\n", args.rounds));
    AttemptsReport::Rounds { runs, ratios, median_ratio }
}
