//! The same levels with `hey` as the load generator: its own summary is the result. Several runs a level, as in the
//! original test.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::cli::WritesArgs;
use crate::error::Error;
use crate::measure::{CpuTimes, process_cpu};
use crate::report::{print_result, progress, thousands};
use crate::workloads::servers::ServerUnderTest;

const HOW_TO_INSTALL: &str = "install it (Debian: apt-get install hey), or name the program with --hey PATH";

/// One number of connections.
#[derive(Debug, Clone, Serialize)]
pub struct HeyLevel {
    pub users: usize,
    pub runs: Vec<HeySummary>,
    /// The mean of the runs.
    pub requests_per_second: f64,
    pub average_ms: f64,
    /// Of all runs.
    pub slowest_ms: f64,
    /// Responses that are not 201, and requests without a response.
    pub not_accepted: u64,
    pub server_cores_used: Option<f64>,
    pub steal_percent: Option<f64>,
}

/// What `hey` prints at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeySummary {
    pub total_s: f64,
    pub requests_per_second: f64,
    pub average_ms: f64,
    pub slowest_ms: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a response.
    pub errors: u64,
}

/// Fails when `hey` cannot be started.
pub(super) fn ensure_hey(program: &Path) -> Result<(), Error> {
    let found =
        Command::new(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Error::Usage(format!("cannot start {}: {error}; {HOW_TO_INSTALL}", program.display())))
        }
    }
}

pub(super) async fn run_levels(
    args: &WritesArgs,
    program: &Path,
    under_test: &ServerUnderTest,
) -> Result<Vec<HeyLevel>, Error> {
    print_result(&format!(
        "\nwrites on {}: POST /requests by hey, {} runs of {:.0} s a level, times in ms\n{:>11} | {:>8} | {:>8} | {:>8} | \
         {:>12} | {:>7}\n",
        under_test.monitored.name,
        args.runs,
        args.duration.as_secs_f64(),
        "connections",
        "req/s",
        "average",
        "slowest",
        "not accepted",
        "steal %"
    ));
    let mut levels = Vec::new();
    for users in &args.connections {
        let level = run_level(args, program, *users, under_test).await?;
        print_result(&format!(
            "{:>11} | {:>8} | {:>8.3} | {:>8.1} | {:>12} | {:>7}\n",
            thousands(level.users as u64),
            thousands(level.requests_per_second.round() as u64),
            level.average_ms,
            level.slowest_ms,
            thousands(level.not_accepted),
            level.steal_percent.map_or("-".to_owned(), |percent| format!("{percent:.1}")),
        ));
        levels.push(level);
    }
    Ok(levels)
}

async fn run_level(
    args: &WritesArgs,
    program: &Path,
    users: usize,
    under_test: &ServerUnderTest,
) -> Result<HeyLevel, Error> {
    let url = format!("{}/requests", under_test.first().origin);
    let cpu =
        || under_test.monitored.pids.iter().filter_map(|pid| process_cpu(*pid)).sum::<std::time::Duration>();
    let (machine, cpu_before, begun) = (CpuTimes::now(), cpu(), tokio::time::Instant::now());
    let mut runs = Vec::new();
    for number in 1..=args.runs {
        progress(&format!("hey: {users} connections, run {number} of {}", args.runs));
        let mut command = Command::new(program);
        command.args(["-c", &users.to_string(), "-z", &format!("{}ms", args.duration.as_millis())]);
        command.args(["-m", "POST", &url]).stdin(Stdio::null()).stderr(Stdio::piped());
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output =
            output.map_err(|error| failed(&error.to_string()))?.map_err(Error::io("cannot run hey"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(failed(&format!("{}: {}", output.status, stderr.trim())));
        }
        runs.push(read(&text).ok_or_else(|| failed("it printed no summary that this program can read"))?);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_s = cpu().saturating_sub(cpu_before).as_secs_f64();
    let steal_percent =
        CpuTimes::now().zip(machine).map(|(after, before)| after.steal_percent_since(&before));
    let mean = |of: fn(&HeySummary) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let accepted = |run: &HeySummary| run.statuses.get(&201).copied().unwrap_or(0);
    let all = |run: &HeySummary| run.statuses.values().sum::<u64>() + run.errors;
    Ok(HeyLevel {
        users,
        requests_per_second: mean(|run| run.requests_per_second),
        average_ms: mean(|run| run.average_ms),
        slowest_ms: runs.iter().map(|run| run.slowest_ms).fold(0.0, f64::max),
        not_accepted: runs.iter().map(|run| all(run) - accepted(run)).sum(),
        server_cores_used: (!under_test.monitored.pids.is_empty()).then_some(cpu_s / seconds),
        steal_percent,
        runs,
    })
}

fn failed(detail: &str) -> Error {
    Error::Ended { server: "hey".to_owned(), detail: detail.to_owned() }
}

/// Reads the summary of hey 0.1.
pub(super) fn read(text: &str) -> Option<HeySummary> {
    let number = |name: &str| -> Option<f64> {
        let rest = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let quantile = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
        let seconds: f64 = line.trim().strip_prefix("in")?.split_whitespace().next()?.parse().ok()?;
        Some(seconds * 1_000.0)
    };
    // `[201]	7590 responses`, and `[3]	Post "http://…": …` for errors.
    let counted = |line: &str| -> Option<(u64, String)> {
        let (count, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
        Some((count.parse().ok()?, rest.trim().to_owned()))
    };
    let (mut statuses, mut errors) = (BTreeMap::new(), 0);
    for (bracket, rest) in text.lines().filter_map(counted) {
        match (u16::try_from(bracket), rest.strip_suffix(" responses")) {
            (Ok(status), Some(count)) => {
                statuses.insert(status, count.parse().ok()?);
            }
            _ => errors += bracket,
        }
    }
    Some(HeySummary {
        total_s: number("Total:")?,
        requests_per_second: number("Requests/sec:")?,
        average_ms: number("Average:")? * 1_000.0,
        slowest_ms: number("Slowest:")? * 1_000.0,
        p50_ms: quantile("50%"),
        p99_ms: quantile("99%"),
        statuses,
        errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "
Summary:
  Total:\t10.0021 secs
  Slowest:\t0.0409 secs
  Fastest:\t0.0004 secs
  Average:\t0.0021 secs
  Requests/sec:\t1882.4288
\u{20}\u{20}
  Total data:\t1200 bytes
  Size/request:\t64 bytes

Response time histogram:
  0.000 [1]\t|
  0.004 [18389]\t|■■■■

Latency distribution:
  10% in 0.0016 secs
  50% in 0.0019 secs
  99% in 0.0059 secs

Details (average, fastest, slowest):
  resp wait:\t0.0010 secs, 0.0006 secs, 0.0081 secs

Status code distribution:
  [201]\t18829 responses
  [503]\t2 responses

Error distribution:
  [3]\tPost \"http://127.0.0.1:3000/requests\": EOF
";

    #[test]
    fn the_summary_is_read_with_its_failures() {
        let summary = read(PRINTED).unwrap();
        assert_eq!((summary.requests_per_second, summary.total_s), (1_882.428_8, 10.0021));
        assert!((summary.average_ms - 2.1).abs() < 1e-9 && (summary.slowest_ms - 40.9).abs() < 1e-9);
        assert!((summary.p50_ms.unwrap() - 1.9).abs() < 1e-9 && (summary.p99_ms.unwrap() - 5.9).abs() < 1e-9);
        assert_eq!(summary.statuses, BTreeMap::from([(201, 18_829), (503, 2)]));
        assert_eq!(summary.errors, 3);
        assert_eq!(read("usage: hey [options...] <url>"), None);
    }
}
