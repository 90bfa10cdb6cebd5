//! The flags of the workloads on the small back ends: `writes`, `attempts`, `live`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::CommonArgs;
use crate::argument_parsers::{parse_count, parse_duration, parse_instances, parse_rate, parse_share};

/// The baseline of W5, when `--baseline` names no program.
pub(super) const ATTEMPTS_BASELINE: &str = "bench/baselines/attempts_actix/target/release/attempts_actix";

const WRITES_HELP: &str = "\
`POST /requests` without a body and without a content type, on the back end `request_log`: one durable insert a request,
in closed loop, with 1 to 1,024 connections. The table has one row for each number of connections, and the last lines
compare them with the bars.

Build the back end first, beside sarsen:  cargo build --release -p request_log

Examples:
    sarsen bench writes
    sarsen bench writes --connections 10 --duration 10s
    sarsen bench writes --postgres
    sarsen bench writes --url http://127.0.0.1:3000 --json writes.json
    sarsen bench writes --hey --connections 1,2,4,8,10,16
With another generator:  hey -c 10 -z 10s -m POST http://127.0.0.1:3000/requests";

const ATTEMPTS_HELP: &str = "\
`PATCH /attempts/{1..100000}` with a JSON body of answers, on the back end `exam_attempts`. The requests arrive at a
constant rate (open loop), and the latency counts from the scheduled start. A rate is held if no request fails, the mean
is below 20 ms and the longest below 1 s. With --ceiling it goes up from the last rate that is held.

With --baseline both servers are measured in closed loop in turn, and the result is the ratio of their rates.

Build the back end first, beside sarsen:  cargo build --release -p exam_attempts
And the baseline:                         (cd bench/baselines/attempts_actix && cargo build --release)

Examples:
    sarsen bench attempts --duration 60s
    sarsen bench attempts --postgres --rates 2000 --ceiling
    sarsen bench attempts --postgres --baseline --rounds 5 --duration 10s
    sarsen bench attempts --postgres --baseline --unlogged --rounds 5 --duration 10s
With k6:  k6 run bench/k6/attempts.js";

const LIVE_HELP: &str = "\
Users of the back end `counters`: each watches one counter on a stream (server-sent events) and acts every 100 ms: 50 %
get_counter, 20 % list_counters, 30 % increment. After a level more users arrive, until p90 is above 2 s, or more than
2 % of the requests fail, or --connections users are there. A stream that ends, or that delivers an error, is a failure.

`write -> frame` is the time from the start of an increment to the arrival of its value at a watcher, for every watcher of
that counter. At the end each watcher must hold the value of the database, and no increment may be missing. If not, the
exit code is 1.

Build the back end first, beside sarsen:  cargo build --release -p counters

Examples:
    sarsen bench live
    sarsen bench live --users 1000 --connections 1000 --duration 60s
    sarsen bench live --postgres --instances 2
    sarsen bench live --users 1000 --connections 1000 --writers 8
    sarsen bench live --users 10000 --connections 10000 --interval 1s
    sarsen bench live --url http://10.0.0.1:8080 --url http://10.0.0.2:8080";

/// The back end under test.
#[derive(Debug, Clone, Args)]
pub struct BackEndArgs {
    /// The program of the back end [default: the one beside sarsen]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// A running back end; may be repeated for several instances [default: start one on a throw-away database]
    #[arg(long, value_name = "URL", conflicts_with_all = ["postgres", "program", "database"])]
    pub url: Vec<String>,
    /// Start a throw-away PostgreSQL for it (`live` also starts a replica)
    #[arg(long, conflicts_with = "database")]
    pub postgres: bool,
    /// Folder with the programs of PostgreSQL [default: the newest version that is installed]
    #[arg(long, value_name = "DIR")]
    pub postgres_programs: Option<PathBuf>,
    /// Instances of the back end on one database server
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_instances, conflicts_with = "url")]
    pub instances: usize,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = WRITES_HELP)]
pub struct WritesArgs {
    /// Numbers of connections, one level each
    #[arg(
        long,
        value_name = "N,…",
        default_value = "1,2,4,8,10,16,64,256,512,1024",
        value_delimiter = ',',
        value_parser = parse_count
    )]
    pub connections: Vec<usize>,
    /// Measured time of each level, as in 10s
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub duration: Duration,
    /// Warm-up before each level
    #[arg(long, value_parser = parse_duration, default_value = "2s")]
    pub warmup: Duration,
    /// Also insert through the store alone, with as many writers as connections, and compare the CPU time
    #[arg(long, conflicts_with = "url")]
    pub beside_store: bool,
    /// Send the requests with the program `hey` in place of the own generator, and report its summaries
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "hey", conflicts_with = "beside_store")]
    pub hey: Option<PathBuf>,
    /// Runs of `hey` with each number of connections; the result is their mean
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_count)]
    pub runs: usize,
    #[command(flatten)]
    pub back_end: BackEndArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = ATTEMPTS_HELP)]
pub struct AttemptsArgs {
    /// Requests a second by schedule, one run each
    #[arg(
        long,
        value_name = "RATE,…",
        default_value = "10000,15000,20000",
        value_delimiter = ',',
        value_parser = parse_rate,
        conflicts_with = "baseline"
    )]
    pub rates: Vec<f64>,
    /// Then go up by a quarter until a rate is not held; the same below the first rate if that is not held
    #[arg(long, conflicts_with = "baseline")]
    pub ceiling: bool,
    /// Most connections; with --baseline all of them, in closed loop
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = parse_count)]
    pub connections: usize,
    /// Attempts in the table, with the ids 1 to N; `exam_attempts seed` makes 100000
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,
    /// Measured time of each run, as in 60s
    #[arg(long, value_parser = parse_duration, default_value = "60s")]
    pub duration: Duration,
    /// Warm-up before each run
    #[arg(long, value_parser = parse_duration, default_value = "3s")]
    pub warmup: Duration,
    /// Also measure the baseline on PostgreSQL: actix-web and sqlx, one UPDATE a request
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = ATTEMPTS_BASELINE)]
    pub baseline: Option<PathBuf>,
    /// The table of the baseline is UNLOGGED
    #[arg(long, requires = "baseline")]
    pub unlogged: bool,
    /// Rounds in which both are measured in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count, requires = "baseline")]
    pub rounds: usize,
    #[command(flatten)]
    pub back_end: BackEndArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = LIVE_HELP)]
pub struct LiveArgs {
    /// Users of the first level
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = parse_count)]
    pub users: usize,
    /// Users that arrive before each further level
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = parse_count)]
    pub step: usize,
    /// Most users; each has a stream and a connection for its calls [default: the limit of file descriptors]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub connections: Option<usize>,
    /// Counters; user I watches counter I modulo N
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = parse_count)]
    pub counters: usize,
    /// Pause of a user between two calls
    #[arg(long, value_parser = parse_duration, default_value = "100ms")]
    pub interval: Duration,
    /// Share of increments, 0.0 to 1.0; of the rest, 5 in 7 are get_counter and 2 in 7 list_counters
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = parse_share)]
    pub write_share: f64,
    /// Users only watch, and N writers increment without a pause
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with_all = ["interval", "write_share"])]
    pub writers: Option<usize>,
    /// Measured time of each level, as in 15s
    #[arg(long, value_parser = parse_duration, default_value = "15s")]
    pub duration: Duration,
    /// Warm-up before the first level; at most 3 s of it before each further one
    #[arg(long, value_parser = parse_duration, default_value = "60s")]
    pub warmup: Duration,
    /// Time after the last level in which the watchers must reach the value of the database
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub settle: Duration,
    /// Replica of the database of --database, for the reads of the back end
    #[arg(
        long,
        value_name = "URL",
        env = "SARSEN_BENCH_REPLICA",
        hide_env_values = true,
        requires = "database"
    )]
    pub replica: Option<String>,
    /// Without the replica of --postgres
    #[arg(long, requires = "postgres", conflicts_with = "replica")]
    pub no_replica: bool,
    #[command(flatten)]
    pub back_end: BackEndArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}
