//! `sarsen version`: which program this is, so that a report of an error names it and a file can be compared with
//! `SHA256SUMS`.
//!
//! The sum is of the file that this process runs, also when another one has taken its name since.

use crate::error::{Error, Result};
use crate::output::{self, Cell, Field, Record, column};
use aws_lc_rs::digest::{self, SHA256};
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::Read as _;

/// Set by `cargo xtask dist`, with `-modified` for a tree that had uncommitted changes.
const COMMIT: Option<&str> = option_env!("SARSEN_COMMIT");

/// Print version, commit, target and the SHA-256 of this program.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen version --json | jq -r .sha256\n\n\
                  An archive's SHA256SUMS has the same sum for the program in it. A program that was built by cargo alone\n\
                  does not know its commit.")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    commit: Option<&'static str>,
    target: &'static str,
    sha256: String,
}

impl Record for Version {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("version", self.version),
            column("commit", Cell::from(self.commit.unwrap_or("not recorded"))),
            column("target", self.target),
            column("sha256", self.sha256.as_str()),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
        target: env!("SARSEN_BUILT_FOR"),
        sha256: sum_of_this_program().map_err(Error::io("cannot read this program's own file"))?,
    };
    if args.json { output::print_json(&json!(version)) } else { output::print_record(&version) }
}

fn sum_of_this_program() -> std::io::Result<String> {
    // On Linux the link opens the running file, even when it has been replaced or deleted.
    let mut file = match File::open("/proc/self/exe") {
        Ok(file) => file,
        Err(_) => File::open(std::env::current_exe()?)?,
    };
    let (mut sum, mut part) = (digest::Context::new(&SHA256), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part)? {
            0 => break,
            read => sum.update(part.get(..read).unwrap_or_default()),
        }
    }
    Ok(sum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}
