//! `move`: moves a filled installation from SQLite to another database, with a kill on the way if asked for, and starts a
//! server on the target.

mod report;
mod source;
mod verify;

pub use report::{KilledRow, MoveReport};
pub use verify::Served;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::servers::TestBed;
use crate::cli::MoveArgs;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::measure::CpuTimes;
use crate::report::{print_result, progress, write_json};
use crate::subprocess::{Finished, Outcome};
use source::Source;
use verify::check;

/// With `--kill`, the mover is killed when it has copied this much.
const KILL_AT_PERCENT: u64 = 30;

/// `sarsen bench move`.
pub async fn move_database(args: &MoveArgs, launcher: &Launcher) -> Result<(), Error> {
    launcher.for_tools()?;
    let mut test_bed = TestBed::on_files(args.data_dir.as_deref(), launcher)?;
    if let Some(data) = &args.from {
        test_bed = test_bed.with_data(data.clone());
    }
    let mover = Mover::new(launcher, &Source::url(&test_bed), &args.to);
    let source = Source::open(&test_bed, launcher, &mover, args.users).await?;
    let machine = CpuTimes::now();
    let moved = mover.move_all(args.kill).await?;
    let steal_percent = machine.zip(CpuTimes::now()).map(|(before, now)| now.steal_percent_since(&before));
    progress("starting a server on the target");
    let served = check(&test_bed, &source, &args.to).await;
    let report = MoveReport::new(&source, moved, served, test_bed.fsync().clone(), steal_percent);
    print_result(&report.render());
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    report.verdict()
}

/// `sarsen move` from one database to another.
pub(super) struct Mover(Launcher);

/// The result of a move, and its cost.
pub(super) struct Moved {
    pub tables: Vec<TableRow>,
    /// The time of all runs.
    pub took: Duration,
    pub killed: Option<KilledRow>,
    pub peak_resident_bytes: Option<u64>,
}

/// A table that is equal on both sides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableRow {
    pub table: String,
    pub rows: u64,
    pub hash: String,
}

impl Mover {
    fn new(launcher: &Launcher, from: &str, to: &str) -> Mover {
        // URLs may have passwords, and every user sees the arguments of a program.
        Mover(launcher.clone().with("SARSEN_MOVE_FROM", from).with("SARSEN_MOVE_TO", to))
    }

    /// Moves, compares, and empties the target again.
    pub async fn rehearse(&self) -> Result<(Finished, Vec<TableRow>), Error> {
        to_the_end(self.0.run("rehearsal", &["move", "--rehearse", "--json"], |_| false).await?)
    }

    async fn move_all(&self, kill: bool) -> Result<Moved, Error> {
        let run = |is_last: fn(&str) -> bool| self.0.run("move", &["move", "--json"], is_last);
        let (mut killed, mut peak_before) = (None, None);
        if kill {
            let ended = run(is_time_to_kill).await?;
            let Outcome::Killed(at) = ended.outcome else {
                return Err(Error::Broken(format!(
                    "it showed no progress of {KILL_AT_PERCENT} % or more, and so was not killed"
                )));
            };
            progress(&format!(
                "killed after {:.1} s; running the same command again",
                ended.took.as_secs_f64()
            ));
            peak_before = ended.peak_resident_bytes;
            killed = Some(KilledRow { after_s: ended.took.as_secs_f64(), at, went_on_for_s: 0.0 });
        }
        let (ended, tables) = to_the_end(run(|_| false).await?)?;
        let mut took = ended.took;
        if let Some(killed) = &mut killed {
            killed.went_on_for_s = took.as_secs_f64();
            took += Duration::from_secs_f64(killed.after_s);
        }
        let peak_resident_bytes = ended.peak_resident_bytes.max(peak_before);
        Ok(Moved { tables, took, killed, peak_resident_bytes })
    }
}

/// `copying  31 %  2170039 of 7000076 rows …`
fn is_time_to_kill(line: &str) -> bool {
    let percent = line.strip_prefix("copying").and_then(|rest| rest.split_once('%'));
    percent
        .and_then(|(number, _)| number.trim().parse::<u64>().ok())
        .is_some_and(|percent| percent >= KILL_AT_PERCENT)
}

fn to_the_end(ended: Finished) -> Result<(Finished, Vec<TableRow>), Error> {
    #[derive(Deserialize)]
    struct Line {
        tables: Vec<TableRow>,
    }
    let unexpected = |why: String| Error::set_up("move", why);
    match &ended.outcome {
        Outcome::Completed(said) => {
            let line =
                Line::deserialize(said).map_err(|error| unexpected(format!("unexpected JSON: {error}")))?;
            Ok((ended, line.tables))
        }
        Outcome::Killed(at) => Err(unexpected(format!("it was killed at {at:?}"))),
    }
}
