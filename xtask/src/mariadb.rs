//! A throw-away MariaDB server: made, started, and removed with all that is in it.
//!
//! It listens on a free loopback port and asks for a password that lives as long as it does. What is
//! committed is flushed to the disk, as on a server that keeps anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::needs::{self, MariaDbPrograms as Programs};
use crate::postgres::{User, as_user, free_port, make_folder, random_hex, system_user};
use crate::watchdog::Watchdog;
use crate::{places, process};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);

pub struct MariaDb {
    server: Child,
    folder: PathBuf,
    url: String,
    _watchdog: Watchdog,
}

impl MariaDb {
    pub fn start() -> Result<MariaDb, String> {
        let programs = needs::mariadb_programs().ok_or("no MariaDB server programs on this machine")?;
        let user = if needs::is_root() { Some(system_user("mysql")?) } else { None };
        let (folder, watchdog) = make_folder(&places::target(), "test-mariadb-", user)?;
        let made = initialise(&programs, &folder, user).and_then(|password| {
            let server = spawn(&programs, &folder, user)?;
            Ok((password, server))
        });
        let (password, (server, port)) = made.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let url = format!("mysql://sarsen:{password}@127.0.0.1:{port}/");
        // From here on, dropping it stops and removes it.
        let mut server = MariaDb { server, folder, url, _watchdog: watchdog };
        server.wait_until_ready()?;
        println!("MariaDB answers on 127.0.0.1:{port}");
        Ok(server)
    }

    /// The URL of a user who may do everything: tests make databases of their own. There is one already,
    /// `sarsen_test`, for those who have no other way to make one.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// It writes its pid file when it takes connections.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if self.folder.join("data/mariadb.pid").exists() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.server.try_wait() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("MariaDB ended at once ({status}):\n{log}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("MariaDB was not ready after {} s", START_LIMIT.as_secs()))
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        process::signal("TERM", &[self.server.id()]);
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline && matches!(self.server.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(50));
        }
        self.server.kill().ok();
        self.server.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Makes the system tables, and a first user.
fn initialise(programs: &Programs, folder: &Path, user: Option<User>) -> Result<String, String> {
    let password = random_hex()?;
    let mut install = as_user(&programs.install, user);
    install.arg("--no-defaults").arg(format!("--datadir={}", data(folder)));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
    let output =
        install.stdin(Stdio::null()).output().map_err(|error| format!("mariadb-install-db: {error}"))?;
    if !output.status.success() {
        return Err(format!("mariadb-install-db failed: {}", String::from_utf8_lossy(&output.stdout)));
    }
    // Read by the server at its start; the folder is nobody else's.
    let grants = format!(
        "CREATE DATABASE sarsen_test;\n\
         CREATE USER sarsen@'127.0.0.1' IDENTIFIED BY '{password}';\n\
         GRANT ALL ON *.* TO sarsen@'127.0.0.1' WITH GRANT OPTION;\n"
    );
    let file = folder.join("grants.sql");
    fs::write(&file, grants).map_err(|error| error.to_string())?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).map_err(|error| error.to_string())?;
    Ok(password)
}

fn spawn(programs: &Programs, folder: &Path, user: Option<User>) -> Result<(Child, u16), String> {
    let log = fs::File::create(folder.join("log")).map_err(|error| error.to_string())?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    let port = free_port()?;
    let inside = |name: &str| folder.join(name).display().to_string();
    let mut server = as_user(&programs.server, user);
    server.arg("--no-defaults").arg(format!("--datadir={}", data(folder))).args([
        format!("--port={port}"),
        format!("--socket={}", inside("socket")),
        format!("--pid-file={}", inside("data/mariadb.pid")),
        format!("--init-file={}", inside("grants.sql")),
    ]);
    server.args([
        "--bind-address=127.0.0.1",
        "--skip-networking=0",
        "--skip-name-resolve",
        "--max-connections=500",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=48M",
        "--innodb-flush-log-at-trx-commit=1",
        // As on many real servers: a column of ours that forgot to say "by bytes" shows up in the tests.
        "--character-set-server=utf8mb4",
        "--collation-server=utf8mb4_general_ci",
    ]);
    let child = server.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    Ok((child.map_err(|error| format!("mariadbd: {error}"))?, port))
}

fn data(folder: &Path) -> String {
    folder.join("data").display().to_string()
}
