//! The load generator against small servers inside the test: what it counts, and which errors it finds.
#![expect(clippy::unwrap_used, reason = "in a test an unexpected result is a panic")]

mod back_ends;
mod commands;
mod counting;
mod event_streams;
mod fake_counters;
mod fake_server;
mod help;
mod http_server;
mod loops;
mod move_database;
mod proc_files;
mod reading_answers;
mod revocation;
mod scanning_json;
mod seeds;

/// A launcher that runs this shell script in place of each program. The arguments are `$0` and `$*`.
fn shell_script(script: impl Into<std::ffi::OsString>) -> bench::Launcher {
    let shell = bench::Launcher::new("/bin/sh");
    bench::Launcher { tools: Some("/bin/sh".into()), arguments: vec!["-c".into(), script.into()], ..shell }
}
