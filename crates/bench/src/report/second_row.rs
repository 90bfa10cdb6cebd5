//! One second of a run, as the live view and the JSON file have it.

use serde::Serialize;

/// One second of a run. Latencies are of all requests that ended in it, refused and failed ones too.
#[derive(Debug, Clone, Serialize)]
pub struct SecondRow {
    /// From the start of the run, with the warm-up.
    pub second: u64,
    pub warm_up: bool,
    /// Open connections.
    pub users: usize,
    pub requests: u64,
    pub accepted: u64,
    pub refused: u64,
    pub failed: u64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    /// Of all server processes together.
    pub server_resident_bytes: Option<u64>,
    /// CPU time of the servers in this second, in milliseconds: 1,000 is one full core.
    pub server_cpu_ms: Option<u64>,
}
