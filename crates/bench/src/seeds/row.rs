//! A row: the command that is run, and the figures that its table needs.

use serde_json::{Value, json};

use crate::cli::SeedsArgs;

/// A run of one workload.
pub(super) struct Row {
    pub id: String,
    /// The command after `sarsen bench`.
    pub words: String,
    /// Flags that name files of this machine, which the tables do not show.
    pub places: Vec<String>,
    pub needs_postgres: bool,
    /// The figures in the JSON of the workload. `None`: they are not there.
    pub read: fn(&Value) -> Option<Value>,
}

/// How long and how large the runs are.
#[derive(Clone, Copy)]
pub(super) struct Scale<'a> {
    pub args: &'a SeedsArgs,
}

impl Scale<'_> {
    /// The words of the command; `{…}` stands for one of two values: `{full|quick}`.
    pub fn words(self, template: &str) -> String {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (choice, after) = after.split_once('}').unwrap_or((after, ""));
            let (full, quick) = choice.split_once('|').unwrap_or((choice, choice));
            text.push_str(before);
            text.push_str(if self.args.quick { quick } else { full });
            rest = after;
        }
        text.push_str(rest);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A hundredth with `--quick`.
    pub fn users(self, full: u64) -> u64 {
        if self.args.quick { full.div_ceil(100) } else { full }
    }

    /// The back end `name` of `--programs`, and PostgreSQL of `--postgres-programs`.
    pub fn back_end(self, name: &str, on_postgres: bool) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(folder) = &self.args.programs {
            words.extend(["--program".to_owned(), folder.join(name).display().to_string()]);
        }
        if let Some(folder) = self.args.postgres_programs.as_ref().filter(|_| on_postgres) {
            words.extend(["--postgres-programs".to_owned(), folder.display().to_string()]);
        }
        words
    }
}

/// The figures that most tables take from the report of a run.
pub(super) fn of_run(run: &Value) -> Option<Value> {
    let total = &run["total"];
    let latency = &total["latency"];
    let ms = |name: &str| latency[name].as_f64().map(|us| us / 1_000.0);
    let count = total["count"].as_u64()?;
    let not_accepted = total["failed"].as_u64()? + total["refused"].as_u64()?;
    Some(json!({
        "server": run["server"],
        "users": run["users"],
        "intended_per_second": run["intended_per_second"],
        "per_second": total["accepted_per_second"],
        "count": count,
        "not_accepted": not_accepted,
        "not_accepted_percent": 100.0 * not_accepted as f64 / count.max(1) as f64,
        "mean_ms": ms("mean_us"),
        "p50_ms": ms("p50_us"),
        "p90_ms": ms("p90_us"),
        "p95_ms": ms("p95_us"),
        "p99_ms": ms("p99_us"),
        "max_ms": ms("max_us"),
        "server_cores": run["server_cores_used"],
        "server_us": run["server_cpu_us_per_request"],
        "generator_cores": run["generator"]["ran_share"],
        "machine_cores": run["machine_cores_used"],
        "peak_mib": run["server_memory"]["peak_bytes"].as_f64().map(|bytes| bytes / 1_048_576.0),
        "spread": spread(&run["seconds"]),
        "generator_bound": run["generator"]["bound"],
        "steal_percent": run["steal_percent"],
        "fsync_p50_ms": run["fsync"]["p50_us"].as_f64().map(|us| us / 1_000.0),
    }))
}

/// The coefficient of variation of the requests in each second after the warm-up.
fn spread(seconds: &Value) -> Option<f64> {
    let rates: Vec<f64> = seconds
        .as_array()?
        .iter()
        .filter(|row| row["warm_up"] == false)
        .filter_map(|row| row["requests"].as_f64())
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_counts_the_seconds_after_the_warm_up() {
        let row = |warm_up: bool, requests: u64| json!({ "warm_up": warm_up, "requests": requests });
        let seconds = json!([row(true, 1), row(false, 90), row(false, 110)]);
        assert!((spread(&seconds).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(spread(&json!([])), None);
        assert_eq!(spread(&json!([row(false, 0)])), None);
    }
}
