//! A backup of the database under test, and its restore: a copy of a SQLite file, or a dump by the server's own programs.
//! No server of the run has the database open meanwhile.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A copy of the database as it was once.
pub struct Backup {
    database: Database,
    copy: PathBuf,
}

enum Database {
    Sqlite(PathBuf),
    Postgres(Server),
    Mysql(Server),
}

/// The parts of a URL.
struct Server {
    user: String,
    password: String,
    host: String,
    port: String,
    name: String,
}

impl Backup {
    /// Takes it, next to the file of a SQLite database or into `folder`.
    pub fn take(url: &str, folder: &Path) -> Result<Backup, String> {
        let database = Database::parse(url)?;
        let copy = match &database {
            Database::Sqlite(file) => with_ending(file, ".backup"),
            _ => folder.join(format!("history-{}.sql", std::process::id())),
        };
        let backup = Backup { database, copy };
        match &backup.database {
            Database::Sqlite(file) => copy_file(file, &backup.copy)?,
            Database::Postgres(server) => {
                let dump = server.postgres("pg_dump", &server.name).arg("--file").arg(&backup.copy).status();
                succeeded("pg_dump", dump)?;
            }
            Database::Mysql(server) => {
                let mut dump = server.mysql("mariadb-dump");
                dump.args(["--single-transaction", &server.name, "--result-file"]).arg(&backup.copy);
                succeeded("mariadb-dump", dump.status())?;
            }
        }
        Ok(backup)
    }

    /// Puts it in the database's place.
    pub fn restore(&self) -> Result<(), String> {
        match &self.database {
            Database::Sqlite(file) => {
                for ending in ["-wal", "-shm"] {
                    // There is none after a clean stop.
                    let _ = std::fs::remove_file(with_ending(file, ending));
                }
                copy_file(&self.copy, file)
            }
            Database::Postgres(server) => {
                let mut anew = server.postgres("psql", "template1");
                anew.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]);
                anew.arg(format!("--command=DROP DATABASE \"{}\" WITH (FORCE)", server.name));
                anew.arg(format!("--command=CREATE DATABASE \"{}\" TEMPLATE template0", server.name));
                succeeded("psql", anew.status())?;
                let mut load = server.postgres("psql", &server.name);
                load.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"]).arg(&self.copy);
                succeeded("psql", load.status())
            }
            Database::Mysql(server) => {
                let name = &server.name;
                let anew = format!("DROP DATABASE `{name}`; CREATE DATABASE `{name}`");
                succeeded("mariadb", server.mysql("mariadb").args(["--execute", &anew]).status())?;
                let dump = std::fs::File::open(&self.copy).map_err(|error| error.to_string())?;
                succeeded("mariadb", server.mysql("mariadb").arg(name).stdin(dump).status())
            }
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        // A file that is left behind does no harm.
        let _ = std::fs::remove_file(&self.copy);
    }
}

impl Database {
    fn parse(url: &str) -> Result<Database, String> {
        match url.split_once(':') {
            Some(("sqlite", file)) => Some(Database::Sqlite(PathBuf::from(file))),
            Some(("mysql" | "mariadb", rest)) => Server::parse(rest).map(Database::Mysql),
            Some((_, rest)) => Server::parse(rest).map(Database::Postgres),
            None => None,
        }
        .ok_or_else(|| "a restore needs a database URL with a user, a password, a host and a port".to_owned())
    }
}

impl Server {
    /// Reads `//user:password@host:port/name`.
    fn parse(rest: &str) -> Option<Server> {
        let (who, place) = rest.strip_prefix("//")?.split_once('@')?;
        let (user, password) = who.split_once(':')?;
        let (address, name) = place.split('?').next()?.split_once('/')?;
        let (host, port) = address.split_once(':')?;
        let [user, password, host, port, name] = [user, password, host, port, name].map(str::to_owned);
        Some(Server { user, password, host, port, name })
    }

    fn postgres(&self, program: &str, database: &str) -> Command {
        let mut command = quiet(program);
        command.env("PGPASSWORD", &self.password).args(["--host", &self.host, "--port", &self.port]);
        command.args(["--username", &self.user, "--dbname", database]);
        command
    }

    fn mysql(&self, program: &str) -> Command {
        let mut command = quiet(program);
        command.env("MYSQL_PWD", &self.password).args(["--no-defaults", "--host", &self.host]);
        command.args(["--port", &self.port, "--user", &self.user, "--protocol=tcp", "--skip-ssl"]);
        command
    }
}

fn quiet(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn succeeded(program: &str, status: std::io::Result<std::process::ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("{program} cannot be started: {error}; install the server's programs")),
    }
}

fn copy_file(from: &Path, to: &Path) -> Result<(), String> {
    let copied = std::fs::copy(from, to);
    copied.map(drop).map_err(|error| format!("the database cannot be copied: {error}"))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(ending);
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_url_are_read() {
        let url = "postgres://sarsen:pw@127.0.0.1:7432/postgres?pooler=transaction";
        let Ok(Database::Postgres(server)) = Database::parse(url) else { panic!("{url}") };
        let parts = [server.user, server.password, server.host, server.port, server.name];
        assert_eq!(parts, ["sarsen", "pw", "127.0.0.1", "7432", "postgres"]);
        assert!(Database::parse("mysql://127.0.0.1/sarsen").is_err());
        assert!(
            matches!(Database::parse("sqlite:a.db"), Ok(Database::Sqlite(file)) if file == Path::new("a.db"))
        );
    }
}
