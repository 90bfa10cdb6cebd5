//! What stands beside every figure: the machine, the commit of the programs, and versions of foreign programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::results::Settings;
use super::row::Row;
use crate::cli::SeedsArgs;
use crate::launcher::Launcher;
use crate::workloads::postgres_version;

pub(super) struct Surroundings {
    pub machine: String,
    commit: String,
    /// As in `PostgreSQL 18.6`.
    postgres: Option<String>,
}

impl Surroundings {
    pub fn find(args: &SeedsArgs, launcher: &Launcher) -> Surroundings {
        let commit = args.commit.clone().or_else(|| commit_of(launcher.program.parent()?));
        Surroundings {
            machine: machine(),
            commit: commit.unwrap_or_else(|| "unknown".to_owned()),
            // Where there is none, the rows that need it say so.
            postgres: postgres_version(args.postgres_programs.as_deref()).ok(),
        }
    }

    pub fn settings(&self, row: &Row, quick: bool) -> Settings {
        Settings {
            command: format!("sarsen bench {}", row.words),
            with: self.postgres.clone().filter(|_| row.needs_postgres),
            commit: self.commit.clone(),
            build: if cfg!(debug_assertions) { "debug" } else { "optimized" }.to_owned(),
            quick,
        }
    }
}

/// The commit of the work tree that has this folder; with `+` when files differ from it.
fn commit_of(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        Command::new("git").arg("-C").arg(folder).args(arguments).stdin(Stdio::null()).output().ok()
    };
    let head = git(&["rev-parse", "--short=8", "HEAD"]).filter(|output| output.status.success())?;
    let head = String::from_utf8_lossy(&head.stdout).trim().to_owned();
    let is_clean = git(&["diff", "--quiet", "HEAD"]).is_some_and(|output| output.status.success());
    Some(if is_clean { head } else { format!("{head}+") })
}

fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts = vec![format!("{cores} cores")];
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    parts.extend(model.map(|(_, name)| name.split_whitespace().collect::<Vec<_>>().join(" ")));
    let memory = read("/proc/meminfo");
    let kibibytes: Option<f64> = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    parts.extend(kibibytes.map(|kibibytes| format!("{:.0} GiB", kibibytes / 1_048_576.0)));
    let kernel = read("/proc/sys/kernel/osrelease");
    parts.extend(Some(kernel.trim()).filter(|text| !text.is_empty()).map(|text| format!("Linux {text}")));
    parts.join(", ")
}
