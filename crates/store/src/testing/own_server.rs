//! A PostgreSQL server of a test's own, for what would disturb the others: it is restarted, speaks TLS,
//! has a pooler before it. There is none where the server's programs are not installed.
#![expect(clippy::expect_used, reason = "a test whose server cannot be started has failed")]

use super::postgres::{Config, with_client};
use super::watchdog::Watchdog;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server that is stopped and removed with this value.
pub struct OwnServer {
    folder: tempfile::TempDir,
    programs: PathBuf,
    user: User,
    settings: String,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    /// That of its only user, `sarsen`.
    pub password: String,
    /// Last: it finds the folder removed, unless this process was killed.
    _watchdog: Watchdog,
}

impl OwnServer {
    /// None where PostgreSQL is not tested, or cannot be started here.
    pub fn start() -> Option<OwnServer> {
        OwnServer::start_with(|_| String::new())
    }

    /// `prepare` may put files into the server's folder, and gives further settings.
    pub fn start_with(prepare: impl FnOnce(&Path) -> String) -> Option<OwnServer> {
        super::postgres::url()?;
        let Some(programs) = programs() else {
            super::say_skipped("with a server of the test's own: its programs are not installed");
            return None;
        };
        let user = if is_root() { Some(system_user("postgres")?) } else { None };
        let (folder, watchdog) = watched_folder();
        let (password, port) = (new_password(), free_port());
        let settings = prepare(folder.path());
        let settings = format!("{} {settings}", place(port));
        let server = OwnServer { folder, programs, user, settings, port, password, _watchdog: watchdog };
        server.initialise();
        server.resume();
        Some(server)
    }

    /// Another server that has what this one has, and follows it. It can be read from.
    pub fn standby(&self) -> OwnServer {
        let ((folder, watchdog), port) = (watched_folder(), free_port());
        self.give(folder.path());
        let (programs, user, password) = (self.programs.clone(), self.user, self.password.clone());
        let standby =
            OwnServer { folder, programs, user, settings: place(port), port, password, _watchdog: watchdog };
        let mut copy = standby.command("pg_basebackup");
        copy.args(["--host=127.0.0.1", "--username=sarsen", "--write-recovery-conf", "--checkpoint=fast"]);
        copy.arg(format!("--port={}", self.port)).arg("--pgdata").arg(standby.data()).arg("--no-sync");
        assert!(copy.env("PGPASSWORD", &self.password).status().expect("runs").success(), "pg_basebackup");
        standby.resume();
        standby
    }

    /// Restores a dump of this server's database into the one of another server, which is empty.
    pub fn restore_into(&self, other: &OwnServer) {
        let dump = self.folder.path().join("dump.sql");
        let run = |server: &OwnServer, program: &str, options: &[&str]| {
            let mut command = server.command(program);
            command.args(["--host=127.0.0.1", "--username=sarsen", "--dbname=postgres"]).args(options);
            command.arg(format!("--port={}", server.port)).arg("--file").arg(&dump);
            assert!(
                command.env("PGPASSWORD", &server.password).status().expect("runs").success(),
                "{program}"
            );
        };
        run(self, "pg_dump", &[]);
        run(other, "psql", &["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]);
    }

    fn initialise(&self) {
        let password = self.folder.path().join("password");
        fs::write(&password, &self.password).expect("writes");
        for entry in fs::read_dir(self.folder.path()).expect("reads").flatten() {
            self.give(&entry.path());
        }
        self.give(self.folder.path());
        let mut initdb = self.command("initdb");
        initdb.arg("--pgdata").arg(self.data()).arg("--pwfile").arg(&password);
        initdb.args(["--username=sarsen", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]);
        assert!(initdb.arg("--no-sync").status().expect("runs").success(), "initdb");
    }

    /// Ends the server in the middle of what it does, and starts it again. `how`: `fast`, or `immediate` as in a crash.
    pub fn restart(&self, how: &str) {
        self.control(&["restart", "-m", how]);
    }

    /// Ends it; its data stay.
    pub fn stop(&self, how: &str) {
        self.control(&["stop", "-m", how]);
    }

    /// Starts it after [`OwnServer::stop`], where it was.
    pub fn resume(&self) {
        self.control(&["start"]);
    }

    /// A copy of its data: of a server that is stopped the files as they are, of one that runs a base backup.
    pub fn copy(&self, is_stopped: bool) -> DataCopy {
        let folder = new_folder();
        self.give(folder.path());
        let target = folder.path().join("data");
        let mut copy = self.command_of(Path::new("cp"));
        copy.arg("-a").arg(self.data()).arg(&target);
        if !is_stopped {
            copy = self.command("pg_basebackup");
            copy.args(["--host=127.0.0.1", "--username=sarsen", "--checkpoint=fast", "--no-sync"]);
            copy.arg(format!("--port={}", self.port)).arg("--pgdata").arg(&target);
        }
        assert!(copy.env("PGPASSWORD", &self.password).status().expect("runs").success(), "{copy:?}");
        DataCopy(folder)
    }

    /// Puts a copy in the place of the data, as when a disk is restored. The server is stopped.
    pub fn put_back(&self, copy: &DataCopy) {
        fs::remove_dir_all(self.data()).expect("removes");
        let mut back = self.command_of(Path::new("cp"));
        back.arg("-a").arg(copy.0.path().join("data")).arg(self.data());
        assert!(back.status().expect("runs").success(), "cp");
    }

    /// Ends one process of the server as the kernel does when memory is short: the server recovers and does not start anew.
    pub fn kill_session(&self) {
        let pid: i32 = with_client(self.config(), |client| {
            let other = "SELECT pid FROM pg_stat_activity WHERE application_name = 'sarsen' LIMIT 1";
            client.query_one(other, &[]).expect("a session of the store").get(0)
        });
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(killed.expect("runs").success(), "kill");
    }

    fn control(&self, what: &[&str]) {
        let mut control = self.command("pg_ctl");
        control.args(what).arg("-w").arg("-D").arg(self.data());
        control.arg("-l").arg(self.folder.path().join("log")).arg("-o").arg(&self.settings);
        let done = control.status().expect("runs").success();
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        assert!(done, "pg_ctl {what:?}: {log}");
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        self.url_at("127.0.0.1", self.port)
    }

    /// For a connection past the store.
    pub fn config(&self) -> Config {
        self.url().parse().expect("a URL")
    }

    /// Runs SQL past the store.
    pub fn sql(&self, text: &'static str) {
        with_client(self.config(), move |client| client.batch_execute(text).expect("runs"));
    }

    /// One number, past the store.
    pub fn number(&self, text: &'static str) -> i64 {
        with_client(self.config(), move |client| client.query_one(text, &[]).expect("a row").get(0))
    }

    /// The URL with another place in it: that of a proxy.
    pub fn url_at(&self, host: &str, port: u16) -> String {
        format!("postgres://sarsen:{}@{host}:{port}/postgres", self.password)
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        self.command_of(&self.programs.join(program))
    }

    /// A program that runs as the server's user.
    pub fn command_of(&self, program: &Path) -> Command {
        command_as(self.user, program)
    }

    /// Makes the server's user the owner.
    pub fn give(&self, path: &Path) {
        give(self.user, path);
    }
}

/// A copy of a server's data, which is removed with this value.
pub struct DataCopy(tempfile::TempDir);

impl Drop for OwnServer {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "-m", "immediate", "-w", "-D"]).arg(self.data());
        // It may be stopped already.
        let _ = stop.status();
    }
}

/// Who a server runs as, when the tests run as root.
pub(super) type User = Option<(u32, u32)>;

pub(super) fn new_folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("sarsen-test-").tempdir().expect("a folder")
}

/// For a server, which ends with this process.
pub(super) fn watched_folder() -> (tempfile::TempDir, Watchdog) {
    let folder = new_folder();
    let watchdog = Watchdog::of(folder.path()).expect("a watchdog");
    (folder, watchdog)
}

pub(super) fn new_password() -> String {
    let mut bytes = [0_u8; 16];
    let mut source = fs::File::open("/dev/urandom").expect("opens");
    std::io::Read::read_exact(&mut source, &mut bytes).expect("random");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A program that runs as `user`, and is not heard.
pub(super) fn command_as(user: User, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env("LC_ALL", "C").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// Makes `user` the owner, and the only one who may read it.
pub(super) fn give(user: User, path: &Path) {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changes its mode");
    if let Some((uid, gid)) = user {
        chown(path, Some(uid), Some(gid)).expect("changes its owner");
    }
}

fn place(port: u16) -> String {
    format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=")
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The newest of those that Debian's packages install.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.filter(|folder| folder.join("initdb").exists()).max()
}

pub(super) fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").expect("Linux")) == 0
}

/// A server refuses to run as root; its package has made a user for it.
pub(super) fn system_user(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = entries.find(|fields| fields.first() == Some(&name))?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}
