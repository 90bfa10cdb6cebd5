//! A MariaDB server of a test's own, as `own_server.rs` is one of PostgreSQL. There is none where the server's
//! programs are not installed.
#![expect(clippy::expect_used, reason = "a test whose server cannot be started has failed")]

use super::mysql::MysqlClient;
use super::own::End;
use super::own_server::{
    User, command_as, free_port, give, is_root, new_password, system_user, watched_folder,
};
use super::watchdog::Watchdog;
use crate::threads::pause;
use ::mysql_async::Opts;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);

/// A server that is stopped and removed with this value.
pub struct OwnMariaDb {
    /// None while it is stopped.
    server: Option<Child>,
    folder: tempfile::TempDir,
    program: PathBuf,
    user: User,
    settings: Vec<String>,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    /// That of its only user, `sarsen`.
    pub password: String,
    /// Last: it finds the folder removed, unless this process was killed.
    _watchdog: Watchdog,
}

impl OwnMariaDb {
    /// None where MySQL is not tested, or the server cannot be started here.
    pub fn start() -> Option<OwnMariaDb> {
        OwnMariaDb::start_with(|_| Vec::new())
    }

    /// `prepare` may put files into the server's folder, and gives further settings.
    pub fn start_with(prepare: impl FnOnce(&Path) -> Vec<String>) -> Option<OwnMariaDb> {
        let mut server = OwnMariaDb::new(new_password(), prepare)?;
        server.initialise()?;
        server.resume();
        Some(server)
    }

    /// A server that gets all its data from a cluster which it joins, also its user.
    pub(super) fn start_joining(password: &str, settings: Vec<String>) -> Option<OwnMariaDb> {
        let mut server = OwnMariaDb::new(password.to_owned(), |_| settings)?;
        let data = server.folder.path().join("data");
        fs::create_dir(&data).expect("makes a folder");
        give(server.user, &data);
        server.resume();
        Some(server)
    }

    /// One that has no data yet.
    fn new(password: String, prepare: impl FnOnce(&Path) -> Vec<String>) -> Option<OwnMariaDb> {
        super::mysql::url()?;
        let program = program("mariadbd")?;
        let user = if is_root() { Some(system_user("mysql")?) } else { None };
        let ((folder, watchdog), port) = (watched_folder(), free_port());
        let inside = |name: &str| folder.path().join(name).display().to_string();
        let mut settings = prepare(folder.path());
        settings.extend([
            format!("--port={port}"),
            format!("--datadir={}", inside("data")),
            format!("--socket={}", inside("socket")),
            format!("--pid-file={}", inside("pid")),
            format!("--init-file={}", inside("first.sql")),
            format!("--log-error={}", inside("log")),
        ]);
        // The server makes its user and the database when it starts, and finds them later.
        let first = format!(
            "CREATE DATABASE IF NOT EXISTS sarsen;\nCREATE USER IF NOT EXISTS sarsen@'127.0.0.1' IDENTIFIED BY '{password}';\n\
             GRANT ALL ON *.* TO sarsen@'127.0.0.1' WITH GRANT OPTION;\n"
        );
        fs::write(folder.path().join("first.sql"), first).expect("writes");
        for entry in fs::read_dir(folder.path()).expect("reads").flatten() {
            give(user, &entry.path());
        }
        give(user, folder.path());
        Some(OwnMariaDb {
            server: None,
            folder,
            program,
            user,
            settings,
            port,
            password,
            _watchdog: watchdog,
        })
    }

    /// Makes the system tables.
    fn initialise(&self) -> Option<()> {
        let install = program("mariadb-install-db")?;
        let data = self.folder.path().join("data");
        let mut command = command_as(self.user, &install);
        command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
        command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut done = command.output().expect("runs");
        // It has failed once, beside many others, for a reason that nobody saw. When it fails twice its words are shown.
        if !done.status.success() {
            // What it has begun, if it came that far.
            let _ = fs::remove_dir_all(&data);
            done = command.output().expect("runs");
        }
        let words = [&*done.stdout, &*done.stderr].map(String::from_utf8_lossy).concat();
        assert!(done.status.success(), "mariadb-install-db: {words}");
        Some(())
    }

    /// Ends it; its data stay. A crash is a SIGKILL.
    pub fn stop(&mut self, how: End) {
        let Some(mut server) = self.server.take() else { return };
        match how {
            End::Crash => server.kill().expect("is killed"),
            End::Orderly => self.sql("SHUTDOWN"),
        }
        let ended = server.wait().expect("ends");
        assert!(how == End::Crash || ended.success(), "{ended}: {}", log(&self.folder));
    }

    /// Starts it after [`OwnMariaDb::stop`], where it was.
    pub fn resume(&mut self) {
        let pid = self.folder.path().join("pid");
        if pid.exists() {
            // One that was killed has left it.
            fs::remove_file(&pid).expect("is removed");
        }
        let mut command = command_as(self.user, &self.program);
        command.arg("--no-defaults").args(&self.settings).args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=16M",
            "--innodb-flush-log-at-trx-commit=1",
        ]);
        let server = self.server.insert(command.spawn().expect("starts"));
        let until = Instant::now() + START_LIMIT;
        // It writes the file when it takes connections.
        while !pid.exists() {
            let ended = server.try_wait().expect("can be asked");
            assert!(
                ended.is_none() && Instant::now() < until,
                "MariaDB does not start: {}",
                log(&self.folder)
            );
            pause(Duration::from_millis(20));
        }
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        self.url_at("127.0.0.1")
    }

    /// For [`crate::Options`], under another name of this machine than the usual one.
    pub fn url_at(&self, host: &str) -> String {
        format!("mysql://sarsen:{}@{host}:{}/sarsen", self.password, self.port)
    }

    /// For [`crate::Options`], at another port: that of a proxy.
    pub fn url_at_port(&self, port: u16) -> String {
        format!("mysql://sarsen:{}@127.0.0.1:{port}/sarsen", self.password)
    }

    /// Runs SQL past the store.
    pub fn sql(&self, text: &str) {
        self.connect().run(text);
    }

    /// A connection past the store.
    pub fn connect(&self) -> MysqlClient {
        MysqlClient::connect(Opts::from_url(&self.url()).expect("a URL"))
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for OwnMariaDb {
    fn drop(&mut self) {
        // Its data go with it.
        self.stop(End::Crash);
    }
}

fn log(folder: &tempfile::TempDir) -> String {
    fs::read_to_string(folder.path().join("log")).unwrap_or_default()
}

/// None, and a line that says so, where it is not installed.
fn program(name: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        super::say_skipped("with a MariaDB server of the test's own: its programs are not installed");
    }
    found
}

/// On the search path, or where Debian puts what only administrators run.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
