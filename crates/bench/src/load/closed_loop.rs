//! The closed loop: each virtual user sends a request, waits for the answer and the think time, and repeats. A slow server
//! gets less load, so the report names the loop.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::Workload;
use super::run::{Run, join};
use super::user::VirtualUser;
use crate::measure::Verdict;

/// The pause of a user after a failure, so that a dead server does not get a million requests a second.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// New connections a second while the users arrive.
const ARRIVALS_PER_SECOND: f64 = 4_000.0;

/// Runs `users` until the schedule ends, then waits for outstanding answers.
pub(super) async fn drive<W: Workload>(run: Rc<Run>, workload: Rc<W>, users: usize, think: Duration) {
    let ramp = think.max(Duration::from_secs_f64(users as f64 / ARRIVALS_PER_SECOND));
    let mut tasks = JoinSet::new();
    for index in 0..users {
        let arrival = run.schedule.begin + ramp.mul_f64(index as f64 / users as f64);
        tasks.spawn_local(live(run.clone(), workload.clone(), index, arrival, think));
    }
    join(tasks).await;
}

async fn live<W: Workload>(run: Rc<Run>, workload: Rc<W>, index: usize, arrival: Instant, think: Duration) {
    let mut user = VirtualUser::new(&run, index);
    sleep_until(arrival).await;
    loop {
        let now = Instant::now();
        if now >= run.schedule.to {
            return;
        }
        let verdict = workload.operation(&mut user, now).await;
        user.operations += 1;
        run.count_operation(now);
        let pause = match verdict {
            Verdict::Accepted => think,
            Verdict::Refused { after, .. } => after.max(think),
            Verdict::Failed(_) => PAUSE_AFTER_FAILURE.max(think),
        };
        if !pause.is_zero() {
            let left = run.schedule.to.saturating_duration_since(Instant::now());
            sleep(pause.min(left)).await;
        }
    }
}
