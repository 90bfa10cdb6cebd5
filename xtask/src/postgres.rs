//! A throw-away PostgreSQL cluster, and a standby that follows it: made, started, and removed with all that is in
//! them.
//!
//! It listens on a free loopback port and asks for a password that lives as long as it does. Text is
//! ordered by a language's rules by default, as on many real servers: a column of ours that forgot to
//! say "by bytes" shows up in the tests and not at a customer's.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::watchdog::Watchdog;
use crate::{needs, places, process};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// What two clusters may need, in KiB: their logs of 256 MB each, and the databases of the tests that run at the time.
const CLUSTERS_KIB: u64 = 2 << 20;
/// The first version whose initdb takes an ICU language.
const ICU_VERSION_MIN: u32 = 15;

pub struct Postgres {
    server: Child,
    folder: PathBuf,
    url: String,
    _watchdog: Watchdog,
}

/// The server refuses to run as root; so root lends it another user's name.
#[derive(Clone, Copy)]
pub struct User {
    uid: u32,
    gid: u32,
}

impl Postgres {
    pub fn start() -> Result<Postgres, String> {
        let programs = needs::postgres_programs().ok_or("no PostgreSQL server programs on this machine")?;
        let user = if needs::is_root() { Some(system_user("postgres")?) } else { None };
        let (folder, watchdog) = make_folder(&quick_place(), "test-postgres-", user)?;
        let made = initialise(&programs, &folder, user).and_then(|password| {
            let server = spawn(&programs, &folder, user, &[])?;
            Ok((password, server))
        });
        let (password, (server, port)) = made.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let url = format!("postgres://sarsen:{password}@127.0.0.1:{port}/postgres");
        // From here on, dropping it stops and removes it.
        let mut cluster = Postgres { server, folder, url, _watchdog: watchdog };
        cluster.wait_until_ready()?;
        println!("PostgreSQL {} answers on 127.0.0.1:{port}", version(&programs).unwrap_or_default());
        Ok(cluster)
    }

    /// A cluster that has what this one has and follows it: what is read there is some moments old.
    pub fn start_standby(&self) -> Result<Postgres, String> {
        let programs = needs::postgres_programs().ok_or("no PostgreSQL server programs on this machine")?;
        let user = if needs::is_root() { Some(system_user("postgres")?) } else { None };
        let (folder, watchdog) = make_folder(&quick_place(), "test-standby-", user)?;
        let copied = copy(&programs, &folder, user, &self.url);
        // It has nothing that is not on the primary too.
        let started = copied.and_then(|()| spawn(&programs, &folder, user, &["fsync=off"]));
        let (server, port) = started.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let (login, _) = self.url.rsplit_once('@').ok_or("a URL without a login")?;
        let url = format!("{login}@127.0.0.1:{port}/postgres");
        let mut standby = Postgres { server, folder, url, _watchdog: watchdog };
        standby.wait_until_ready()?;
        println!("its standby answers on 127.0.0.1:{port}");
        Ok(standby)
    }

    /// A superuser's URL: tests make databases of their own.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The last line of its pid file says `ready` once connections are taken.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let pid_file = self.folder.join("data/postmaster.pid");
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if fs::read_to_string(&pid_file).is_ok_and(|text| text.contains("ready")) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.server.try_wait() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("PostgreSQL ended at once ({status}):\n{log}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("PostgreSQL was not ready after {} s", START_LIMIT.as_secs()))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // INT asks for a fast shutdown: connections are closed, nothing is waited for.
        process::signal("INT", &[self.server.id()]);
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline && matches!(self.server.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(50));
        }
        self.server.kill().ok();
        self.server.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

fn initialise(programs: &Path, folder: &Path, user: Option<User>) -> Result<String, String> {
    let password = random_hex()?;
    let password_file = folder.join("password");
    fs::write(&password_file, &password).map_err(|error| error.to_string())?;
    give(&password_file, user)?;
    let mut initdb = as_user(&programs.join("initdb"), user);
    initdb.arg("--pgdata").arg(folder.join("data")).arg("--pwfile").arg(&password_file);
    initdb.args(["--username=sarsen", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    if version(programs).is_some_and(|version| version >= ICU_VERSION_MIN) {
        initdb.args(["--locale-provider=icu", "--icu-locale=en-US"]);
    }
    let output = initdb.stdin(Stdio::null()).output().map_err(|error| format!("initdb: {error}"))?;
    fs::remove_file(&password_file).ok();
    match output.status.success() {
        true => Ok(password),
        false => Err(format!("initdb failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// A copy of the primary at `url`, made to follow it.
fn copy(programs: &Path, folder: &Path, user: Option<User>, url: &str) -> Result<(), String> {
    let mut copy = as_user(&programs.join("pg_basebackup"), user);
    copy.arg("--dbname").arg(url).arg("--pgdata").arg(folder.join("data"));
    copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
    let output = copy.stdin(Stdio::null()).output().map_err(|error| format!("pg_basebackup: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("pg_basebackup failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn spawn(programs: &Path, folder: &Path, user: Option<User>, more: &[&str]) -> Result<(Child, u16), String> {
    let log = fs::File::create(folder.join("log")).map_err(|error| error.to_string())?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    let port = free_port()?;
    let mut server = as_user(&programs.join("postgres"), user);
    server.arg("-D").arg(folder.join("data")).arg("-p").arg(port.to_string());
    let settings = [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=200",
        "max_wal_size=256MB",
    ];
    server.args(settings.iter().chain(more).flat_map(|setting| ["-c", setting]));
    let child = server.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    Ok((child.map_err(|error| format!("postgres: {error}"))?, port))
}

/// A folder in memory if the machine has room for the clusters, else the target folder. Each database of a test has
/// hundreds of files, and to make them on ext4 while others are removed is a third of what the clusters cost.
fn quick_place() -> PathBuf {
    let in_memory = PathBuf::from("/dev/shm");
    let room = process::output(Command::new("df").args(["--output=avail", "-k"]).arg(&in_memory));
    let room = room.and_then(|text| text.lines().nth(1)?.trim().parse().ok()).unwrap_or(0_u64);
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = free.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0_u64);
    match room.min(free / 2) >= CLUSTERS_KIB {
        true => in_memory,
        false => places::target(),
    }
}

/// An empty folder that the server's user can reach, in this one where that is possible. What works there ends with this
/// program.
pub fn make_folder(parent: &Path, prefix: &str, user: Option<User>) -> Result<(PathBuf, Watchdog), String> {
    let parent = match user {
        Some(user) if !reaches(parent, user) => std::env::temp_dir(),
        _ => parent.to_owned(),
    };
    remove_leftovers(&parent, prefix);
    let folder = parent.join(format!("{prefix}{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&parent).and_then(|()| fs::create_dir(&folder)).map_err(failed)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    give(&folder, user)?;
    let watchdog = Watchdog::of(&folder).map_err(failed)?;
    Ok((folder, watchdog))
}

/// Servers of earlier runs that were killed: the folder's name holds the pid of its maker.
fn remove_leftovers(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(prefix).and_then(|pid| pid.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            stop_server_of(&entry.path());
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// The first line of its pid file names the server, if that process still works in this folder.
fn stop_server_of(folder: &Path) {
    for (file, signal) in [("postmaster.pid", "INT"), ("mariadb.pid", "TERM")] {
        let text = fs::read_to_string(folder.join("data").join(file)).unwrap_or_default();
        let Some(pid) = text.lines().next().and_then(|line| line.parse::<u32>().ok()) else { continue };
        if fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place == folder.join("data")) {
            process::signal(signal, &[pid]);
        }
    }
}

/// Whether a user may enter every folder on the way.
fn reaches(folder: &Path, user: User) -> bool {
    process::quietly(as_user(Path::new("/bin/sh"), Some(user)).arg("-c").arg("cd \"$0\"").arg(folder))
}

pub fn as_user(program: &Path, user: Option<User>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env("LC_ALL", "C");
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// A system user that Debian's packages make.
pub fn system_user(name: &str) -> Result<User, String> {
    let users = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name));
    let missing = || format!("there is no system user `{name}`");
    let fields: Vec<&str> = line.ok_or_else(missing)?.split(':').collect();
    match fields.as_slice() {
        [_, _, uid, gid, ..] => Ok(User {
            uid: uid.parse().map_err(|_| "a uid that is no number")?,
            gid: gid.parse().map_err(|_| "a gid that is no number")?,
        }),
        _ => Err(format!("the entry of the user `{name}` cannot be read")),
    }
}

fn give(path: &Path, user: Option<User>) -> Result<(), String> {
    let Some(User { uid, gid }) = user else { return Ok(()) };
    chown(path, Some(uid), Some(gid)).map_err(|error| format!("{}: {error}", path.display()))
}

/// The major version is in Debian's path: `/usr/lib/postgresql/15/bin`.
fn version(programs: &Path) -> Option<u32> {
    programs.parent()?.file_name()?.to_str()?.parse().ok()
}

pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

pub fn random_hex() -> Result<String, String> {
    let mut bytes = [0_u8; 16];
    let mut source = fs::File::open("/dev/urandom").map_err(|error| error.to_string())?;
    source.read_exact(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_comes_from_the_path() {
        assert_eq!(version(Path::new("/usr/lib/postgresql/15/bin")), Some(15));
        assert_eq!(version(Path::new("/usr/local/bin")), None);
    }

    #[test]
    fn a_password_is_long_and_never_twice_the_same() {
        let (one, two) = (random_hex().expect("random"), random_hex().expect("random"));
        assert_eq!((one.len(), one == two), (32, false));
    }
}
