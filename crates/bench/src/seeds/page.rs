//! The page: Markdown tables of the articles' figures and ours, and what falls short. A row without a run says so.

use super::articles::{self, Article};
use super::results::Results;
use super::table::Found;

const HEAD: &str = "\
# The five loads

Sarsen began with five published load tests of other servers. This page repeats their tables row by row: the figures of the
article, and beside them those of `sarsen bench seeds`. The machines differ, so no figure of ours is a ratio to one of theirs; what
was measured side by side on one machine is in [Benchmarks](benchmarks.md). Under each table stand the commands, and what
falls short.

The page is generated: `sarsen bench seeds` runs every row that has no result of this commit, and writes the page again
after each start. A row without a run says \"not run yet\".

```sh
cargo build --release && cargo build --release -p request_log -p counters -p exam_attempts
sarsen bench seeds
```

Server, database and load generator share one machine and speak over loopback. Every write of Sarsen is durable before its
response, in every row. CPU steal is the share of CPU time that a hypervisor gave to other machines. A request counts as failed when it
was refused, too.
";

pub(super) fn render(results: &Results) -> String {
    let mut text = HEAD.to_owned();
    let shown = articles::all_ids().filter_map(|id| results.of(&id));
    if shown.into_iter().any(|record| record.figures.is_some() && !record.measures()) {
        text.push_str("\n**Rows of `--quick` or of a debug build are among these: they show that the command works, and measure nothing.**\n");
    }
    for article in Article::ALL {
        text.push('\n');
        text.push_str(articles::section(article, &Found::new(results)).trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::seeds::results::{Record, Settings};

    /// Figures that any table can read, of a run that `accepted` so many requests a second.
    fn figures(accepted: f64) -> Value {
        let run = json!({
            "server": "sarsen, at most 1024 MiB (cgroup v2)", "users": 1_050, "per_second": accepted, "count": 60_000,
            "not_accepted": 0, "not_accepted_percent": 0.0, "mean_ms": 1.25, "p50_ms": 1.0, "p90_ms": 12.0,
            "p95_ms": 20.0, "p99_ms": 48.5, "max_ms": 350.0, "server_cores": 0.9, "server_us": 18.2,
            "generator_cores": 0.8, "machine_cores": 1.9, "peak_mib": 128.4, "spread": 0.031, "fsync_max_ms": 9.5,
            "steal_percent": 0.1, "hashing_p95_ms": 140.0, "others_p95_ms": 4.2, "hashing_percent": 25.0,
            "hashes_per_second": 70.5, "argon2_per_second": 76.0, "ended": "more users do not raise the rate",
            "price": 10.0, "ours_per_second": 27_000.0, "baseline_per_second": 6_000.0, "ratio": 4.5,
            "ratios": [4.4, 4.5, 5.1], "error_percent": 0.0, "writes_per_second": 300.0, "frames_per_second": 900.0,
            "frame_p50_ms": 2.0, "frame_p99_ms": 8.0,
            "in_users": [{ "workload": "W1", "per_second": 2_000.0, "monthly": 400_000.0 }],
        });
        let mut more = run.clone();
        more["levels"] = json!([run]);
        more
    }

    #[test]
    fn a_page_has_the_figures_of_each_row_and_what_falls_short() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::open(folder.path().join("results.jsonl")).unwrap();
        for (index, row) in articles::all_ids().enumerate() {
            // One row of each kind of outcome: failed, quick, and not run.
            let is_quick = row == "002/own/2";
            let settings = Settings {
                command: format!("sarsen bench {row}"),
                with: row.starts_with("003").then(|| "PostgreSQL 18.6".to_owned()),
                commit: "0123abcd".to_owned(),
                build: "optimized".to_owned(),
                quick: is_quick,
            };
            let failed = row == "002/hey/4";
            if row == "004/million/1000" {
                continue;
            }
            let record = Record {
                row,
                settings,
                machine: "2 cores, 24 GiB".to_owned(),
                took_s: 60.0,
                figures: (!failed).then(|| figures(1_000.0 + 10.0 * index as f64)),
                error: failed.then(|| "cannot start hey: no such file".to_owned()),
            };
            results.add(record).unwrap();
        }
        insta::assert_snapshot!(render(&results));
    }
}
