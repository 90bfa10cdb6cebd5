//! `floor`: a bare handler on the same HTTP stack, which is the least that a request can cost.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::servers::TestBed;
use crate::cli::FloorArgs;
use crate::error::Error;
use crate::http::{RequestDraft, Target};
use crate::launcher::Launcher;
use crate::load::{Plan, VirtualUser, Workload, measure};
use crate::machine::ensure_descriptors;
use crate::measure::{Cause, RequestKind, Verdict};
use crate::report::{print_result, render, write_json};

/// How long a client waits for an answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// `GET /`, which answers 200 "ok".
pub struct FloorLoad {
    request: Vec<u8>,
}

impl FloorLoad {
    pub fn new(target: &Target) -> FloorLoad {
        FloorLoad { request: RequestDraft::get("/").encode(&target.host) }
    }
}

impl Workload for FloorLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        user.send(RequestKind::Floor, &self.request, intended, |response| {
            match Verdict::by_status(response, 200) {
                Verdict::Accepted if response.body != b"ok" => Verdict::Failed(Cause::BadBody("not ok")),
                verdict => verdict,
            }
        })
        .await
    }
}

/// `sarsen bench floor`.
pub async fn floor(args: &FloorArgs, launcher: &Launcher) -> Result<(), Error> {
    launcher.for_tools()?;
    ensure_descriptors(args.users)?;
    let test_bed = TestBed::open(&args.common, launcher, args.common.pin)?;
    let under_test = test_bed.floor().await?;
    let plan = Plan {
        users: args.users,
        think: Duration::ZERO,
        rate: None,
        warm_up: args.time.warmup,
        duration: args.time.duration,
        timeout: TIMEOUT,
        seed: args.common.seed,
    };
    let load = Rc::new(FloorLoad::new(under_test.first()));
    let report = measure("floor", &under_test.targets, &under_test.monitored, &plan, load).await;
    print_result(&render(&report));
    if let Some(path) = &args.common.json {
        write_json(path, &report)?;
    }
    under_test.stop().await
}
