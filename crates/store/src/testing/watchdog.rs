//! Ends the servers of a test with the process that started them. A process that is stopped by force runs no code of its
//! own, and a server that has become a daemon would go on for ever.
//!
//! A shell waits for the end of a pipe that only this process holds open. It belongs to no group of ours, so that neither
//! Ctrl-C nor the end of all our children ends it before its work is done. `xtask` has this file too.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

/// `$0` is the folder. The standard input of what runs in the background is another one. When the folder is gone, all was done before. A process that has not entered it yet finds nothing.
/// A process that cannot be killed, or a folder that cannot be removed, must not keep the shell here for ever.
const SCRIPT: &str = r#"exec 3<&0
(
    read -r end <&3
    until=$(($(date +%s) + 60))
    while [ -d "$0" ] && [ "$(date +%s)" -lt "$until" ]; do
        found=
        for process in /proc/[0-9]*; do
            case $(readlink "$process/cwd") in
                "$0" | "$0"/*) kill -s KILL "${process#/proc/}" && found=yes ;;
            esac
        done
        [ "$found" ] || rm -rf "$0"
        sleep 0.1
    done
) >/dev/null 2>&1 &"#;

/// When this value or this process ends, every process that works in the folder is killed, and the folder removed.
#[derive(Debug)]
pub struct Watchdog {
    _open: ChildStdin,
}

impl Watchdog {
    /// A watchdog of a folder that belongs to servers alone.
    pub fn of(folder: &Path) -> io::Result<Watchdog> {
        let folder = folder.canonicalize()?;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(SCRIPT).arg(folder).current_dir("/").process_group(0);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let open = shell.stdin.take();
        shell.wait()?;
        open.map(|open| Watchdog { _open: open }).ok_or_else(|| io::Error::other("a child without its input"))
    }
}
