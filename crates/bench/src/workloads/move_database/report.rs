//! The results of `move`, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::source::Source;
use super::verify::Served;
use super::{Moved, TableRow};
use crate::error::Error;
use crate::measure::FsyncCost;
use crate::report::{milliseconds, thousands};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The JSON of `sarsen bench move`.
#[derive(Serialize)]
pub struct MoveReport {
    pub users: u32,
    /// All moved rows.
    pub rows: u64,
    /// Of these, the rows of the accounts, and the time to create them (in this run, or in the one that filled the folder).
    pub filled_rows: u64,
    pub fill_s: f64,
    /// The time of `sarsen move`, of both runs after a kill, with the comparison.
    pub move_s: f64,
    pub killed: Option<KilledRow>,
    /// Of the mover; the greater one of two runs.
    pub peak_resident_bytes: Option<u64>,
    /// As the mover compared them.
    pub tables: Vec<TableRow>,
    /// The server on the target. `None`: see `broken`.
    pub served: Option<Served>,
    /// What differs from what was expected.
    pub broken: Vec<String>,
    pub fsync: FsyncCost,
    pub steal_percent: Option<f64>,
}

/// A mover that was killed and started again.
#[derive(Debug, Clone, Serialize)]
pub struct KilledRow {
    pub after_s: f64,
    /// Its last line of progress.
    pub at: String,
    pub went_on_for_s: f64,
}

impl MoveReport {
    pub(super) fn new(
        source: &Source,
        moved: Moved,
        served: Result<Served, Error>,
        fsync: FsyncCost,
        steal_percent: Option<f64>,
    ) -> MoveReport {
        let mut broken = differences(&source.rows, &moved.tables);
        let served = served.map_err(|error| broken.push(format!("the server on the target: {error}"))).ok();
        MoveReport {
            users: source.users,
            rows: moved.tables.iter().map(|table| table.rows).sum(),
            filled_rows: source.filled_rows,
            fill_s: source.fill_s,
            move_s: moved.took.as_secs_f64(),
            killed: moved.killed,
            peak_resident_bytes: moved.peak_resident_bytes,
            tables: moved.tables,
            served,
            broken,
            fsync,
            steal_percent,
        }
    }

    /// An error if something differs.
    pub(super) fn verdict(&self) -> Result<(), Error> {
        if self.broken.is_empty() { Ok(()) } else { Err(Error::Broken(self.broken.join("; "))) }
    }

    pub(super) fn render(&self) -> String {
        let mut text = format!("\n{:<28}{:>12}  {}\n", "table", "rows", "hash on both sides");
        // Writing to a String cannot fail.
        for TableRow { table, rows, hash } in self.tables.iter().filter(|table| table.rows > 0) {
            let _ = writeln!(text, "{table:<28}{:>12}  {hash}", thousands(*rows));
        }
        let empty = self.tables.iter().filter(|table| table.rows == 0).count();
        let _ = writeln!(text, "and {empty} empty tables");
        let per_second = |rows: u64, seconds: f64| thousands((rows as f64 / seconds.max(0.001)) as u64);
        let _ = writeln!(
            text,
            "filled     {} users, {} rows in {:.1} minutes ({} rows/s)",
            thousands(self.users.into()),
            thousands(self.filled_rows),
            self.fill_s / 60.0,
            per_second(self.filled_rows, self.fill_s)
        );
        let _ = writeln!(
            text,
            "moved      {} rows in {:.1} minutes ({} rows/s), with the comparison",
            thousands(self.rows),
            self.move_s / 60.0,
            per_second(self.rows, self.move_s)
        );
        if let Some(KilledRow { after_s, at, went_on_for_s }) = &self.killed {
            let at = at.split("  ").take(2).collect::<Vec<_>>().join(" ");
            let on = went_on_for_s / 60.0;
            let _ =
                writeln!(text, "killed     after {after_s:.1} s ({at}); the second run took {on:.1} minutes");
        }
        if let Some(bytes) = self.peak_resident_bytes {
            let _ = writeln!(text, "mover      peak resident {:.1} MiB", bytes as f64 / MEBIBYTE);
        }
        if let Some(Served { start_s, email, plan, listed }) = &self.served {
            let _ = writeln!(
                text,
                "target     a server was ready in {start_s:.1} s; {email} ({listed}) signed in and has the plan {plan}"
            );
        }
        let steal = self.steal_percent.map_or("unknown".to_owned(), |percent| format!("{percent:.2} %"));
        let (p50, tail) = (milliseconds(self.fsync.p50_us), milliseconds(self.fsync.p99_9_us));
        let _ = writeln!(text, "machine    CPU steal {steal}, raw fsync p50 {p50} ms, p99.9 {tail} ms");
        for broken in &self.broken {
            let _ = writeln!(text, "BROKEN     {broken}");
        }
        text
    }
}

/// Tables with another number of rows on the target than in the source.
fn differences(expected: &BTreeMap<String, u64>, moved: &[TableRow]) -> Vec<String> {
    let moved: BTreeMap<&str, u64> = moved.iter().map(|table| (table.table.as_str(), table.rows)).collect();
    let differs = |(table, rows): (&String, &u64)| {
        let there = moved.get(table.as_str()).copied().unwrap_or_default();
        (there != *rows)
            .then(|| format!("table {table} has {there} rows on the target and {rows} in the source"))
    };
    expected.iter().filter_map(differs).collect()
}
