//! The memory that the system lets this process have: the smallest limit of its control groups (of version 1 and 2), their
//! parents included.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Version 1 has this much and more where there is no limit.
const NONE: u64 = 1 << 60;

/// The limit in bytes, if there is one.
pub fn bytes() -> Option<u64> {
    of(&read_to_string("/proc/self/cgroup").ok()?, &read_to_string("/proc/self/mountinfo").ok()?)
}

/// What caches that may take `wanted` take within the limit: half of it at most, because connections, the database and
/// password hashes need the rest.
pub fn for_caches(wanted: usize, limit: Option<u64>) -> usize {
    limit.and_then(|limit| usize::try_from(limit / 2).ok()).map_or(wanted, |half| wanted.min(half))
}

/// The limit of the groups in `/proc/self/cgroup`, where `/proc/self/mountinfo` says that they are mounted.
fn of(groups: &str, mounts: &str) -> Option<u64> {
    let of_group = |line: &str| {
        // `0::/system.slice/sarsen.service` is of version 2, `4:memory:/docker/1234` of version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let version = match controllers {
            "" => Version::Two,
            _ if controllers.split(',').any(|name| name == "memory") => Version::One,
            _ => return None,
        };
        let mount = mounts.lines().filter_map(Mount::parse).find(|mount| mount.version == version)?;
        mount.limit(Path::new(path))
    };
    groups.lines().filter_map(of_group).min()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where control groups are mounted.
struct Mount {
    version: Version,
    /// The group that is at `point`. In a container that is often not the topmost one.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A line such as `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`.
    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut places = before.split(' ').skip(3).map(unescaped);
        let mut kind = after.split(' ');
        let version = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|option| option == "memory") => Version::One,
            _ => return None,
        };
        Some(Mount { version, root: places.next()?, point: places.next()? })
    }

    /// The smallest limit of a group and of those around it, as far as they are mounted.
    fn limit(&self, group: &Path) -> Option<u64> {
        // The path may be one outside of the container, which is not there: then the groups that are mounted count.
        let below = group.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let file = match self.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        let folder = self.point.join(below);
        let groups = folder.ancestors().take_while(|folder| folder.starts_with(&self.point));
        let limits =
            groups.filter_map(|folder| read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok());
        limits.filter(|limit| *limit < NONE).min()
    }
}

/// A path whose blanks are written as `\040`.
fn unescaped(text: &str) -> PathBuf {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Folders of control groups with what their limits' file has.
    fn folders(file: &str, groups: &[(&str, &str)]) -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a folder");
        for (group, limit) in groups {
            let folder = top.path().join(group);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join(file), limit).expect("written");
        }
        top
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let groups =
            [("", "max\n"), ("a", "5000\n"), ("a/b", "9000\n"), ("a/b/c", "max\n"), ("other", "1\n")];
        let two = folders("memory.max", &groups);
        let mount = |kind: &str, root: &str, top: &Path| {
            format!("20 1 0:1 / / rw - ext4 /dev/a rw\n30 20 0:2 {root} {} rw - {kind}", top.display())
        };
        let seen = |path: &str| of(&format!("0::{path}\n"), &mount("cgroup2 none rw", "/", two.path()));
        assert_eq!(seen("/a/b/c"), Some(5000));
        assert_eq!((seen("/"), seen("/other")), (None, Some(1)));
        assert_eq!(seen("/a/b/gone"), Some(5000), "what is there counts");
        assert_eq!(seen("/../outside"), None);
        // Docker without a namespace for control groups: the path is that of the host, the mount begins at the container.
        let inside = mount("cgroup2 none rw", "/docker/1", &two.path().join("a"));
        assert_eq!(of("0::/docker/1\n", &inside), Some(5000));
        assert_eq!(of("0::/docker/1/b\n", &inside), Some(5000));
        assert_eq!(of("0::/docker/2\n", &inside), Some(5000), "the path of another place");

        let none = "9223372036854771712\n";
        let one = folders("memory.limit_in_bytes", &[("", none), ("x", none), ("x/y", "7000\n")]);
        let both = format!(
            "{}\n{}",
            mount("cgroup2 none rw", "/", two.path()),
            mount("cgroup cgroup rw,memory", "/", one.path())
        );
        assert_eq!(of("4:memory:/x\n0::/\n", &both), None);
        assert_eq!(of("4:memory:/x/y\n3:cpu,cpuacct:/a\n0::/\n", &both), Some(7000));
        assert_eq!(of("4:cpu,memory:/x/y\n0::/a\n", &both), Some(5000), "the smaller one of both versions");
        assert_eq!(of("", ""), None);
        assert_eq!(of("rubbish\n0:\n", "rubbish - \n"), None);
        assert_eq!(unescaped("/a\\040b"), Path::new("/a b"));
    }

    #[test]
    fn caches_take_half_of_it_at_most() {
        assert_eq!(for_caches(448, None), 448);
        assert_eq!((for_caches(448, Some(1024)), for_caches(448, Some(512))), (448, 256));
    }
}
