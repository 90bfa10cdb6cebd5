//! `live` (W4): users of the back end `counters` that watch a counter on a stream and call the API, more of them in each
//! level. The live path is measured too: which events arrive, how late, and whether the end state is right.

mod board;
mod crowd;
mod end_state;
mod report;

pub use end_state::EndState;
pub use report::{LiveLevel, LiveReport};

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use self::board::{Board, WithCounter};
pub(super) use self::crowd::Crowd;
use self::crowd::User;
use super::back_end::{Database, Site, running};
use super::floor::TIMEOUT;
use super::servers::ServerUnderTest;
use crate::cli::LiveArgs;
use crate::error::Error;
use crate::http::Response;
use crate::launcher::Launcher;
use crate::load::{Plan, Run, VirtualUser, Workload, measure};
use crate::machine::{connections_max, ensure_descriptors};
use crate::measure::{Cause, RequestKind, Verdict};
use crate::report::{print_result, write_json};

const NAME: &str = "counters";
/// Warm-up of the levels after the first one, at most.
const WARM_UP_MAX: Duration = Duration::from_secs(3);
/// Of 7 reads, these are `get_counter`.
const GETS_OF_SEVEN: u32 = 5;

/// The calls of the users of one level.
struct LiveLoad {
    users: Vec<Rc<User>>,
    board: Rc<Board>,
    /// The chance of an increment. `None`: writers increment counters of all users.
    write_share: Option<f64>,
}

impl Workload for LiveLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let Some(share) = self.write_share else {
            let of = user.random.below(self.users.len() as u32) as usize;
            return self.increment(user, &self.users[of], intended).await;
        };
        let own = &self.users[user.index % self.users.len()];
        if user.random.chance(share) {
            self.increment(user, own, intended).await
        } else if user.random.below(7) < GETS_OF_SEVEN {
            user.send(RequestKind::GetCounter, &own.get, intended, |response| {
                counter_value(response).map_or_else(|verdict| verdict, |_| Verdict::Accepted)
            })
            .await
        } else {
            user.send(RequestKind::ListCounters, &own.list, intended, |response| {
                Verdict::by_status(response, 200)
            })
            .await
        }
    }

    async fn background(self: Rc<Self>, run: Rc<Run>) {
        self.board.open_window(run.schedule.from, run.schedule.to);
    }
}

impl LiveLoad {
    async fn increment(&self, user: &mut VirtualUser, of: &User, intended: Instant) -> Verdict {
        user.send(RequestKind::Increment, &of.increment, intended, |response| match counter_value(response) {
            Ok(value) => {
                self.board.accepted(of.counter, value, intended);
                Verdict::Accepted
            }
            Err(verdict) => verdict,
        })
        .await
    }
}

fn counter_value(response: &Response<'_>) -> Result<u64, Verdict> {
    match Verdict::by_status(response, 200) {
        Verdict::Accepted => serde_json::from_slice::<WithCounter>(response.body)
            .map(|answer| answer.value.value)
            .map_err(|_| Verdict::Failed(Cause::BadBody("no counter"))),
        verdict => Err(verdict),
    }
}

/// `sarsen bench live`.
pub async fn live(args: &LiveArgs, launcher: &Launcher) -> Result<(), Error> {
    // A user has a stream and a connection for its calls.
    let most = args.connections.unwrap_or_else(|| connections_max() / 2);
    ensure_descriptors(descriptors(args, args.users.min(most)))?;
    let site;
    let under_test = if args.back_end.url.is_empty() {
        site = Site::open(&args.back_end, &args.common, launcher, !args.no_replica).await?;
        let database = site.database(NAME, &args.common)?;
        let database = Database { replica: args.replica.clone().or(database.replica), ..database };
        site.start(NAME, &args.back_end, &database).await?
    } else {
        running(NAME, &args.back_end)?
    };
    let mut crowd = Crowd::open(&under_test.targets, args.counters, most).await?;
    print_result(&report::heading(&under_test.monitored.name, args));
    let (levels, ended) = ramp(args, most, &under_test, &mut crowd).await?;
    let end_state = end_state::settle(&crowd, &levels, args.settle).await?;
    let report = LiveReport::new(levels, ended, end_state);
    print_result(&report.render());
    if let Some(path) = &args.common.json {
        write_json(path, &report)?;
    }
    drop(crowd);
    under_test.stop().await?;
    report.verdict()
}

fn descriptors(args: &LiveArgs, users: usize) -> usize {
    users + args.writers.unwrap_or(users)
}

/// Level after level, until one is too slow or fails too often. Also returns why it ended.
async fn ramp(
    args: &LiveArgs,
    most: usize,
    under_test: &ServerUnderTest,
    crowd: &mut Crowd,
) -> Result<(Vec<LiveLevel>, String), Error> {
    let mut levels = Vec::new();
    let mut users = args.users.min(most);
    loop {
        ensure_descriptors(descriptors(args, users))?;
        let level = Level {
            users,
            writers: args.writers,
            interval: args.interval,
            write_share: args.write_share,
            warm_up: if levels.is_empty() { args.warmup } else { args.warmup.min(WARM_UP_MAX) },
            duration: args.duration,
            seed: args.common.seed,
        };
        let level = level.run(under_test, crowd).await?;
        print_result(&level.row());
        let too_much = level.too_much();
        levels.push(level);
        if let Some(why) = too_much {
            return Ok((levels, why));
        }
        if users >= most {
            return Ok((levels, "all users were there".to_owned()));
        }
        users = (users + args.step).min(most);
    }
}

/// One number of users.
pub(super) struct Level {
    pub users: usize,
    /// With writers, users only watch.
    pub writers: Option<usize>,
    pub interval: Duration,
    pub write_share: f64,
    pub warm_up: Duration,
    pub duration: Duration,
    pub seed: u64,
}

impl Level {
    /// Lets users arrive until there are enough, then measures.
    pub(super) async fn run(
        self,
        under_test: &ServerUnderTest,
        crowd: &mut Crowd,
    ) -> Result<LiveLevel, Error> {
        crowd.grow_to(self.users).await?;
        // What failed while the users arrived is a failure of this level.
        let arrived = crowd.board.take_counts().failures;
        let load = Rc::new(LiveLoad {
            users: crowd.users.clone(),
            board: crowd.board.clone(),
            write_share: self.writers.is_none().then_some(self.write_share),
        });
        let plan = Plan {
            users: self.writers.unwrap_or(self.users),
            think: if self.writers.is_some() { Duration::ZERO } else { self.interval },
            rate: None,
            warm_up: self.warm_up,
            duration: self.duration,
            timeout: TIMEOUT,
            seed: self.seed,
        };
        let run = measure("live", &under_test.targets, &under_test.monitored, &plan, load).await;
        Ok(LiveLevel::new(self.users, run, &crowd.board.take_counts(), arrived))
    }
}
