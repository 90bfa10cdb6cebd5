//! A throw-away PostgreSQL primary, and a standby that follows it. Commits are durable: `fsync` and `synchronous_commit`
//! have their defaults.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::report::progress;

const START_TIME_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// For several instances with their pools, and for the pool of a baseline.
const SETTINGS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=400",
    "shared_buffers=512MB",
    "max_wal_size=4GB",
];
/// Where Debian puts the programs.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A primary, with a standby if there is one. Dropping it stops both and removes their files.
pub struct Cluster {
    primary: Server,
    standby: Option<Server>,
    programs: PathBuf,
    password: String,
    /// As in `PostgreSQL 15.18`.
    version: String,
}

struct Server {
    process: Child,
    port: u16,
    folder: TempDir,
}

/// PostgreSQL refuses to run as root, so root runs it as another user.
#[derive(Clone, Copy)]
struct SystemUser {
    uid: u32,
    gid: u32,
}

impl Cluster {
    /// Makes and starts the servers below `parent`, with the programs of a folder or with the newest ones that are installed.
    pub async fn start(
        parent: Option<&Path>,
        programs_in: Option<&Path>,
        with_standby: bool,
    ) -> Result<Cluster, Error> {
        let programs = programs(programs_in)?;
        let version = version(&programs)?;
        let user = if rustix::process::getuid().is_root() { Some(system_user("postgres")?) } else { None };
        progress("set-up: starting PostgreSQL");
        let folder = make_folder(parent, user)?;
        let password = initialise(&programs, folder.path(), user)?;
        let primary = Server::start(&programs, folder, user).await?;
        let mut cluster = Cluster { primary, standby: None, programs, password, version };
        if with_standby {
            progress("set-up: starting its standby");
            let folder = make_folder(parent, user)?;
            copy(&cluster.programs, folder.path(), user, &cluster.url("postgres"))?;
            cluster.standby = Some(Server::start(&cluster.programs, folder, user).await?);
        }
        Ok(cluster)
    }

    /// As in `PostgreSQL 15.18`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Creates an empty database and returns its URL.
    pub fn create(&self, name: &str) -> Result<String, Error> {
        let mut createdb = Command::new(self.programs.join("createdb"));
        createdb.args(["--host=127.0.0.1", "--username=sarsen", "--port"]).arg(self.primary.port.to_string());
        createdb.arg(name).env("PGPASSWORD", &self.password);
        complete("createdb", &mut createdb)?;
        Ok(self.url(name))
    }

    /// The URL of the same database on the standby.
    pub fn standby_url(&self, name: &str) -> Option<String> {
        self.standby.as_ref().map(|standby| self.url_at(standby.port, name))
    }

    fn url(&self, name: &str) -> String {
        self.url_at(self.primary.port, name)
    }

    fn url_at(&self, port: u16, name: &str) -> String {
        format!("postgres://sarsen:{}@127.0.0.1:{port}/{name}", self.password)
    }
}

impl Server {
    async fn start(programs: &Path, folder: TempDir, user: Option<SystemUser>) -> Result<Server, Error> {
        let log_path = folder.path().join("log");
        let log = fs::File::create(&log_path).map_err(Error::io("cannot write the log of PostgreSQL"))?;
        let errors = log.try_clone().map_err(Error::io("cannot write the log of PostgreSQL"))?;
        let port = free_port()?;
        let mut command = as_user(&programs.join("postgres"), user);
        command.arg("-D").arg(folder.path().join("data")).arg("-p").arg(port.to_string());
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let process = command.spawn().map_err(Error::io("cannot start postgres"))?;
        let mut server = Server { process, port, folder };
        server.wait_until_ready(&log_path).await?;
        Ok(server)
    }

    /// The last line of the pid file is `ready` as soon as the server accepts connections.
    async fn wait_until_ready(&mut self, log: &Path) -> Result<(), Error> {
        let failed = |detail: String| Error::Start { server: "PostgreSQL".to_owned(), detail };
        let pid_file = self.folder.path().join("data/postmaster.pid");
        let begun = Instant::now();
        while begun.elapsed() < START_TIME_MAX {
            if fs::read_to_string(&pid_file).is_ok_and(|text| text.contains("ready")) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                let log = fs::read_to_string(log).unwrap_or_default();
                return Err(failed(format!("it ended at once ({status}):\n{log}")));
            }
            sleep(LOOK_EVERY).await;
        }
        Err(failed(format!("not ready within {START_TIME_MAX:?}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An immediate shutdown: nothing of the data is needed. The server ends its processes within 5 s.
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        let _ = self.process.wait();
    }
}

/// As in `PostgreSQL 15.18`: the version that a [`Cluster`] would have.
pub(crate) fn postgres_version(programs_in: Option<&Path>) -> Result<String, Error> {
    version(&programs(programs_in)?)
}

/// The programs of this folder, or of the newest version that is installed.
fn programs(programs_in: Option<&Path>) -> Result<PathBuf, Error> {
    match programs_in {
        Some(folder) if folder.join("initdb").is_file() => {
            std::path::absolute(folder).map_err(Error::io(format!("cannot find {}", folder.display())))
        }
        Some(folder) => {
            let what = "has no initdb; name the folder `bin` of a PostgreSQL server";
            Err(Error::Usage(format!("--postgres-programs: {} {what}", folder.display())))
        }
        None => installed(),
    }
}

fn installed() -> Result<PathBuf, Error> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let newest_first = versions.into_iter().rev().map(|(_, folder)| folder);
    let others =
        ["/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"].map(PathBuf::from);
    newest_first.chain(others).find(|folder| folder.join("initdb").is_file()).ok_or_else(|| {
        Error::Usage(format!(
            "--postgres needs the programs of a PostgreSQL server, and there are none in {DEBIAN} or /usr/bin; install \
             the package postgresql, or use --database with the URL of a running server"
        ))
    })
}

/// From a line such as `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version(programs: &Path) -> Result<String, Error> {
    let output = Command::new(programs.join("postgres")).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(Error::io("cannot run postgres --version"))?;
    let line = String::from_utf8_lossy(&output.stdout);
    let number = line.split_whitespace().nth(2);
    Ok(number.map_or_else(|| "PostgreSQL".to_owned(), |number| format!("PostgreSQL {number}")))
}

fn make_folder(parent: Option<&Path>, user: Option<SystemUser>) -> Result<TempDir, Error> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("sarsen-bench-postgres-");
    let folder = parent.map_or_else(|| builder.tempdir(), |parent| builder.tempdir_in(parent));
    let folder = folder.map_err(Error::io("cannot make a folder for PostgreSQL"))?;
    let what = || Error::io(format!("cannot prepare {}", folder.path().display()));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).map_err(what())?;
    give(folder.path(), user)?;
    Ok(folder)
}

fn initialise(programs: &Path, folder: &Path, user: Option<SystemUser>) -> Result<String, Error> {
    let password = random_hex()?;
    let file = folder.join("password");
    fs::write(&file, &password).map_err(Error::io("cannot write the password of PostgreSQL"))?;
    give(&file, user)?;
    let mut initdb = as_user(&programs.join("initdb"), user);
    initdb.arg("--pgdata").arg(folder.join("data")).arg("--pwfile").arg(&file);
    initdb.args(["--username=sarsen", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]);
    complete("initdb", &mut initdb)?;
    Ok(password)
}

fn copy(programs: &Path, folder: &Path, user: Option<SystemUser>, url: &str) -> Result<(), Error> {
    let mut copy = as_user(&programs.join("pg_basebackup"), user);
    copy.arg("--dbname").arg(url).arg("--pgdata").arg(folder.join("data"));
    copy.args(["--write-recovery-conf", "--checkpoint=fast"]);
    complete("pg_basebackup", &mut copy)
}

fn complete(name: &str, command: &mut Command) -> Result<(), Error> {
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format!("cannot run {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let detail = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Ended { server: name.to_owned(), detail })
}

fn as_user(program: &Path, user: Option<SystemUser>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env("LC_ALL", "C");
    if let Some(SystemUser { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
    command
}

fn give(path: &Path, user: Option<SystemUser>) -> Result<(), Error> {
    let Some(SystemUser { uid, gid }) = user else { return Ok(()) };
    chown(path, Some(uid), Some(gid))
        .map_err(Error::io(format!("cannot change the owner of {}", path.display())))
}

fn system_user(name: &str) -> Result<SystemUser, Error> {
    let users = fs::read_to_string("/etc/passwd").map_err(Error::io("cannot read /etc/passwd"))?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let is_this = fields.next() == Some(name);
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        is_this.then_some(SystemUser { uid, gid })
    };
    users.lines().find_map(of_line).ok_or_else(|| {
        Error::Usage(format!("PostgreSQL does not run as root, and there is no system user `{name}`"))
    })
}

fn free_port() -> Result<u16, Error> {
    let listener =
        std::net::TcpListener::bind("127.0.0.1:0").map_err(Error::io("cannot find a free port"))?;
    Ok(listener.local_addr().map_err(Error::io("cannot find a free port"))?.port())
}

fn random_hex() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    let mut source = fs::File::open("/dev/urandom").map_err(Error::io("cannot open /dev/urandom"))?;
    source.read_exact(&mut bytes).map_err(Error::io("cannot read /dev/urandom"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
