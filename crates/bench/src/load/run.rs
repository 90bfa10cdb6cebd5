//! One measured run: warm-up, the measured window, outstanding answers, the report.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::plan::{Monitored, Outcome, Plan, UsageSample};
use super::{Workload, closed_loop, observe, open_loop};
use crate::http::Target;
use crate::measure::{CpuTimes, GeneratorUse, LagProbe, ProcessUse, Recorder, reset_peak_memory, scrape};
use crate::report::RunReport;

/// The start of a run, and its measured window `from..to`.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    pub begin: Instant,
    pub from: Instant,
    pub to: Instant,
}

/// The state that all virtual users of a run share.
pub struct Run {
    pub targets: Vec<Target>,
    pub schedule: Schedule,
    pub timeout: Duration,
    pub seed: u64,
    pub recorder: RefCell<Recorder>,
    /// Open connections.
    pub connected: Cell<usize>,
    lag: LagProbe,
    operations: Cell<u64>,
}

impl Run {
    fn new(targets: &[Target], plan: &Plan) -> Rc<Run> {
        let begin = Instant::now();
        let from = begin + plan.warm_up;
        let to = from + plan.duration;
        Rc::new(Run {
            targets: targets.to_vec(),
            schedule: Schedule { begin, from, to },
            timeout: plan.timeout,
            seed: plan.seed,
            recorder: RefCell::new(Recorder::new(from, to)),
            connected: Cell::new(0),
            lag: LagProbe::new(),
            operations: Cell::new(0),
        })
    }

    pub(super) fn count_operation(&self, started: Instant) {
        if (self.schedule.from..self.schedule.to).contains(&started) {
            self.operations.set(self.operations.get() + 1);
        }
    }

    pub(super) fn note_lag(&self, due: Instant) {
        if due >= self.schedule.from {
            self.lag.note(due);
        }
    }
}

/// The resources used so far.
fn used_now(run: &Run, pids: &[u32]) -> UsageSample {
    UsageSample {
        at: Instant::now(),
        answered: run.recorder.borrow().answered(),
        servers: pids.iter().map(|pid| ProcessUse::now(*pid)).collect(),
        machine: CpuTimes::now(),
        generator: GeneratorUse::now(),
    }
}

/// Runs `workload` against `targets` by `plan`. Call it inside a `LocalSet` of a current-thread runtime.
pub async fn measure<W: Workload>(
    title: &str,
    targets: &[Target],
    monitored: &Monitored,
    plan: &Plan,
    workload: Rc<W>,
) -> RunReport {
    let metrics_before = scrape_store(monitored).await;
    let run = Run::new(targets, plan);
    let rows = Rc::new(RefCell::new(Vec::new()));
    let mut helpers = JoinSet::new();
    helpers.spawn_local(workload.clone().background(run.clone()));
    let (shown, kept, pids) = (run.clone(), rows.clone(), monitored.pids.clone());
    helpers.spawn_local(async move { observe::observe(&shown, &pids, &kept).await });
    let probe = helpers.spawn_local(run.lag.clone().watch(run.schedule.from));

    let mut load = JoinSet::new();
    match plan.rate {
        Some(rate) => load.spawn_local(open_loop::drive(run.clone(), workload, plan.users, rate)),
        None => load.spawn_local(closed_loop::drive(run.clone(), workload, plan.users, plan.think)),
    };
    sleep_until(run.schedule.from).await;
    monitored.pids.iter().for_each(|pid| reset_peak_memory(*pid));
    let opened = used_now(&run, &monitored.pids);
    sleep_until(run.schedule.to).await;
    let closed = used_now(&run, &monitored.pids);
    probe.abort();
    join(load).await;
    helpers.shutdown().await;

    let metrics_after = scrape_store(monitored).await;
    let outcome = Outcome {
        monitored,
        plan,
        recorder: &run.recorder.borrow(),
        operations: run.operations.get(),
        opened,
        closed,
        lag_p99_us: run.lag.p99_us(),
        metrics_before,
        metrics_after,
        seconds: rows.take(),
    };
    RunReport::new(title, outcome)
}

async fn scrape_store(monitored: &Monitored) -> BTreeMap<String, f64> {
    match &monitored.metrics {
        Some(target) => scrape(target).await,
        None => BTreeMap::new(),
    }
}

/// Waits for all tasks, and passes a panic on.
pub(super) async fn join(mut tasks: JoinSet<()>) {
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}
