//! The machine: free disk, open files, the modes of files, the clock.

use crate::api_client;
use crate::commands::findings::{Finding, State, fail, ok, warn};
use crate::config::Config;
use crate::files;
use rustix::process::{Resource, getrlimit};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const MIB: u64 = 1024 * 1024;
/// Below this the disk is nearly full.
const FREE_MIN: u64 = 1024 * MIB;
/// Below this a write-ahead log may not fit.
const FREE_NEEDED: u64 = 200 * MIB;
/// Descriptors for what is not a connection: files, database connections, outgoing calls.
const FILES_BESIDE: u64 = 256;
/// 2025-01-01: a clock before this is wrong.
const CLOCK_MIN_S: i64 = 1_735_689_600;

/// Free space where the data is.
pub(super) fn disk(folder: &Path) -> Finding {
    const CHECK: &str = "disk";
    let stat = match rustix::fs::statvfs(folder) {
        Ok(stat) => stat,
        Err(error) => return fail(CHECK, format!("{}: {error}; create the folder", folder.display())),
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let message = format!("{} MiB are free at {}", free / MIB, folder.display());
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        return fail(
            CHECK,
            format!("{} is not writable for this user; change its owner or mode", folder.display()),
        );
    }
    match free {
        ..FREE_NEEDED => fail(CHECK, format!("{message}; free some space")),
        FREE_NEEDED..FREE_MIN => warn(CHECK, format!("{message}; free some space soon")),
        _ => ok(CHECK, message),
    }
}

/// What killed commands left beside the database and the secret key, if there is something.
pub(super) fn leftovers(config: &Config) -> Option<Finding> {
    const CHECK: &str = "leftovers";
    let found = files::unfinished(config.database.value.path(), &config.secret_key_file.value);
    // The path is escaped, because a name may have characters that a terminal obeys.
    let described = found.iter().map(|left| match (&left.path, left.process, &left.kept) {
        (path, process, None) => format!("{path:?}, of process {process}"),
        (path, process, Some(why)) => format!("{path:?}, of process {process}: {why}"),
    });
    let mut shown: Vec<String> = described.take(files::LEFTOVERS_NAMED_MAX).collect();
    if found.len() > shown.len() {
        shown.push(format!("and {} more", found.len() - shown.len()));
    }
    let shown = shown.join("; ");
    let advice = "the next sarsen serve, backup, restore or rekey in that folder removes the files that no process uses";
    (!found.is_empty()).then(|| warn(CHECK, format!("killed commands left files: {shown}; {advice}")))
}

/// The server needs a descriptor a connection. It raises its own soft limit up to the hard limit.
pub(super) fn open_files(connections_max: usize) -> Finding {
    const CHECK: &str = "open files";
    let wanted = connections_max as u64 + FILES_BESIDE;
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < wanted => warn(
            CHECK,
            format!(
                "the limit is {limit} open files, and connections_max = {connections_max} needs {wanted}; raise the \
                 hard limit (ulimit -Hn, LimitNOFILE=) or lower connections_max"
            ),
        ),
        Some(limit) => ok(CHECK, format!("the limit is {limit}")),
        None => ok(CHECK, "no limit"),
    }
}

/// Only its owner may read a file with a secret.
pub(super) fn secret_file(check: &'static str, path: &Path) -> Finding {
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(error) => fail(check, format!("{shown}: {error}")),
        Ok(file) => match file.mode() & 0o777 {
            mode if mode & 0o007 != 0 => fail(
                check,
                format!("every user of this machine may read {shown} (mode {mode:o}); run chmod 600 {shown}"),
            ),
            mode if mode & 0o070 != 0 => {
                warn(check, format!("a group may read {shown} (mode {mode:o}); run chmod 600 {shown}"))
            }
            mode => ok(check, format!("only its owner may read {shown} (mode {mode:o})")),
        },
    }
}

/// The same for a file that other servers may use too: Debian lets the group `ssl-cert` read keys of certificates.
pub(super) fn shared_secret_file(check: &'static str, path: &Path) -> Finding {
    let finding = secret_file(check, path);
    match finding.state {
        State::Warn => ok(check, format!("only its owner and its group may read {}", path.display())),
        _ => finding,
    }
}

/// Tokens expire by the clock. This finds gross errors only.
pub(super) fn clock() -> Finding {
    const CHECK: &str = "clock";
    let now = api_client::now();
    match jiff::Timestamp::from_second(now) {
        Ok(time) if now >= CLOCK_MIN_S => ok(CHECK, format!("{time}")),
        Ok(time) => fail(CHECK, format!("{time} is in the past; set the clock and run NTP")),
        Err(_) => fail(CHECK, "the time is out of range; set the clock and run NTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sarsen.key");
        std::fs::write(&path, "x").expect("written");
        for (mode, state) in
            [(0o600, State::Ok), (0o400, State::Ok), (0o640, State::Warn), (0o644, State::Fail)]
        {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("set");
            assert!(secret_file("secret key", &path).state == state, "{mode:o}");
        }
    }

    #[test]
    fn too_low_a_limit_of_files_is_a_warning_with_the_number_that_is_needed() {
        let finding = open_files(900_000_000_000);
        assert!(
            finding.state == State::Warn && finding.message.contains("900000000256"),
            "{}",
            finding.message
        );
        assert!(open_files(1).state == State::Ok);
    }
}
