//! Tables of the page: figures as text, rows that did not run, and what falls short.

use std::fmt::Write as _;

use serde_json::Value;

use super::results::{Record, Results};
use crate::report::thousands;

const NOT_RUN: &str = "not run yet";

/// The results by row.
pub(super) struct Found<'a> {
    results: &'a Results,
}

impl<'a> Found<'a> {
    pub fn new(results: &'a Results) -> Found<'a> {
        Found { results }
    }

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
