//! Readings of `/proc`: CPU time and memory of the server, CPU steal of the machine, CPU time of the generator. A reading
//! that is not available is `None`, never zero.

use std::fs;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    pub resident_bytes: u64,
    /// From the start of the process, or from [`reset_peak_memory`].
    pub peak_bytes: u64,
}

/// The resources of a process, or of several. A sum is known if all parts are.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessUse {
    pub cpu: Option<Duration>,
    pub memory: Option<MemoryUse>,
}

impl ProcessUse {
    pub fn now(pid: u32) -> ProcessUse {
        ProcessUse { cpu: process_cpu(pid), memory: process_memory(pid) }
    }

    pub fn sum_now(pids: &[u32]) -> ProcessUse {
        let uses: Vec<ProcessUse> = pids.iter().map(|pid| ProcessUse::now(*pid)).collect();
        ProcessUse::sum(&uses)
    }

    /// The sum of the peaks is an upper bound: they may be at different times.
    pub fn sum(uses: &[ProcessUse]) -> ProcessUse {
        let add = |(left, right): (MemoryUse, MemoryUse)| MemoryUse {
            resident_bytes: left.resident_bytes + right.resident_bytes,
            peak_bytes: left.peak_bytes + right.peak_bytes,
        };
        let both = |left: ProcessUse, right: ProcessUse| ProcessUse {
            cpu: left.cpu.zip(right.cpu).map(|(left, right)| left + right),
            memory: left.memory.zip(right.memory).map(add),
        };
        uses.iter().copied().reduce(both).unwrap_or_default()
    }

    pub fn cpu_since(&self, earlier: &ProcessUse) -> Option<Duration> {
        self.cpu.zip(earlier.cpu).map(|(now, earlier)| now.saturating_sub(earlier))
    }
}

/// The CPU time of the machine since its start, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// All cores of the machine, also those that this process may not use.
    pub cores: usize,
    pub total: u64,
    /// With time in which the cores waited for a disk.
    pub idle: u64,
    /// CPU steal: time that the hypervisor gave to other machines.
    pub steal: u64,
}

impl CpuTimes {
    pub fn now() -> Option<CpuTimes> {
        parse_cpu_times(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// CPU steal since `earlier`, in percent.
    pub fn steal_percent_since(&self, earlier: &CpuTimes) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        let steal = self.steal.saturating_sub(earlier.steal);
        if total == 0 { 0.0 } else { 100.0 * steal as f64 / total as f64 }
    }

    /// Mean number of cores that ran something since `earlier`. Not stolen time, nor time in which they waited for a disk.
    pub fn cores_busy_since(&self, earlier: &CpuTimes) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        let other = (self.idle + self.steal).saturating_sub(earlier.idle + earlier.steal);
        if total == 0 { 0.0 } else { self.cores as f64 * total.saturating_sub(other) as f64 / total as f64 }
    }
}

/// CPU time of process `pid`, all threads, user and system.
pub fn process_cpu(pid: u32) -> Option<Duration> {
    let ticks = parse_process_cpu(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

pub fn process_memory(pid: u32) -> Option<MemoryUse> {
    parse_memory(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Resets the peak of `pid`. Where the system does not allow it, the peak is that of the whole process.
pub fn reset_peak_memory(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// `utime + stime` of `/proc/<pid>/stat`, in ticks. The command name may have spaces and parentheses.
pub fn parse_process_cpu(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    // The state is field 3 of the file; utime and stime are fields 14 and 15.
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// `VmRSS` and `VmHWM` of `/proc/<pid>/status`.
pub fn parse_memory(status: &str) -> Option<MemoryUse> {
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim_start_matches(':').split_ascii_whitespace().next()?.parse().ok()?;
        Some(kibibytes * 1024)
    };
    Some(MemoryUse { resident_bytes: field("VmRSS")?, peak_bytes: field("VmHWM")? })
}

/// The first line of `/proc/stat`. Guest time is already part of user time.
pub fn parse_cpu_times(stat: &str) -> Option<CpuTimes> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> =
        line.split_ascii_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    // Idle time, and time in which the cores waited for a disk.
    let is_core = |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' '));
    let cores = stat.lines().filter(is_core).count();
    Some(CpuTimes { cores, total: fields.iter().sum(), idle: field(3) + field(4), steal: field(7) })
}

/// CPU time of the thread of the generator, and its wait for a core.
#[derive(Debug, Clone, Copy)]
pub struct GeneratorUse {
    at: Instant,
    on_cpu: Duration,
    waiting_for_cpu: Duration,
}

impl GeneratorUse {
    /// Of the calling thread.
    pub fn now() -> Option<GeneratorUse> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
        let on_cpu = Duration::from_nanos(fields.next()?.ok()?);
        let waiting_for_cpu = Duration::from_nanos(fields.next()?.ok()?);
        Some(GeneratorUse { at: Instant::now(), on_cpu, waiting_for_cpu })
    }

    /// The shares of the time since `earlier` in which the thread ran, and in which it waited for its core. The sum is 0.0 when
    /// idle and 1.0 when saturated.
    pub fn shares_since(&self, earlier: &GeneratorUse) -> (f64, f64) {
        let wall = self.at.saturating_duration_since(earlier.at).as_secs_f64().max(f64::EPSILON);
        let ran = self.on_cpu.saturating_sub(earlier.on_cpu).as_secs_f64();
        let waited = self.waiting_for_cpu.saturating_sub(earlier.waiting_for_cpu).as_secs_f64();
        (ran / wall, waited / wall)
    }
}
