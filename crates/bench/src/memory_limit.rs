//! A limit on the memory of a server under test: by a control group (cgroup v2), else by `systemd-run`. Where neither is
//! possible the server runs without a limit, and the report says why.
//!
//! Promises: a limit that is reported is in force, because a shell was moved under it first. The control group is removed at
//! the end.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::launcher::Launcher;

const MEBIBYTE: u64 = 1024 * 1024;
/// How long the last process may take to leave the group.
const REMOVE_TIME_MAX: Duration = Duration::from_secs(2);
/// Moves the shell into the group `$0`, then becomes the program.
const ENTER: &str = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";

/// How the memory of the server is limited. Dropping it removes the control group.
#[derive(Debug)]
pub(crate) enum MemoryLimit {
    ControlGroup { folder: PathBuf, mebibytes: u64 },
    SystemdRun { is_root: bool, mebibytes: u64 },
    Unlimited { why: String },
}

/// Where the operating system describes itself. Tests have other places.
pub(crate) struct System {
    pub mounts: PathBuf,
    pub own_group: PathBuf,
    /// It exists when systemd is the init system.
    pub systemd: PathBuf,
}

impl System {
    pub fn real() -> System {
        System {
            mounts: "/proc/self/mounts".into(),
            own_group: "/proc/self/cgroup".into(),
            systemd: "/run/systemd/system".into(),
        }
    }
}

impl MemoryLimit {
    /// Finds a way to limit a process to `mebibytes`, and tries it.
    pub fn open(mebibytes: u64, system: &System) -> MemoryLimit {
        let mut why = match control_group(mebibytes, system) {
            Ok(limit) => return limit,
            Err(why) => why,
        };
        if system.systemd.is_dir() {
            let limit = MemoryLimit::SystemdRun { is_root: rustix::process::getuid().is_root(), mebibytes };
            match limit.tried() {
                Ok(()) => return limit,
                Err(text) => why = format!("{why}; systemd-run: {text}"),
            }
        } else {
            why.push_str("; systemd does not run");
        }
        MemoryLimit::Unlimited { why }
    }

    /// A launcher whose servers have the limit.
    pub fn over(&self, launcher: &Launcher) -> Launcher {
        Launcher { wrapper: self.wrapper(), ..launcher.clone() }
    }

    /// For the name of the server in the report.
    pub fn describe(&self) -> String {
        match self {
            MemoryLimit::ControlGroup { mebibytes, .. } => format!("at most {mebibytes} MiB (cgroup v2)"),
            MemoryLimit::SystemdRun { mebibytes, .. } => format!("at most {mebibytes} MiB (systemd-run)"),
            MemoryLimit::Unlimited { why } => format!("memory not limited: {why}"),
        }
    }

    fn wrapper(&self) -> Vec<OsString> {
        match self {
            MemoryLimit::ControlGroup { folder, .. } => {
                vec!["/bin/sh".into(), "-c".into(), ENTER.into(), folder.into()]
            }
            MemoryLimit::SystemdRun { is_root, mebibytes } => {
                let memory_max = format!("MemoryMax={mebibytes}M");
                let mut words = vec!["systemd-run", "--scope", "--quiet"];
                if !is_root {
                    words.push("--user");
                }
                words.extend(["-p", &memory_max, "-p", "MemorySwapMax=0"]);
                words.into_iter().map(OsString::from).collect()
            }
            MemoryLimit::Unlimited { .. } => Vec::new(),
        }
    }

    /// Runs `true` under the limit.
    fn tried(&self) -> Result<(), String> {
        let words = self.wrapper();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("/bin/true").stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(text.lines().last().unwrap_or("it failed").trim().to_owned())
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let MemoryLimit::ControlGroup { folder, .. } = self else { return };
        let begun = Instant::now();
        // A process that has just ended leaves the group a moment later.
        let is_busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ResourceBusy;
        while fs::remove_dir(&*folder).is_err_and(|error| is_busy(&error))
            && begun.elapsed() < REMOVE_TIME_MAX
        {
            std::thread::yield_now();
        }
    }
}

/// Makes a group below the nearest group that gives its children the memory controller.
fn control_group(mebibytes: u64, system: &System) -> Result<MemoryLimit, String> {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let mounts = read(&system.mounts);
    let of_line = |line: &str| -> Option<PathBuf> {
        let mut fields = line.split(' ').skip(1);
        let (folder, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| folder.into())
    };
    let mount = mounts.lines().find_map(of_line).ok_or("there is no cgroup v2")?;
    let own = read(&system.own_group);
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("this process has no cgroup v2")?;
    let own = mount.join(own.trim_start_matches('/'));
    let gives_memory = |folder: &&Path| {
        read(&folder.join("cgroup.subtree_control")).split_whitespace().any(|name| name == "memory")
    };
    let mut parents = own.ancestors().take_while(|folder| folder.starts_with(&mount)).filter(gives_memory);
    let parent = parents.next().ok_or("cgroup v2 has no memory controller here")?;
    let folder = parent.join(format!("sarsen-bench-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|error| format!("no new cgroup in {}: {error}", parent.display()))?;
    let limit = MemoryLimit::ControlGroup { folder: folder.clone(), mebibytes };
    let set = |name: &str, value: String| fs::write(folder.join(name), value);
    set("memory.max", (mebibytes * MEBIBYTE).to_string())
        .map_err(|error| format!("memory.max of a new cgroup: {error}"))?;
    // Without a swap controller there is nothing to limit.
    let _ = set("memory.swap.max", "0".to_owned());
    limit.tried().map_err(|text| format!("a process cannot enter a new cgroup: {text}"))?;
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up /sys and /proc: a cgroup v2 whose group `/app/shell` is that of this process.
    fn system(root: &Path, subtree: &[(&str, &str)]) -> System {
        let mount = root.join("cgroup");
        fs::create_dir_all(mount.join("app/shell")).unwrap();
        for (folder, controllers) in subtree {
            fs::write(mount.join(folder).join("cgroup.subtree_control"), controllers).unwrap();
        }
        let mounts = format!(
            "proc /proc proc rw 0 0\ncgroup {0}/memory cgroup rw,memory 0 0\ncgroup2 {0} cgroup2 rw 0 0\n",
            mount.display()
        );
        fs::write(root.join("mounts"), mounts).unwrap();
        fs::write(root.join("own"), "4:memory:/other\n0::/app/shell\n").unwrap();
        System { mounts: root.join("mounts"), own_group: root.join("own"), systemd: root.join("no-systemd") }
    }

    #[test]
    fn the_nearest_group_that_gives_memory_gets_a_child() {
        let root = tempfile::tempdir().unwrap();
        let found = system(root.path(), &[("", "cpu memory"), ("app", "memory pids"), ("app/shell", "")]);
        let limit = MemoryLimit::open(1_024, &found);
        let MemoryLimit::ControlGroup { folder, .. } = &limit else { panic!("{limit:?}") };
        assert_eq!(folder.parent().unwrap(), root.path().join("cgroup/app"));
        assert_eq!(fs::read_to_string(folder.join("memory.max")).unwrap(), "1073741824");
        let entered: u32 = fs::read_to_string(folder.join("cgroup.procs")).unwrap().trim().parse().unwrap();
        assert!(entered > 0 && entered != std::process::id(), "a child entered it, not this process");
        assert_eq!(limit.describe(), "at most 1024 MiB (cgroup v2)");
        // The server starts under the limit, and is pinned there.
        let launcher = limit.over(&Launcher::new("/bin/echo"));
        let output = launcher.command(&["served"], Some(0)).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "served\n");
        let served: u32 = fs::read_to_string(folder.join("cgroup.procs")).unwrap().trim().parse().unwrap();
        assert_ne!(served, entered);
    }

    #[test]
    fn without_a_way_to_limit_it_the_reason_is_named() {
        let root = tempfile::tempdir().unwrap();
        let no_memory = system(root.path(), &[("", "cpu"), ("app", "pids")]);
        let limit = MemoryLimit::open(1_024, &no_memory);
        assert_eq!(
            limit.describe(),
            "memory not limited: cgroup v2 has no memory controller here; systemd does not run"
        );
        let launcher = limit.over(&Launcher::new("/bin/true"));
        assert!(launcher.wrapper.is_empty());
        fs::write(&no_memory.mounts, "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n").unwrap();
        let limit = MemoryLimit::open(1_024, &no_memory);
        assert!(limit.describe().starts_with("memory not limited: there is no cgroup v2;"), "{limit:?}");
    }
}
