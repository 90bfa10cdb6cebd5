//! The tools of the benchmarks, started as `sarsen bench` starts them.

mod benchmarks;
mod history;
#[expect(dead_code, reason = "the tests of sarsen use more of it")]
#[path = "../../../sarsen/tests/it/support.rs"]
mod support;
mod tools;

/// The program under test. It has the commands of `sarsen` too.
const PROGRAM: &str = env!("CARGO_BIN_EXE_sarsen-bench-tools");
