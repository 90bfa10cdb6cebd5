//! What a contributor runs. `cargo xtask test` is what CI runs, on a machine that need not have seen
//! the project before.
//!
//! # Layout
//! - `test.rs`, `soak.rs`, `dist/`, `packages.rs`, `fuzz.rs`, `deny.rs`, `api.rs`: one file or folder a verb.
//! - `needs/`: what the tests need of the machine, installed only when missing.
//! - `programs.rs`: the test programs, built once; `tiers.rs`: which of their tests run on which database.
//! - `databases.rs`, `postgres.rs`, `mariadb.rs`: throw-away servers. `watchdog.rs` of `store`: they
//!   end with this program, however it ends.
//! - `process.rs`, `counts.rs`, `report.rs`: run a program, read how many tests it ran, add up.
//! - `tidy/`: rules about the tree itself, as tests (`cargo test -p xtask`).
//!
//! It uses the standard library only: it must build in a moment, and first.

#![allow(clippy::print_stdout, reason = "this tool talks to a person at a terminal")]
#![allow(clippy::disallowed_methods, reason = "the environment and the clock are this tool's business")]

mod api;
mod counts;
mod databases;
mod deny;
mod dist;
mod failures;
mod fuzz;
mod mariadb;
mod needs;
mod packages;
mod places;
mod postgres;
mod process;
mod programs;
mod report;
mod soak;
mod test;
#[cfg(test)]
mod tidy;
mod tiers;
#[path = "../../crates/store/src/testing/watchdog.rs"]
mod watchdog;

use std::process::ExitCode;

/// Everything that may follow `cargo xtask`; the README is checked against it.
pub const VERBS: [&str; 7] = ["test", "soak", "dist", "packages", "fuzz", "deny", "api"];

const HELP: &str = "\
cargo xtask test [--only STEP]... [--database NAME]...
                                  everything that CI runs; STEP: fmt, clippy, tidy, unit, outside;
                                  NAME: sqlite, postgres, mariadb
cargo xtask soak [--only STEP | FILTER] [--suite DIR]
                                  what is too long for every day; STEP: cross (all tests on all databases),
                                  relying-parties (stock programs, and the guides of docs/guides),
                                  templates (those of sarsen new, with their frameworks),
                                  edge (HTTP/2, TLS, ACME, proxies, attacks), cost (the worst requests),
                                  packages (installed in bare Debians, by npm and by uv),
                                  openid (the suite of the OpenID Foundation, built in DIR; skipped without one),
                                  archives (of `dist`, in a bare Debian; skipped without one),
                                  schedules (orders of threads), fuzz-targets (they compile),
                                  long (tests whose names begin with soak_, for hours if need be)
cargo xtask packages [--only KIND]... [--dist DIR] [--names FILE]
                                  what people install, from the archives in DIR (dist); KIND: install, npm, wheel, deb,
                                  image, crates; names and addresses are those of FILE (packaging/names.toml)
cargo xtask fuzz [TARGET] [--seconds N]
                                  the parsers of foreign bytes under random bytes, a minute each (needs nightly)
cargo xtask dist [--target TRIPLE]... [--key FILE] [--out DIR]
                                  the archives of a release with their sums, in dist/; --key signs them (Ed25519).
                                  --from FILE --target TRIPLE packs a program that is there, without building
cargo xtask api keep                keeps the description of the API as the one that clients know; a change that would break
                                  them has to be named in CHANGELOG.md first
cargo xtask deny                    licences, advisories and sources of the dependencies (cargo-deny)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] | ["help" | "--help" | "-h", ..] | [_, "--help" | "-h", ..] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ["test", rest @ ..] => test::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["packages", rest @ ..] => packages::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["deny"] => deny::run(),
        ["api", "keep"] => api::run(),
        ["dist", rest @ ..] => dist::run(rest),
        _ => Err(format!("unknown: {}", args.join(" "))),
    };
    match outcome {
        Ok(report) => report.close(),
        Err(usage) => {
            print!("{usage}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
