//! The flags of `auth`.

use clap::Args;

use super::{CommonArgs, TimeArgs};
use crate::argument_parsers::{parse_count, parse_rate, parse_share};

const HELP: &str = "\
Four operations in one mix. Registration: the sign-up page and its form. Sign-in: the page and its form. Approval: a user
registers an organization and an owner of the server approves it. Audit: the newest 20 entries of an organization's trail.
Each of the first three writes an entry of that trail in its own transaction. Registrations and sign-ins hash a password;
one in five of them is a registration.

First it measures how many passwords the machine can hash. Then, with --rate, the requests arrive by schedule; without it
more and more users send without a pause, until p99 is above 1 s, a request is not accepted, or the rate does not rise.

Examples:
    sarsen bench auth --rate 210
    sarsen bench auth --hash-share 0.05";

#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct AuthArgs {
    /// Requests a second by schedule [default: find the highest rate]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Share of the requests that hash a password, 0.0 to 0.44
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = parse_hash_share)]
    pub hash_share: f64,
    /// Most connections
    #[arg(long, default_value_t = 256, value_parser = parse_count)]
    pub users: usize,
    /// Accounts with passwords; each is in a network of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub accounts: u32,
    #[command(flatten)]
    pub time: TimeArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// A form follows its page, so at most half of the requests can hash; the approvals take a part of the rest.
fn parse_hash_share(text: &str) -> Result<f64, String> {
    parse_share(text)
        .and_then(|share| if share <= 0.44 { Ok(share) } else { Err("use 0.0 to 0.44".to_owned()) })
}
