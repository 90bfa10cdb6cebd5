//! Programs in Go, built into the target folder.

use std::path::PathBuf;
use std::process::Command;

use crate::places;

const PROGRAMS: [&str; 2] = ["pebble", "pebble-challtestsrv"];
const VERSION: &str = "v2.10.1";
/// That of `deploy/Caddyfile-instances`.
const CADDY: &str = "github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9";

pub fn has_pebble() -> bool {
    PROGRAMS.iter().all(|program| places::go_programs().join(program).is_file())
}

pub fn install_pebble() -> Result<(), String> {
    PROGRAMS
        .iter()
        .try_for_each(|program| install(&format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{VERSION}")))
}

/// Where a Caddy is that is newer than Debian's.
pub fn caddy() -> PathBuf {
    places::go_programs().join("caddy")
}

pub fn install_caddy() -> Result<(), String> {
    install(CADDY)
}

fn install(package: &str) -> Result<(), String> {
    if !places::on_path("go") {
        return Err(format!("there is no Go to build {package} with; install Go 1.26 or newer, from go.dev"));
    }
    super::install(Command::new("go").args(["install", package]).env("GOBIN", places::go_programs()))
}
