//! The open loop: operations arrive by a schedule, whatever the server does. The latency counts from the scheduled start.
//! An operation without a free connection waits in the generator, and the wait is part of its latency.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Workload;
use super::run::{Run, join};
use super::user::VirtualUser;
use crate::measure::PreciseTimer;

const CONNECTS_PER_SECOND: f64 = 4_000.0;

/// Operations that wait for a connection.
#[derive(Default)]
struct Arrivals {
    due: RefCell<VecDeque<Instant>>,
    over: Cell<bool>,
    changed: Notify,
}

impl Arrivals {
    async fn next(&self) -> Option<Instant> {
        loop {
            if let Some(due) = self.due.borrow_mut().pop_front() {
                return Some(due);
            }
            if self.over.get() {
                return None;
            }
            self.changed.notified().await;
        }
    }
}

/// Starts `rate` operations a second over at most `connections`, until the schedule ends.
pub(super) async fn drive<W: Workload>(run: Rc<Run>, workload: Rc<W>, connections: usize, rate: f64) {
    let arrivals = Rc::new(Arrivals::default());
    let mut tasks = JoinSet::new();
    for index in 0..connections {
        tasks.spawn_local(serve(run.clone(), workload.clone(), arrivals.clone(), index));
    }
    pace(&run, &arrivals, rate).await;
    arrivals.over.set(true);
    // A worker that ends wakes no other one, so all are woken here.
    arrivals.changed.notify_waiters();
    join(tasks).await;
}

async fn pace(run: &Run, arrivals: &Arrivals, rate: f64) {
    let timer = PreciseTimer::new();
    for number in 0u64.. {
        let due = run.schedule.begin + Duration::from_secs_f64(number as f64 / rate);
        if due >= run.schedule.to {
            return;
        }
        if due > Instant::now() {
            timer.sleep_until(due).await;
        } else if number.is_multiple_of(64) {
            // Behind the schedule: yield now and then.
            tokio::task::yield_now().await;
        }
        run.note_lag(due);
        arrivals.due.borrow_mut().push_back(due);
        arrivals.changed.notify_one();
    }
}

async fn serve<W: Workload>(run: Rc<Run>, workload: Rc<W>, arrivals: Rc<Arrivals>, index: usize) {
    let mut user = VirtualUser::new(&run, index);
    sleep_until(run.schedule.begin + Duration::from_secs_f64(index as f64 / CONNECTS_PER_SECOND)).await;
    user.connect().await;
    while let Some(due) = arrivals.next().await {
        let _ = workload.operation(&mut user, due).await;
        user.operations += 1;
        run.count_operation(due);
    }
}
