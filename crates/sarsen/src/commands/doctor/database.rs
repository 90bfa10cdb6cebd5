//! Checks the database without opening it, because opening migrates its schema.

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
/// The server keeps the write-ahead log below this.
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
            return vec![warn(CHECK, format!("there is no {shown} yet; sarsen serve creates it"))];
        }
        Err(error) => {
            return vec![fail(
                CHECK,
                format!("{shown} cannot be read ({error}); run the command as its owner, or as root"),
            )];
        }
    };
    if &head != MAGIC {
        return vec![fail(CHECK, format!("{shown} is not a SQLite database; restore a backup"))];
    }
    let holder = Holder::of(&files::with_suffix(path, "-lock"));
    let used = holder.map_or_else(|| "no server uses it".to_owned(), |holder| format!("{holder} uses it"));
    let mut findings = vec![ok(CHECK, format!("{shown} is {} MiB; {used}", size.div_ceil(MIB)))];
    let log = files::with_suffix(path, "-wal");
    if let Some(size) = std::fs::metadata(&log).ok().map(|log| log.len()).filter(|size| *size > LOG_MAX) {
        let advice = "a long read of another program keeps it from shrinking; end that program";
        findings.push(warn(CHECK, format!("{} is {} MiB; {advice}", log.display(), size / MIB)));
    }
    findings
}

/// The primary serves lists while a replica cannot be reached, so that is a warning.
fn replica(replica: &Database) -> Finding {
    let finding = server("replica", replica);
    match finding.state {
        State::Fail => warn(finding.check, finding.message),
        _ => finding,
    }
}

/// The host and port of a server, if its URL names a host.
fn host_and_port(database: &Database) -> Option<(String, u16)> {
    let url: Uri = database.url().parse().ok()?;
    let usual = if database.is_postgres() { POSTGRES_PORT } else { MYSQL_PORT };
    let host = url.host().filter(|host| !host.is_empty())?;
    Some((host.to_owned(), url.port_u16().unwrap_or(usual)))
}

/// Whether a server listens there. The start of sarsen checks the credentials.
fn server(check: &'static str, database: &Database) -> Finding {
    let Some((host, port)) = host_and_port(database) else {
        return ok(check, format!("{database}; the start of the server checks it"));
    };
    let addresses = (host.trim_matches(['[', ']']), port).to_socket_addrs();
    let reached =
        addresses.map(|mut all| all.any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok()));
    match reached {
        Ok(true) => ok(check, format!("{database} can be reached")),
        Ok(false) => fail(
            check,
            format!("no server listens at {host}:{port} ({database}); start it, or correct the URL"),
        ),
        Err(error) => fail(check, format!("cannot resolve {host} ({database}): {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_database_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sarsen.db");
        let state = |path: &Path| file(path)[0].state;
        assert!(state(&path) == State::Warn, "not there yet");
        std::fs::write(&path, "some text, longer than the header").expect("written");
        assert!(state(&path) == State::Fail);
        std::fs::write(&path, MAGIC).expect("written");
        assert!(state(&path) == State::Ok);
    }

    #[test]
    fn a_server_that_does_not_listen_is_named_without_its_password() {
        let closed =
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
        let database = Database::parse(&format!("postgres://ada:hunter2@{closed}/x")).expect("a database");
        for (finding, expected) in
            [(server(CHECK, &database), State::Fail), (replica(&database), State::Warn)]
        {
            assert!(finding.state == expected && !finding.message.contains("hunter2"), "{}", finding.message);
        }
    }

    #[test]
    fn the_default_port_is_that_of_the_kind_of_server() {
        for (url, expected) in [
            ("postgres://user@db/x", Some(("db", 5432))),
            ("postgresql://user@db/x", Some(("db", 5432))),
            ("mysql://user@db/x", Some(("db", 3306))),
            ("mariadb://user:pass@db/x", Some(("db", 3306))),
            ("mysql://user@db:3307/x", Some(("db", 3307))),
            ("postgres://user@[::1]/x", Some(("[::1]", 5432))),
            ("postgres:///x?host=/run/postgresql", None),
        ] {
            let found = host_and_port(&Database::parse(url).expect("a database"));
            assert_eq!(found, expected.map(|(host, port)| (host.to_owned(), port)), "{url}");
        }
    }
}
