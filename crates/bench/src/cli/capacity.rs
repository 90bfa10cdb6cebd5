//! The flags of `capacity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::CommonArgs;
use crate::argument_parsers::{parse_duration, parse_load, parse_rate};

const HELP: &str = "\
Each workload gets more users, twice as many in each level, until p99 is above --bound, a request fails, or the rate does
not rise any more. The highest level that holds is the capacity of this machine, and the resource that ran out is named.
The load generator runs on the same machine, so a server of this size that serves alone has more.

W1 and W2 need only sarsen; W3, W4 and W5 need the back ends of examples/ beside it, and are left out if those are missing:
    cargo build --release -p request_log -p counters -p exam_attempts

Then the rate becomes numbers of users by four assumptions, which are printed and which you should replace by figures of
your product. A user is taken to sign in with a password once a day.

Examples:
    sarsen bench capacity
    sarsen bench capacity --only sso --bound 100ms
    sarsen bench capacity --requests-per-user 0.05 --online-share 0.04 --price 20";

/// A workload of `capacity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// W1, single sign-on
    Sso,
    /// W2, sign-ins with passwords
    Login,
    /// W3, durable writes
    Writes,
    /// W4, live queries
    Live,
    /// W5, saved answers
    Attempts,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct CapacityArgs {
    /// The workloads [default: all whose programs are there]
    #[arg(long, value_name = "WORKLOAD,…", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// The highest p99 of requests; of W4 also of write -> frame
    #[arg(long, value_parser = parse_duration, default_value = "250ms")]
    pub bound: Duration,
    /// Measured time of each level
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub duration: Duration,
    /// Warm-up before each level
    #[arg(long, value_parser = parse_duration, default_value = "3s")]
    pub warmup: Duration,
    /// Assumption: requests a second of a user who is online, at the time of most requests
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value_t = 0.1)]
    pub requests_per_user: f64,
    /// Assumption: the rate at the time of most requests is the mean rate of a month by this
    #[arg(long, value_name = "FACTOR", value_parser = parse_rate, default_value_t = 5.0)]
    pub peak_to_mean: f64,
    /// Assumption: share of a day's users who are online at the time of most requests
    #[arg(long, value_name = "SHARE", value_parser = parse_load, default_value_t = 0.1)]
    pub online_share: f64,
    /// Assumption: share of a month's users who come on a day
    #[arg(long, value_name = "SHARE", value_parser = parse_load, default_value_t = 0.3)]
    pub daily_share: f64,
    /// Price of this machine a month, in any currency
    #[arg(long, value_name = "AMOUNT", value_parser = parse_rate)]
    pub price: Option<f64>,
    /// Folder of the programs of examples/ [default: that of sarsen]
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}
