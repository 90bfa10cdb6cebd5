//! The table of the levels, and the verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::board::Counts;
use super::end_state::EndState;
use crate::cli::LiveArgs;
use crate::error::Error;
use crate::measure::RequestKind;
use crate::report::{Quantiles, RunReport, milliseconds, thousands};

const P90_US_MAX: u64 = 2_000_000;
const ERROR_PERCENT_MAX: f64 = 2.0;
/// The bar for the most users without an error.
const P90_US_GOOD: u64 = 250_000;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// One number of users.
#[derive(Debug, Clone, Serialize)]
pub struct LiveLevel {
    /// Users with a stream.
    pub users: usize,
    pub increments_per_second: f64,
    /// Events with a value that arrived in the window.
    pub frames: u64,
    pub frames_per_second: f64,
    /// From the start of an increment to its arrival, one for each increment and watcher.
    pub write_to_frame: Quantiles,
    pub write_to_frame_count: u64,
    pub bytes_per_frame: Option<f64>,
    /// On all streams together.
    pub bytes_per_change: Option<f64>,
    /// Streams that ended or delivered an error, by cause.
    pub stream_failures: BTreeMap<String, u64>,
    /// Requests that were not accepted and streams that failed, of all requests.
    pub error_percent: f64,
    pub run: RunReport,
}

/// The JSON of `sarsen bench live`.
#[derive(Debug, Serialize)]
pub struct LiveReport {
    pub levels: Vec<LiveLevel>,
    /// Why there was no further level.
    pub ended: String,
    pub end_state: EndState,
    /// Users and requests a second of the level with the most requests.
    pub peak: Option<(usize, f64)>,
    /// The most users without an error, and with p90 within 250 ms.
    pub users_without_error: Option<usize>,
    pub users_within_250_ms: Option<usize>,
}

impl LiveLevel {
    pub(super) fn new(
        users: usize,
        run: RunReport,
        counts: &Counts,
        arrived: BTreeMap<String, u64>,
    ) -> LiveLevel {
        let mut stream_failures = arrived;
        for (cause, count) in &counts.failures {
            *stream_failures.entry(cause.clone()).or_default() += count;
        }
        let increments = run.kinds.iter().find(|kind| kind.request == RequestKind::Increment.label());
        let increments_per_second = increments.map_or(0.0, |kind| kind.accepted_per_second);
        let changes = increments_per_second * run.duration_s;
        let share = |bytes: u64, of: f64| (of > 0.0).then(|| bytes as f64 / of);
        let failed = run.not_accepted() + stream_failures.values().sum::<u64>();
        LiveLevel {
            users,
            increments_per_second,
            frames: counts.frames,
            frames_per_second: counts.frames as f64 / run.duration_s,
            write_to_frame: Quantiles::of(&counts.latency_us),
            write_to_frame_count: counts.latency_us.len(),
            bytes_per_frame: share(counts.bytes, counts.frames as f64),
            bytes_per_change: share(counts.bytes, changes),
            stream_failures,
            error_percent: 100.0 * failed as f64 / (run.total.count.max(1)) as f64,
            run,
        }
    }

    /// Why the ramp ends here.
    pub(super) fn too_much(&self) -> Option<String> {
        if self.error_percent > ERROR_PERCENT_MAX {
            return Some(format!("{:.2} % of the requests failed", self.error_percent));
        }
        let is_slow = |quantiles: &Quantiles| quantiles.p90_us > P90_US_MAX;
        if is_slow(&self.run.total.latency) {
            return Some("p90 of the requests is above 2 s".to_owned());
        }
        is_slow(&self.write_to_frame).then(|| "p90 of write -> frame is above 2 s".to_owned())
    }

    /// The line of the table.
    pub(super) fn row(&self) -> String {
        let latency = &self.run.total.latency;
        let [frame_p50, frame_p99] = match self.write_to_frame_count {
            0 => ["-".to_owned(), "-".to_owned()],
            _ => [self.write_to_frame.p50_us, self.write_to_frame.p99_us].map(milliseconds),
        };
        let bytes =
            |bytes: Option<f64>| bytes.map_or("-".to_owned(), |bytes| thousands(bytes.round() as u64));
        let memory = self
            .run
            .server_memory
            .map_or("-".to_owned(), |memory| format!("{:.1}", memory.resident_bytes as f64 / MEBIBYTE));
        let cores = self.run.server_cores_used.map_or("-".to_owned(), |cores| format!("{cores:.2}"));
        let steal = self.run.steal_percent.map_or("-".to_owned(), |percent| format!("{percent:.1}"));
        format!(
            "{:>6} | {:>6} | {:>7} | {:>8} {:>8} {:>8} | {:>5.2}% | {:>7} | {:>8} | {:>8} {:>8} | {:>7} | {:>8} | {:>5} \
             | {:>6} | {:>5}{}\n",
            thousands(self.users as u64),
            thousands(self.run.seconds.iter().map(|row| row.users as u64).max().unwrap_or(0)),
            thousands(self.run.total.per_second.round() as u64),
            milliseconds(latency.p50_us),
            milliseconds(latency.p90_us),
            milliseconds(latency.p99_us),
            self.error_percent,
            thousands(self.increments_per_second.round() as u64),
            thousands(self.frames_per_second.round() as u64),
            frame_p50,
            frame_p99,
            bytes(self.bytes_per_frame),
            bytes(self.bytes_per_change),
            cores,
            memory,
            steal,
            if self.run.generator.bound { "  GENERATOR-BOUND" } else { "" },
        )
    }
}

pub(super) fn heading(server: &str, args: &LiveArgs) -> String {
    let who = match args.writers {
        Some(writers) => format!("{writers} writers without a pause, users only watch"),
        None => format!(
            "each user acts every {} ms, {:.0} % increments",
            args.interval.as_millis(),
            args.write_share * 100.0
        ),
    };
    format!(
        "\nlive on {server}: {} counters, {who}, closed loop, {:.0} s a level, times in ms\n\
         {:>54} | {:>27} | {:>17} | {:>18} | {:>14} |\n\
         {:>6} | {:>6} | {:>7} | {:>8} {:>8} {:>8} | {:>6} | {:>7} | {:>8} | {:>8} {:>8} | {:>7} | {:>8} | {:>5} | {:>6} | \
         {:>5}\n",
        thousands(args.counters as u64),
        args.duration.as_secs_f64(),
        "requests",
        "",
        "write -> frame",
        "bytes on streams",
        "server",
        "users",
        "active",
        "req/s",
        "p50",
        "p90",
        "p99",
        "err",
        "writes/s",
        "frames/s",
        "p50",
        "p99",
        "a frame",
        "a write",
        "cores",
        "MiB",
        "steal",
    )
}

impl LiveReport {
    pub(super) fn new(levels: Vec<LiveLevel>, ended: String, end_state: EndState) -> LiveReport {
        let rate = |level: &&LiveLevel| level.run.total.accepted_per_second;
        let peak = levels.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        let peak = peak.map(|level| (level.users, rate(&level)));
        // Up to the first level that is not good.
        let most = |good: &dyn Fn(&LiveLevel) -> bool| {
            levels.iter().take_while(|level| good(level)).map(|level| level.users).last()
        };
        let users_without_error = most(&|level| level.error_percent == 0.0);
        let users_within_250_ms =
            most(&|level| level.error_percent == 0.0 && level.run.total.latency.p90_us <= P90_US_GOOD);
        LiveReport { levels, ended, end_state, peak, users_without_error, users_within_250_ms }
    }

    pub(super) fn render(&self) -> String {
        let mut text = format!("\nended: {}\n", self.ended);
        // Writing to a String cannot fail.
        if let Some((users, rate)) = self.peak {
            let (rate, users) = (thousands(rate.round() as u64), thousands(users as u64));
            let _ = writeln!(text, "peak {rate} requests/s at {users} users");
        }
        let count = |users: Option<usize>| users.map_or("no".to_owned(), |users| thousands(users as u64));
        let _ = writeln!(
            text,
            "{} users without an error, {} of them with p90 <= 250 ms",
            count(self.users_without_error),
            count(self.users_within_250_ms)
        );
        for level in &self.levels {
            for (cause, failed) in &level.stream_failures {
                let _ = writeln!(text, "{} users: {} × {cause}", level.users, thousands(*failed));
            }
            for row in level.run.failures.iter().chain(&level.run.refusals) {
                let (count, request) = (thousands(row.count), row.request);
                let _ = writeln!(text, "{} users: {count} × {request}: {}", level.users, row.cause);
            }
        }
        let EndState { watchers, settled_ms, .. } = &self.end_state;
        let watchers = thousands(*watchers as u64);
        if let Some(ms) = settled_ms {
            let _ = writeln!(
                text,
                "end state: {watchers} watchers hold the value of the database (after {ms} ms)"
            );
        }
        text
    }

    /// An error if the live path is dead or late, or if increments are missing.
    pub(super) fn verdict(&self) -> Result<(), Error> {
        let EndState { watchers, behind, unequal, lost, surplus, .. } = &self.end_state;
        let frames: u64 = self.levels.iter().map(|level| level.frames).sum();
        let writes: f64 = self.levels.iter().map(|level| level.increments_per_second).sum();
        if writes > 0.0 && frames == 0 {
            return Err(Error::Broken("the live path is dead: no event arrived".to_owned()));
        }
        if self.end_state.is_right() {
            return Ok(());
        }
        Err(Error::Broken(format!(
            "the end state is wrong: {behind} of {watchers} watchers do not hold the value of the database, \
             {unequal} counters differ between servers, {lost} increments are lost, {surplus} are too many"
        )))
    }
}
