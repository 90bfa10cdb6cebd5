//! What the machine gives: disk, open files, the modes of files, the clock.

use super::{Finding, fail, ok, warn};
use crate::api_client;
use rustix::process::{Resource, getrlimit};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const MIB: u64 = 1024 * 1024;
/// Below this the disk is nearly full …
const FREE_MIN: u64 = 1024 * MIB;
/// … and below this a write-ahead log may not fit any more.
const FREE_NEEDED: u64 = 200 * MIB;
/// Descriptors for what is not a connection: files, database connections, outgoing calls.
const FILES_BESIDE: u64 = 256;
/// 2025-01-01: before this program was written.
const CLOCK_MIN_S: i64 = 1_735_689_600;

/// Free space where the data is.
pub(super) fn disk(folder: &Path) -> Finding {
    const CHECK: &str = "disk";
    let stat = match rustix::fs::statvfs(folder) {
        Ok(stat) => stat,
        Err(error) => return fail(CHECK, format!("{}: {error}; make the folder first", folder.display())),
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let message = format!("{} MiB are free at {}", free / MIB, folder.display());
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        return fail(CHECK, format!("{} cannot be written to by this user", folder.display()));
    }
    match free {
        ..FREE_NEEDED => fail(CHECK, format!("{message}; make room")),
        FREE_NEEDED..FREE_MIN => warn(CHECK, format!("{message}; make room soon")),
        _ => ok(CHECK, message),
    }
}

/// As many descriptors as connections. The server raises its own limit as far as it may.
pub(super) fn open_files(connections_max: usize) -> Finding {
    const CHECK: &str = "open files";
    let wanted = connections_max as u64 + FILES_BESIDE;
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < wanted => warn(
            CHECK,
            format!(
                "{limit} files may be open, and connections_max = {connections_max} needs {wanted}; raise the hard \
                 limit (ulimit -Hn, LimitNOFILE=) or lower connections_max"
            ),
        ),
        Some(limit) => ok(CHECK, format!("{limit} may be open")),
        None => ok(CHECK, "there is no limit"),
    }
}

/// A file with a secret is for its owner alone.
pub(super) fn secret_file(check: &'static str, path: &Path) -> Finding {
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(error) => fail(check, format!("{shown}: {error}")),
        Ok(file) => match file.mode() & 0o777 {
            mode if mode & 0o007 != 0 => fail(
                check,
                format!("everybody on this machine may read {shown} (mode {mode:o}); run chmod 600 {shown}"),
            ),
            mode if mode & 0o070 != 0 => {
                warn(check, format!("a group may read {shown} (mode {mode:o}); chmod 600 is safer"))
            }
            mode => ok(check, format!("{shown} is for its owner alone (mode {mode:o})")),
        },
    }
}

/// Tokens end by the clock. Whether it is right to the second cannot be seen from here.
pub(super) fn clock() -> Finding {
    const CHECK: &str = "clock";
    let now = api_client::now();
    match jiff::Timestamp::from_second(now) {
        Ok(time) if now >= CLOCK_MIN_S => ok(CHECK, format!("it is {time}")),
        Ok(time) => fail(CHECK, format!("it says {time}, which is over; set it, and keep it right by NTP")),
        Err(_) => fail(CHECK, "it is out of all bounds; set it, and keep it right by NTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_no_secret() {
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
    fn too_few_files_are_told_with_the_number_that_is_needed() {
        let finding = open_files(900_000_000_000);
        assert!(
            finding.state == State::Warn && finding.message.contains("900000000256"),
            "{}",
            finding.message
        );
        assert!(open_files(1).state == State::Ok);
    }
}
