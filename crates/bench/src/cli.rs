//! The command line of `sarsen bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::argument_parsers::{
    parse_count, parse_duration, parse_instances, parse_load, parse_probers, parse_rate, parse_share,
};

/// Where the naive server of seed 000 is found when `--baseline` names no program.
const BASELINE_DEFAULT: &str = "bench/baselines/sso_naive/target/release/sso_naive";

const REVOCATION_HELP: &str = "\
Beside W1 in open loop, probers sign in, have the token accepted by one instance, change something at another (revoke
the token, end the sessions, suspend the account or its organization, change the plan), and from the answer on ask the
first one back to back until it obeys. The bound is p99 <= 250 ms. A change that is not in force after 5 s is a failure:
then the exit code is 1.

Examples:
    sarsen bench revocation --database postgres://sarsen@127.0.0.1/bench
    sarsen bench revocation --database postgres://… --rate 2000 --long-transaction
    sarsen bench revocation --url http://10.0.0.1:7070 --url http://10.0.0.2:7070 --admin-email …";

const MOVE_HELP: &str = "\
Makes a throw-away installation on SQLite, fills it with accounts (each with a password, a customer, a session and rows of
audit, every second one with a subscription), and runs `sarsen move` into the empty database --to. The table shows what the
mover has compared. Then a server is started on the target, and one of the accounts signs in there. The exit code is 1 when
something differs.

Examples:
    sarsen bench move --to postgres://sarsen@127.0.0.1/bench
    sarsen bench move --to mysql://root@127.0.0.1/bench --kill --from filled";

/// What to measure.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// The physical floor: a bare handler that answers 200 "ok" on the same HTTP stack
    Floor(FloorArgs),
    /// W1: 70 % subscription checks, 20 % device flow, 10 % user reads, over many tenants and users
    Sso(SsoArgs),
    /// How long after a revocation was acknowledged by one instance does another still accept it?
    Revocation(RevocationArgs),
    /// Durable writes at three times what the writer can do: are refusals quick and is memory bounded?
    Overload(OverloadArgs),
    /// CPU of the server per request, as a ratio to the floor
    Cost(CostArgs),
    /// How long does it take to move a million users with all that is theirs to another database?
    Move(MoveArgs),
}

/// How long to load.
#[derive(Debug, Clone, Args)]
pub struct TimeArgs {
    /// Measured time, as in 30s, 5m
    #[arg(long, value_parser = parse_duration, default_value = "30s")]
    pub duration: Duration,
    /// Time before it that is not counted
    #[arg(long, value_parser = parse_duration, default_value = "3s")]
    pub warmup: Duration,
}

/// Flags that every workload has.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// Pin the server to core 0 and the generator to core 1 (`cost` always does)
    #[arg(long)]
    pub pin: bool,
    /// Folder for the throw-away database; choose a real disk [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// An empty database on a server, such as postgres://… [default: a throw-away SQLite file]
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_DATABASE", hide_env_values = true)]
    pub database: Option<String>,
    /// Another empty database, for the baseline
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_BASELINE_DATABASE", hide_env_values = true)]
    pub baseline_database: Option<String>,
    /// Also write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seed of the random mix
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Which server, and who lives there.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// A server that already runs (repeat for several instances) [default: start one on a throw-away database]
    #[arg(long, value_name = "URL", requires = "admin_email")]
    pub url: Vec<String>,
    /// Administrator of the platform there
    #[arg(long, value_name = "EMAIL")]
    pub admin_email: Option<String>,
    /// Their password
    #[arg(long, value_name = "PASSWORD", env = "SARSEN_BENCH_ADMIN_PASSWORD", hide_env_values = true)]
    pub admin_password: Option<String>,
    /// Where that server's /metrics is, when not beside the API
    #[arg(long, value_name = "URL")]
    pub metrics_url: Option<String>,
    /// Organizations to make
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tenants: u32,
    /// User accounts to make and sign in
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accounts: u32,
}

#[derive(Debug, Clone, Args)]
pub struct FloorArgs {
    /// Connections, each asking again when it was answered
    #[arg(long, default_value_t = 64, value_parser = parse_count)]
    pub users: usize,
    #[command(flatten)]
    pub time: TimeArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// One of W1's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Only {
    /// `GET /api/subscription`, which normally touches no database
    Subscription,
    /// `POST /auth/device/code`, a durable write each
    DeviceCode,
}

#[derive(Debug, Clone, Args)]
pub struct SsoArgs {
    /// Virtual users, each with its own connection; with --open-loop connections at most, with --ceiling users at
    /// most [default: 1000; with --ceiling as many as there may be file descriptors]
    #[arg(long, value_parser = parse_count)]
    pub users: Option<usize>,
    /// Pause of a user between two operations
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    pub think: Duration,
    /// Measured time, as in 30s, 5m (with --ceiling: of each level, at most 30 s)
    #[arg(long, value_parser = parse_duration, default_value = "5m")]
    pub duration: Duration,
    /// Time before it that is not counted
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub warmup: Duration,
    /// Share of the device codes that are approved in the loop and redeemed, 0.0 to 1.0
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub approve_share: f64,
    /// Make these requests alone, not the whole mix
    #[arg(long, value_name = "REQUEST", conflicts_with = "approve_share")]
    pub only: Option<Only>,
    /// Start this many operations a second by schedule; latency counts from the intended start
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "think")]
    pub open_loop: Option<f64>,
    /// Find the highest rate with p99 <= 1 s and no failure, by more and more users
    #[arg(long, conflicts_with_all = ["open_loop", "think"])]
    pub ceiling: bool,
    /// Servers to start on the one database of --database; the virtual users are spread over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_instances, conflicts_with = "url")]
    pub instances: usize,
    /// Also run the naive baseline server, in the same way
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = BASELINE_DEFAULT)]
    pub baseline: Option<PathBuf>,
    /// How often the two are measured in turn, each for --duration: a machine whose speed changes then slows down both
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count, requires = "baseline")]
    pub rounds: usize,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = REVOCATION_HELP)]
pub struct RevocationArgs {
    /// Servers to start on the one database of --database
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parse_instances, conflicts_with = "url")]
    pub instances: usize,
    /// Operations of W1 a second, over all instances
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "load")]
    pub rate: Option<f64>,
    /// Or: this share of what 64 users in closed loop reach in a short run before [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = parse_load)]
    pub load: Option<f64>,
    /// Connections of W1 at most
    #[arg(long, default_value_t = 256, value_parser = parse_count)]
    pub users: usize,
    /// Changes a second, by schedule
    #[arg(long, value_name = "RATE", default_value_t = 50.0, value_parser = parse_rate)]
    pub probe_rate: f64,
    /// Accounts that take turns at it, each in an organization of its own
    #[arg(long, default_value_t = 64, value_parser = parse_probers)]
    pub probers: usize,
    /// Keep a transaction open all the time that has written to the database (--database also when there are --url)
    #[arg(long)]
    pub long_transaction: bool,
    /// Pause WAL replay on this PostgreSQL standby during the run; instances that the bench starts read lists there
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_REPLICA", hide_env_values = true)]
    pub lagging_replica: Option<String>,
    /// Measured time, as in 30s, 5m
    #[arg(long, value_parser = parse_duration, default_value = "60s")]
    pub duration: Duration,
    /// Time before it that is not counted
    #[arg(long, value_parser = parse_duration, default_value = "5s")]
    pub warmup: Duration,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
pub struct OverloadArgs {
    /// What each commit of the server is made to take longer
    #[arg(long, value_parser = parse_duration, default_value = "20ms")]
    pub inject_commit_delay: Duration,
    /// Commands in a batch at most
    #[arg(long, default_value_t = 20, value_parser = parse_count)]
    pub batch_max: usize,
    /// Load, as a multiple of the writer's capacity (which is measured first)
    #[arg(long, default_value_t = 3.0, value_parser = parse_rate)]
    pub factor: f64,
    /// Connections at most
    #[arg(long, default_value_t = 8_192, value_parser = parse_count)]
    pub users: usize,
    /// Accounts to make; few are enough, as no token is used
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accounts: u32,
    #[command(flatten)]
    pub time: TimeArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
pub struct CostArgs {
    /// Connections, the same for each of the three
    #[arg(long, default_value_t = 64, value_parser = parse_count)]
    pub users: usize,
    /// Measured time of each, as in 10s
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub duration: Duration,
    /// Time before each that is not counted
    #[arg(long, value_parser = parse_duration, default_value = "2s")]
    pub warmup: Duration,
    /// How often the three are measured in turn; the median ratio counts
    #[arg(long, default_value_t = 3, value_parser = parse_count)]
    pub rounds: usize,
    /// User accounts to make and sign in
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accounts: u32,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = MOVE_HELP)]
pub struct MoveArgs {
    /// User accounts to move [default: 1000000, or those that are in the folder --from]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub users: Option<u32>,
    /// The empty database to fill: postgres://…, mysql://… or sqlite:PATH
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_MOVE_TO", hide_env_values = true)]
    pub to: String,
    /// Keep the filled installation in this folder, or move the one that an earlier run has left there
    #[arg(long, value_name = "DIR", conflicts_with = "data_dir")]
    pub from: Option<PathBuf>,
    /// Kill the mover (SIGKILL) when it is at about a third, and start it again
    #[arg(long)]
    pub kill: bool,
    /// Folder for the throw-away installation; choose a real disk [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Also write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
