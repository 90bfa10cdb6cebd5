//! The cost of a durable write on this machine without a database: append 4 KiB, `fdatasync`, repeat.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::error::Error;

const WRITES_MAX: usize = 2_000;
const TIME_MAX: Duration = Duration::from_secs(3);
const PAGE_BYTES: usize = 4096;
/// `f_type` of tmpfs, which writes nothing to a disk.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Cost of one append with `fdatasync` in one directory, in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct FsyncCost {
    pub writes: u64,
    pub p50_us: u64,
    pub p99_9_us: u64,
    pub max_us: u64,
    /// The directory is in memory, so its writes are not durable.
    pub in_memory: bool,
}

/// Measures in `directory` for at most three seconds, with a temporary file.
pub fn measure_fsync(directory: &Path) -> Result<FsyncCost, Error> {
    let path = directory.join("fsync-probe");
    let what = || Error::io(format!("cannot measure fsync in {}", directory.display()));
    let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(what())?;
    let mut histogram = Histogram::<u64>::new_with_max(60_000_000, 3)
        .map_err(|error| Error::Usage(format!("histogram: {error}")))?;
    let begun = Instant::now();
    let page = [0x5a; PAGE_BYTES];
    for _ in 0..WRITES_MAX {
        let started = Instant::now();
        file.write_all(&page).and_then(|()| file.sync_data()).map_err(what())?;
        histogram.saturating_record(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        if begun.elapsed() > TIME_MAX {
            break;
        }
    }
    std::fs::remove_file(&path).map_err(what())?;
    Ok(FsyncCost {
        writes: histogram.len(),
        p50_us: histogram.value_at_quantile(0.5),
        p99_9_us: histogram.value_at_quantile(0.999),
        max_us: histogram.max(),
        in_memory: is_in_memory(directory),
    })
}

#[cfg(target_os = "linux")]
fn is_in_memory(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|stat| stat.f_type as u64 == TMPFS_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_directory: &Path) -> bool {
    let _ = TMPFS_MAGIC;
    false
}
