//! `sarsen bench`: starts the load generator, the program `sarsen-bench` beside this one.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const PROGRAM: &str = "sarsen-bench";

/// Measure a server; docs/benchmarks.md describes the workloads.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// A workload and its options; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the load generator, so that signals, output and the exit code are its own.
pub fn run(args: Args) -> Result<()> {
    let this = std::env::current_exe().map_err(Error::io("cannot find this program's own file"))?;
    let program = this.with_file_name(PROGRAM);
    let error = Command::new(&program).args(args.words).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => Error::failed(format!(
            "the load generator is the program {PROGRAM}, and there is no {}; put it beside this one, or build both with \
             `cargo build --release`",
            program.display()
        )),
        _ => Error::failed(format!("cannot start {}: {error}", program.display())),
    })
}
