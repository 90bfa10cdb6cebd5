//! Drives virtual users in a closed loop (each waits for its answer) or in an open loop (arrivals by schedule). A
//! [`Workload`] defines the operations.
//!
//! Everything runs on one thread in one `LocalSet`: the generator has one core and needs no locks.

mod closed_loop;
mod observe;
mod open_loop;
mod plan;
mod random;
mod run;
mod user;

pub(crate) use plan::Outcome;
pub use plan::{Monitored, Plan};
pub use random::Random;
pub use run::{Run, Schedule, measure};
pub use user::VirtualUser;

use std::rc::Rc;

use tokio::time::Instant;

use crate::measure::Verdict;

/// The operations of virtual users.
pub trait Workload: 'static {
    /// One operation: one request, or several that belong together. The latency of the first request counts from
    /// `intended`, the scheduled start. The verdict is that of the last request.
    fn operation(&self, user: &mut VirtualUser, intended: Instant) -> impl Future<Output = Verdict>;

    /// A task beside the load, such as refreshing tokens. It is dropped when the run ends.
    fn background(self: Rc<Self>, _run: Rc<Run>) -> impl Future<Output = ()> + 'static {
        async {}
    }
}
