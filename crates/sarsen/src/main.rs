//! `sarsen`: the program. Everything is in the library, `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sarsen::program::main()
}
