//! What a run is asked to do, and what it hands over to its report.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::http::Target;
use crate::measure::{CpuTimes, FsyncCost, GeneratorUse, ProcessUse, Recorder};
use crate::report::SecondRow;

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Virtual users of a closed loop; the most connections of an open loop.
    pub users: usize,
    /// Pause between two operations of a user; closed loop only.
    pub think: Duration,
    /// Operations a second of an open loop. `None`: a closed loop.
    pub rate: Option<f64>,
    pub warm_up: Duration,
    pub duration: Duration,
    /// How long a client waits for a complete answer.
    pub timeout: Duration,
    pub seed: u64,
}

/// The servers whose resources are measured.
#[derive(Debug, Clone, Default)]
pub struct Monitored {
    /// Name of the server in the report.
    pub name: String,
    /// The processes of the servers that the bench started.
    pub pids: Vec<u32>,
    /// The cores that they are pinned to.
    pub cores: Option<usize>,
    /// Where `GET /metrics` is read before and after the run.
    pub metrics: Option<Target>,
    pub fsync: Option<FsyncCost>,
}

/// The results of a run, for its report.
pub(crate) struct Outcome<'a> {
    pub monitored: &'a Monitored,
    pub plan: &'a Plan,
    pub recorder: &'a Recorder,
    pub operations: u64,
    pub opened: UsageSample,
    pub closed: UsageSample,
    pub lag_p99_us: f64,
    pub metrics_before: BTreeMap<String, f64>,
    pub metrics_after: BTreeMap<String, f64>,
    pub seconds: Vec<SecondRow>,
}

/// The resources used at the start or the end of the measured window.
pub(crate) struct UsageSample {
    pub at: Instant,
    pub answered: u64,
    /// In the order of [`Monitored::pids`].
    pub servers: Vec<ProcessUse>,
    pub machine: Option<CpuTimes>,
    pub generator: Option<GeneratorUse>,
}
