//! The page: Markdown tables of the articles' figures and ours, and what falls short. A row without a run says so.

use std::fmt::Write as _;

use serde_json::Value;

use super::articles::{self, Article};
use super::results::{Record, Results};
use crate::report::thousands;

const NOT_RUN: &str = "not run yet";

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
        text.push_str(articles::section(article, &Found { results }).trim_end());
        text.push('\n');
    }
    text
}

/// The results by row.
pub(super) struct Found<'a> {
    results: &'a Results,
}

impl<'a> Found<'a> {
    pub fn record(&self, row: &str) -> Option<&'a Record> {
        self.results.of(row)
    }

    /// The figures of a row, if it ran.
    pub fn figures(&self, row: &str) -> Option<Figures<'a>> {
        self.record(row)?.figures.as_ref().map(Figures)
    }

    /// The cells of a row: `show` with its figures, or one cell that says why there are none.
    pub fn cells<const N: usize>(&self, row: &str, show: impl Fn(Figures<'a>) -> [String; N]) -> [String; N] {
        self.figures(row).map_or_else(
            || {
                let mut cells = [const { String::new() }; N];
                if let Some(first) = cells.first_mut() {
                    *first = self.why_not(row);
                }
                cells
            },
            show,
        )
    }

    fn why_not(&self, row: &str) -> String {
        match self.record(row).and_then(|record| record.error.as_deref()) {
            Some(error) => format!("{NOT_RUN}: {}", one_line(error)),
            None => NOT_RUN.to_owned(),
        }
    }

    /// Where the CPU time of these runs went. The processors of the machine are shared by all.
    pub fn cpu_time<'n>(&self, rows: impl IntoIterator<Item = (&'n str, Option<Figures<'a>>)>) -> String {
        let mut table = Table::new(&[
            "where the CPU time goes",
            "servers",
            "a request",
            "generator",
            "databases, kernel, others",
            "all, in cores",
        ]);
        for (name, figures) in rows {
            let Some(figures) = figures else {
                table.row([name, NOT_RUN, "", "", "", ""]);
                continue;
            };
            let part = |name: &str| figures.number(name).unwrap_or(0.0);
            let rest = part("machine_cores") - part("server_cores") - part("generator_cores");
            table.row([
                name.to_owned(),
                figures.decimals("server_cores", 2),
                figures.number("server_us").map_or_else(dash, |us| format!("{us:.0} µs")),
                figures.decimals("generator_cores", 2),
                format!("{:.2}", rest.max(0.0)),
                figures.decimals("machine_cores", 2),
            ]);
        }
        table.render()
    }

    /// The commands of these rows, with machine and commit.
    pub fn runs(&self, rows: &[String]) -> String {
        let mut table = Table::new(&["row", "command", "commit", "machine", "CPU steal"]);
        let mut missing = 0;
        for row in rows {
            let Some(record) = self.record(row).filter(|record| record.figures.is_some()) else {
                missing += 1;
                continue;
            };
            let with = record.settings.with.as_ref().map_or_else(String::new, |with| format!(", {with}"));
            let mut marks = String::new();
            if !record.measures() {
                marks.push_str(" (`--quick` or a debug build: **no measurement**)");
            }
            if let Some(error) = &record.error {
                // Writing to a String cannot fail.
                let _ = write!(marks, " (**failed**: {})", one_line(error));
            }
            let steal =
                record.figures.as_ref().map(Figures).and_then(|figures| figures.number("steal_percent"));
            table.row([
                row.clone(),
                format!("`{}`{marks}", record.settings.command),
                record.settings.commit.clone(),
                format!("{}{with}", record.machine),
                steal.map_or_else(String::new, |steal| format!("{steal:.1} %")),
            ]);
        }
        let mut text = String::new();
        if missing > 0 {
            let all = rows.len();
            let _ = writeln!(text, "{missing} of {all} rows were not run yet.\n");
        }
        if missing < rows.len() {
            text.push_str(&table.render());
        }
        text
    }
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().replace('|', "/")
}

/// The figures of a run.
#[derive(Clone, Copy)]
pub(super) struct Figures<'a>(pub &'a Value);

impl<'a> Figures<'a> {
    pub fn number(self, name: &str) -> Option<f64> {
        self.0[name].as_f64()
    }

    pub fn text(self, name: &str) -> Option<&'a str> {
        self.0[name].as_str()
    }

    pub fn list(self, name: &str) -> impl Iterator<Item = Figures<'a>> {
        self.0[name].as_array().into_iter().flatten().map(Figures)
    }

    /// Requests a second, and other counts.
    pub fn count(self, name: &str) -> String {
        self.number(name).map_or_else(dash, |value| thousands(value.round() as u64))
    }

    pub fn ms(self, name: &str) -> String {
        self.number(name).map_or_else(dash, ms)
    }

    pub fn percent(self, name: &str) -> String {
        self.number(name).map_or_else(dash, percent)
    }

    pub fn decimals(self, name: &str, decimals: usize) -> String {
        self.number(name).map_or_else(dash, |value| format!("{value:.decimals$}"))
    }
}

fn dash() -> String {
    "–".to_owned()
}

/// Milliseconds with three significant digits.
pub(super) fn ms(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2} ms"),
        _ if value < 100.0 => format!("{value:.1} ms"),
        _ => format!("{} ms", thousands(value.round() as u64)),
    }
}

pub(super) fn percent(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value < 0.01 => format!("{value:.4} %"),
        _ => format!("{value:.2} %"),
    }
}

/// A table of Markdown.
pub(super) struct Table {
    lines: Vec<String>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        let lines = vec![format!("| {} |", head.join(" | ")), format!("|{}", "---|".repeat(head.len()))];
        Table { lines }
    }

    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut line = "|".to_owned();
        for cell in cells {
            // Writing to a String cannot fail.
            let _ = write!(line, " {} |", cell.as_ref());
        }
        self.lines.push(line);
    }

    pub fn render(&self) -> String {
        format!("{}\n", self.lines.join("\n"))
    }
}

/// What an article's load asks of Sarsen, and whether the runs show it.
#[derive(Default)]
pub(super) struct Shortfalls {
    missed: Vec<String>,
    held: Vec<String>,
    unknown: Vec<String>,
}

impl Shortfalls {
    /// `found`: a sentence with the figures, and whether they are as wanted. `None`: a row is missing.
    pub fn check(&mut self, wanted: &str, found: Option<(String, bool)>) {
        match found {
            Some((text, true)) => self.held.push(format!("{wanted}: {text}")),
            Some((text, false)) => self.missed.push(format!("{wanted}: {text}")),
            None => self.unknown.push(wanted.to_owned()),
        }
    }

    pub fn render(&self) -> String {
        let mut text = String::from("**What falls short.**");
        if self.missed.is_empty() && self.unknown.is_empty() {
            text.push_str(" Nothing of what was asked of this load.");
        }
        text.push('\n');
        for (mark, lines) in [("missed", &self.missed), (NOT_RUN, &self.unknown), ("held", &self.held)] {
            for line in lines {
                let _ = write!(text, "\n- *{mark}*: {line}");
            }
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::seeds::results::Settings;

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
