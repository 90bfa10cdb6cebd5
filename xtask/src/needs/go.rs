//! Programs in Go, built into the target folder.

use std::process::Command;

use crate::places;

const PROGRAMS: [&str; 2] = ["pebble", "pebble-challtestsrv"];
const VERSION: &str = "v2.10.1";

pub fn has_pebble() -> bool {
    PROGRAMS.iter().all(|program| places::go_programs().join(program).is_file())
}

pub fn install_pebble() -> Result<(), String> {
    if !places::on_path("go") {
        return Err("there is no Go to build Pebble with; install Go 1.24 or newer, from go.dev".into());
    }
    PROGRAMS.iter().try_for_each(|program| {
        let package = format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{VERSION}");
        super::install(Command::new("go").args(["install", &package]).env("GOBIN", places::go_programs()))
    })
}
