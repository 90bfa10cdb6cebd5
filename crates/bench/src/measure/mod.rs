//! Measurements: results by cause, latencies in HDR histograms, CPU and memory of the server and of the generator. It
//! prints nothing.

mod fsync;
mod lag;
mod outcome;
mod proc;
mod prometheus;
mod recorder;

pub use fsync::{FsyncCost, measure_fsync};
pub use lag::{LagProbe, PreciseTimer};
pub use outcome::{Cause, RequestKind, Verdict};
pub use proc::{
    CpuTimes, GeneratorUse, MemoryUse, ProcessUse, parse_cpu_times, parse_memory, parse_process_cpu,
    process_cpu, process_memory, reset_peak_memory,
};
pub use prometheus::{parse_metrics, scrape};
pub use recorder::{KindRecord, Recorder, Second};

/// The median; of an even number of values the upper one of the middle two. Without values it is NaN.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
