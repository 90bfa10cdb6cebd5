//! What can be seen of a database without opening it: to open it is to bring its schema up to date, and
//! that is not a doctor's to do.

use super::{Finding, State, fail, ok, warn};
use crate::config::{Config, Database};
use crate::files::{self, Holder};
use std::fs::File;
use std::io::Read as _;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;
use ureq::http::Uri;

const CHECK: &str = "database";
/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const MIB: u64 = 1024 * 1024;
/// The server keeps the log below this.
const LOG_MAX: u64 = 256 * MIB;
const CONNECT_MAX: Duration = Duration::from_secs(3);
const POSTGRES_PORT: u16 = 5432;
const MYSQL_PORT: u16 = 3306;

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let database = &config.database.value;
    let mut findings = match database.path() {
        Some(path) => file(path),
        None => vec![server(CHECK, database)],
    };
    findings.extend(config.database_direct.value.iter().map(|direct| server("direct", direct)));
    findings.extend(config.replicas.value.iter().map(replica));
    findings
}

fn file(path: &Path) -> Vec<Finding> {
    let shown = path.display();
    let mut head = [0; MAGIC.len()];
    let size = match File::open(path).and_then(|mut file| file.read_exact(&mut head).and(file.metadata())) {
        Ok(file) => file.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return vec![warn(CHECK, format!("there is no {shown} yet; sarsen serve makes it"))];
        }
        Err(error) => return vec![fail(CHECK, format!("{shown} cannot be read: {error}"))],
    };
    if &head != MAGIC {
        return vec![fail(CHECK, format!("{shown} is not an SQLite database; bring back a backup"))];
    }
    let holder = Holder::of(&files::with_suffix(path, "-lock"));
    let used =
        holder.map_or_else(|| "no server runs on it".to_owned(), |holder| format!("{holder} runs on it"));
    let mut findings = vec![ok(CHECK, format!("{shown} has {} MiB; {used}", size.div_ceil(MIB)))];
    let log = files::with_suffix(path, "-wal");
    if let Some(size) = std::fs::metadata(&log).ok().map(|log| log.len()).filter(|size| *size > LOG_MAX) {
        let advice = "a program that reads the file for long keeps it from shrinking; end that program";
        findings.push(warn(CHECK, format!("{} has {} MiB; {advice}", log.display(), size / MIB)));
    }
    findings
}

/// Lists come from the primary while a replica is away.
fn replica(replica: &Database) -> Finding {
    let finding = server("replica", replica);
    match finding.state {
        State::Fail => warn(finding.check, finding.message),
        _ => finding,
    }
}

/// Where a server listens, if its address names a host.
fn place(database: &Database) -> Option<(String, u16)> {
    let url: Uri = database.url().parse().ok()?;
    let usual = if database.is_postgres() { POSTGRES_PORT } else { MYSQL_PORT };
    let host = url.host().filter(|host| !host.is_empty())?;
    Some((host.to_owned(), url.port_u16().unwrap_or(usual)))
}

/// Whether somebody listens there; who may come in is seen at the start.
fn server(check: &'static str, database: &Database) -> Finding {
    let Some((host, port)) = place(database) else {
        return ok(check, format!("{database}; it is asked when the server starts"));
    };
    let addresses = (host.trim_matches(['[', ']']), port).to_socket_addrs();
    let reached =
        addresses.map(|mut all| all.any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok()));
    match reached {
        Ok(true) => ok(check, format!("{database} can be reached")),
        Ok(false) => fail(check, format!("nobody listens at {host}:{port} ({database})")),
        Err(error) => fail(check, format!("{host} is not found ({database}): {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_database_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sarsen.db");
        let state = |path: &Path| file(path)[0].state;
        assert!(state(&path) == State::Warn, "not there yet");
        std::fs::write(&path, "a letter to my aunt, long enough").expect("written");
        assert!(state(&path) == State::Fail);
        std::fs::write(&path, MAGIC).expect("written");
        assert!(state(&path) == State::Ok);
    }

    #[test]
    fn a_server_that_is_not_there_is_told_without_its_password() {
        let nobody =
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
        let database = Database::parse(&format!("postgres://ada:hunter2@{nobody}/x")).expect("a database");
        for (finding, expected) in
            [(server(CHECK, &database), State::Fail), (replica(&database), State::Warn)]
        {
            assert!(finding.state == expected && !finding.message.contains("hunter2"), "{}", finding.message);
        }
    }

    #[test]
    fn a_server_is_looked_for_where_its_kind_listens() {
        for (url, expected) in [
            ("postgres://user@db/x", Some(("db", 5432))),
            ("postgresql://user@db/x", Some(("db", 5432))),
            ("mysql://user@db/x", Some(("db", 3306))),
            ("mariadb://user:pass@db/x", Some(("db", 3306))),
            ("mysql://user@db:3307/x", Some(("db", 3307))),
            ("postgres://user@[::1]/x", Some(("[::1]", 5432))),
            ("postgres:///x?host=/run/postgresql", None),
        ] {
            let found = place(&Database::parse(url).expect("a database"));
            assert_eq!(found, expected.map(|(host, port)| (host.to_owned(), port)), "{url}");
        }
    }
}
