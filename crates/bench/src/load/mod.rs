//! Drives virtual users at a server, in a closed loop (each asks again when it was answered) or an open one
//! (arrivals by schedule). What an operation is, a [`Workload`] says.
//!
//! Everything runs on one thread in one `LocalSet`: the generator has one core, and so needs no locks.

mod closed_loop;
mod observe;
mod open_loop;
mod random;
mod run;
mod user;

pub use observe::SecondRow;
pub use random::Random;
pub(crate) use run::Outcome;
pub use run::{Monitored, Plan, Run, Schedule, measure};
pub use user::VirtualUser;

use std::rc::Rc;

use tokio::time::Instant;

use crate::measure::Verdict;

/// What virtual users do.
pub trait Workload: 'static {
    /// One operation: one request, or a few that belong together. `intended` is when it should have begun; the
    /// first request's latency counts from there. The verdict is that of the last request sent.
    fn operation(&self, user: &mut VirtualUser, intended: Instant) -> impl Future<Output = Verdict>;

    /// What has to go on beside the load (keeping tokens fresh); dropped when the run ends.
    fn background(self: Rc<Self>, _run: Rc<Run>) -> impl Future<Output = ()> + 'static {
        async {}
    }
}
