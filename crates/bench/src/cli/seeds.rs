//! The flags of `seeds`.

use std::path::PathBuf;

use clap::Args;

use super::back_ends::ATTEMPTS_BASELINE;

const HELP: &str = "\
Five published load tests, each with its own tables: 000 single sign-on on one core, 001 registrations and sign-ins, 002
durable inserts by `hey`, 003 live queries on PostgreSQL with a replica, 004 a million updates a minute. Every row is a run
of another workload of this program, whose command is printed.

Each result is written to DIR/results.jsonl when its run ends. After an interruption the same command goes on from there:
a row that has a result of the same commit and the same settings is not run again. DIR/five-loads.md has the tables, with
the figures of the articles beside those of this machine, and what falls short.

All rows take about an hour and a half on a quiet machine. They need the back ends beside sarsen, `hey`, PostgreSQL, and
the baseline of W5:
    cargo build --release -p request_log -p counters -p exam_attempts
    (cd bench/baselines/attempts_actix && cargo build --release)

Examples:
    sarsen bench seeds
    sarsen bench seeds --only 002 --out results
    sarsen bench seeds --quick --out try
    sarsen bench seeds --render --out results";

#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct SeedsArgs {
    /// Articles, or rows of them, as in 002,003/ramp [default: all]
    #[arg(long, value_name = "ROWS,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// A second or two a row with few users: shows that every row works, and measures nothing
    #[arg(long)]
    pub quick: bool,
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = "five-loads")]
    pub out: PathBuf,
    /// Also run the rows that have a result
    #[arg(long)]
    pub again: bool,
    /// Run nothing, and print the tables of the results so far
    #[arg(long, conflicts_with = "again")]
    pub render: bool,
    /// The commit of the programs [default: what git says of their folder]
    #[arg(long, value_name = "ID")]
    pub commit: Option<String>,
    /// Folder of the programs of examples/ [default: that of sarsen]
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// Folder with the programs of PostgreSQL [default: the newest version that is installed]
    #[arg(long, value_name = "DIR")]
    pub postgres_programs: Option<PathBuf>,
    /// The program `hey`, of 002
    #[arg(long, value_name = "PATH", default_value = "hey")]
    pub hey: PathBuf,
    /// The baseline of 004
    #[arg(long, value_name = "PATH", default_value = ATTEMPTS_BASELINE)]
    pub baseline: PathBuf,
    /// Folder for the throw-away databases, on a real disk [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}
