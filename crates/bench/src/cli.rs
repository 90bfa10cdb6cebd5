//! The command line of `sarsen bench`.

mod auth;
mod back_ends;
mod capacity;
mod seeds;

pub use auth::AuthArgs;
pub use back_ends::{AttemptsArgs, BackEndArgs, LiveArgs, WritesArgs};
pub use capacity::{CapacityArgs, Part};
pub use seeds::SeedsArgs;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::argument_parsers::{
    parse_count, parse_duration, parse_instances, parse_load, parse_probers, parse_rate, parse_share,
};

/// The naive server, when `--baseline` names no program.
const BASELINE_DEFAULT: &str = "bench/baselines/sso_naive/target/release/sso_naive";

const REVOCATION_HELP: &str = "\
Beside W1 in open loop, probers sign in, have the token accepted by one instance, and make a change at another one: revoke
the token, end the sessions, suspend the account or its organization, or change the plan. Then they poll the first
instance until the change is in force. The bound is p99 <= 250 ms. A change that is not in force after 5 s is a failure
(exit code 1). It needs sarsen-bench-tools, unless all servers are given by --url.

Examples:
    sarsen bench revocation --database postgres://sarsen@127.0.0.1/bench
    sarsen bench revocation --database postgres://… --rate 2000 --long-transaction
    sarsen bench revocation --url http://10.0.0.1:7070 --url http://10.0.0.2:7070 --admin-email …";

const LOGIN_HELP: &str = "\
First it measures how many sign-ins a second the machine can hash, and the reads alone. Then sign-ins arrive at multiples of
that rate, in browsers that the server does not know, while the reads go on. Before each, it measures what is left to hash
beside as many reads and refusals. Bars: 90 % of that are accepted, p99
of refusals is at most 50 ms, p99 of the reads at most 3 times the quiet one or 10 ms more, and nothing fails.

Examples:
    sarsen bench login
    sarsen bench login --multiples 10 --duration 60s";

const MOVE_HELP: &str = "\
Creates a throw-away installation on SQLite and fills it with accounts: each has a password, a customer, a session and
entries of the audit trail, every second one a subscription. Then it runs `sarsen move` into the empty database --to,
starts a server there, and signs in one of the accounts. The exit code is 1 when something differs. It needs
sarsen-bench-tools.

Examples:
    sarsen bench move --to postgres://sarsen@127.0.0.1/bench
    sarsen bench move --to mysql://root@127.0.0.1/bench --kill --from filled";

/// What to measure.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// The floor: a bare handler that answers 200 "ok" on the same HTTP stack
    Floor(FloorArgs),
    /// W1: 70 % subscription checks, 20 % device flow, 10 % user reads, over many tenants and users
    Sso(SsoArgs),
    /// W2: sign-ins with passwords at multiples of what the machine can hash, beside reads
    Login(LoginArgs),
    /// Registrations, sign-ins, approvals and the audit trail in one mix, and at what rate passwords end it
    Auth(AuthArgs),
    /// W3: durable inserts with 1 to 1,024 connections
    Writes(WritesArgs),
    /// W4: users that watch counters on streams and change them, more and more of them
    Live(LiveArgs),
    /// W5: saved answers at a constant rate of arrivals
    Attempts(AttemptsArgs),
    /// The highest load of W1 to W5 on this machine, and what it means in users
    Capacity(CapacityArgs),
    /// Staleness: how long can another instance serve old data after a change was acknowledged?
    Revocation(RevocationArgs),
    /// Durable writes at three times the capacity of the writer: latency of refusals, and memory
    Overload(OverloadArgs),
    /// CPU of the server per request, as a ratio to the floor
    Cost(CostArgs),
    /// The time to move a million users with their data to another database
    Move(MoveArgs),
    /// The tables of five published load tests, row by row, with figures of this machine beside theirs
    Seeds(SeedsArgs),
}

/// The time of a run.
#[derive(Debug, Clone, Args)]
pub struct TimeArgs {
    /// Measured time, as in 30s, 5m
    #[arg(long, value_parser = parse_duration, default_value = "30s")]
    pub duration: Duration,
    /// Warm-up before it
    #[arg(long, value_parser = parse_duration, default_value = "3s")]
    pub warmup: Duration,
}

/// Flags that every workload has.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// Pin the server to core 0 and the generator to core 1 (`cost` always does)
    #[arg(long)]
    pub pin: bool,
    /// Folder for the throw-away database, on a real disk [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// An empty database on a server, such as postgres://… [default: a throw-away SQLite file]
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_DATABASE", hide_env_values = true)]
    pub database: Option<String>,
    /// Another empty database for the baseline
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_BASELINE_DATABASE", hide_env_values = true)]
    pub baseline_database: Option<String>,
    /// Also write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seed of the random mix
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The server, and its accounts.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// A running server; may be repeated for several instances [default: start one on a throw-away database]
    #[arg(long, value_name = "URL", requires = "admin_email")]
    pub url: Vec<String>,
    /// E-mail address of an owner of that server
    #[arg(long, value_name = "EMAIL")]
    pub admin_email: Option<String>,
    /// Password of the owner
    #[arg(long, value_name = "PASSWORD", env = "SARSEN_BENCH_ADMIN_PASSWORD", hide_env_values = true)]
    pub admin_password: Option<String>,
    /// Address of /metrics, if it differs from that of the API
    #[arg(long, value_name = "URL")]
    pub metrics_url: Option<String>,
    /// Organizations to create
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tenants: u32,
    /// User accounts to create and sign in
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accounts: u32,
}

#[derive(Debug, Clone, Args)]
pub struct FloorArgs {
    /// Connections in closed loop
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
    /// `GET /api/subscription`, which is answered from caches
    Subscription,
    /// `POST /auth/device/code`, which is a durable write
    DeviceCode,
}

/// How requests choose among tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skew {
    /// All alike
    Uniform,
    /// Zipf's law with exponent 1: the r-th token with a probability of 1/r
    Zipf,
}

impl Skew {
    pub fn label(self) -> &'static str {
        match self {
            Skew::Uniform => "uniform",
            Skew::Zipf => "zipf",
        }
    }
}

/// Many live tokens.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Many tokens")]
pub struct TokenArgs {
    /// CPU per GET /api/subscription with so many live tokens, five for each user, as a ratio to that of a few tokens
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with_all = ["ceiling", "open_loop", "baseline", "url"])]
    pub tokens: Option<usize>,
    /// How requests choose among them
    #[arg(long, value_enum, default_value_t = Skew::Uniform, requires = "tokens")]
    pub skew: Skew,
    /// Measure doublings from 1,000 up to --tokens
    #[arg(long, requires = "tokens")]
    pub walk: bool,
    /// The first level of --walk
    #[arg(long, value_name = "N", value_parser = parse_count, requires = "walk")]
    pub walk_from: Option<usize>,
    /// MiB that all caches of the server may take
    #[arg(long, value_name = "MIB", default_value_t = 448, requires = "tokens")]
    pub cache_memory: u64,
}

#[derive(Debug, Clone, Args)]
pub struct SsoArgs {
    /// Virtual users, each with its own connection; the most connections with --open-loop, the most users with --ceiling
    /// [default: 1000; with --ceiling the limit of file descriptors]
    #[arg(long, value_parser = parse_count)]
    pub users: Option<usize>,
    /// Think time of a user between two operations
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    pub think: Duration,
    /// Measured time, as in 30s, 5m; with --ceiling of each level, at most 30 s; with --tokens at most 10 s
    #[arg(long, value_parser = parse_duration, default_value = "5m")]
    pub duration: Duration,
    /// Warm-up before it
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub warmup: Duration,
    /// Share of the device codes that are approved and redeemed, 0.0 to 1.0
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub approve_share: f64,
    /// Send only these requests of the mix
    #[arg(long, value_name = "REQUEST", conflicts_with = "approve_share")]
    pub only: Option<Only>,
    /// Operations a second by schedule; latency counts from the scheduled start
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "think")]
    pub open_loop: Option<f64>,
    /// Find the highest rate with p99 <= 1 s and no failure, with increasing users
    #[arg(long, conflicts_with_all = ["open_loop", "think"])]
    pub ceiling: bool,
    /// Limit the memory of the server, in MiB, where the system can (cgroup v2, systemd-run); the report says how
    #[arg(long, value_name = "MIB", conflicts_with_all = ["url", "tokens"])]
    pub memory_max: Option<u64>,
    /// Instances on the database of --database; the virtual users are spread over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_instances, conflicts_with = "url")]
    pub instances: usize,
    /// Also measure the naive baseline server
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = BASELINE_DEFAULT)]
    pub baseline: Option<PathBuf>,
    /// Rounds in which both are measured in turn, each for --duration, so that a change of speed affects both
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count, requires = "baseline")]
    pub rounds: usize,
    #[command(flatten)]
    pub many: TokenArgs,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = REVOCATION_HELP)]
pub struct RevocationArgs {
    /// Instances on the database of --database
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parse_instances, conflicts_with = "url")]
    pub instances: usize,
    /// Operations of W1 a second over all instances
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "load")]
    pub rate: Option<f64>,
    /// Or a share of the closed-loop rate of 64 users, measured before [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = parse_load)]
    pub load: Option<f64>,
    /// Most connections of W1
    #[arg(long, default_value_t = 256, value_parser = parse_count)]
    pub users: usize,
    /// Changes a second, by schedule
    #[arg(long, value_name = "RATE", default_value_t = 50.0, value_parser = parse_rate)]
    pub probe_rate: f64,
    /// Accounts that make the changes in turn, each in its own organization
    #[arg(long, default_value_t = 64, value_parser = parse_probers)]
    pub probers: usize,
    /// Keep a transaction with a write open during the run (with --url, --database is required)
    #[arg(long)]
    pub long_transaction: bool,
    /// Pause WAL replay on this PostgreSQL standby during the run; instances of the bench read lists there
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_REPLICA", hide_env_values = true)]
    pub lagging_replica: Option<String>,
    /// Measured time, as in 30s, 5m
    #[arg(long, value_parser = parse_duration, default_value = "60s")]
    pub duration: Duration,
    /// Warm-up before it
    #[arg(long, value_parser = parse_duration, default_value = "5s")]
    pub warmup: Duration,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
pub struct OverloadArgs {
    /// Delay of each commit
    #[arg(long, value_parser = parse_duration, default_value = "20ms")]
    pub inject_commit_delay: Duration,
    /// Most commands in a batch
    #[arg(long, default_value_t = 20, value_parser = parse_count)]
    pub batch_max: usize,
    /// Load, as a multiple of the measured capacity of the writer
    #[arg(long, default_value_t = 3.0, value_parser = parse_rate)]
    pub factor: f64,
    /// Most connections
    #[arg(long, default_value_t = 8_192, value_parser = parse_count)]
    pub users: usize,
    /// Accounts to create; device codes need no token, so few are enough
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accounts: u32,
    #[command(flatten)]
    pub time: TimeArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = LOGIN_HELP)]
pub struct LoginArgs {
    /// Rates of sign-ins, as multiples of the capacity that is measured first
    #[arg(long, value_name = "FACTOR,…", default_value = "0.5,1,3,10", value_delimiter = ',', value_parser = parse_rate)]
    pub multiples: Vec<f64>,
    /// Subscription checks a second beside them
    #[arg(long, value_name = "RATE", default_value_t = 500.0, value_parser = parse_rate)]
    pub reads: f64,
    /// Accounts with passwords; each is in a network of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub accounts: u32,
    /// Most connections
    #[arg(long, default_value_t = 2_000, value_parser = parse_count)]
    pub users: usize,
    #[command(flatten)]
    pub time: TimeArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
pub struct CostArgs {
    /// Also measure GET /api/subscription by HTTP/2, and by both protocols over TLS; it needs openssl
    #[arg(long)]
    pub protocols: bool,
    /// Connections of each of the three
    #[arg(long, default_value_t = 64, value_parser = parse_count)]
    pub users: usize,
    /// Measured time of each, as in 10s
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub duration: Duration,
    /// Warm-up before each
    #[arg(long, value_parser = parse_duration, default_value = "2s")]
    pub warmup: Duration,
    /// Rounds in which the three are measured in turn; the result is the median ratio
    #[arg(long, default_value_t = 3, value_parser = parse_count)]
    pub rounds: usize,
    /// User accounts to create and sign in
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accounts: u32,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = MOVE_HELP)]
pub struct MoveArgs {
    /// User accounts to move [default: 1000000, or those of the folder --from]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub users: Option<u32>,
    /// The empty database to fill: postgres://…, mysql://… or sqlite:PATH
    #[arg(long, value_name = "URL", env = "SARSEN_BENCH_MOVE_TO", hide_env_values = true)]
    pub to: String,
    /// Keep the filled installation in this folder, or use the one that an earlier run kept there
    #[arg(long, value_name = "DIR", conflicts_with = "data_dir")]
    pub from: Option<PathBuf>,
    /// Kill the mover with SIGKILL after about a third, and run it again
    #[arg(long)]
    pub kill: bool,
    /// Folder for the throw-away installation, on a real disk [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Also write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
