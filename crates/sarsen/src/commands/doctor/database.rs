//! Checks the database without opening it, because opening migrates its schema: whether this program can serve it with the
//! key of the configuration.

use super::machine;
use crate::api_client;
use crate::commands::findings::{Finding, State, fail, ok, warn};
use crate::config::{Config, Database};
use crate::files::{self, Holder};
use crate::secret_key;
use crate::server_process;
use server::backups::{self, SchemaDifferences};
use server::look::{Looked, clock_behind, look};
use server::{SecretKey, StoreError, Time, rehearse_open};
use std::fs::File;
use std::io::Read as _;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;
use ureq::http::Uri;

pub(super) const CHECK: &str = "database";
const NO_TABLES: &str = "it has no tables yet";
/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const MIB: u64 = 1024 * 1024;
/// The server keeps the write-ahead log below this.
const LOG_MAX: u64 = 256 * MIB;
const CONNECT_MAX: Duration = Duration::from_secs(3);
const POSTGRES_PORT: u16 = 5432;
const MYSQL_PORT: u16 = 3306;
/// Settings of a URL that lead a connection elsewhere than to its host, or also elsewhere.
const ELSEWHERE: [&str; 3] = ["socket", "host", "hostaddr"];

/// That the key cannot be read is a finding of its own.
fn key(config: &Config) -> Option<SecretKey> {
    secret_key::read(config).ok()
}

/// The database in a file.
pub(super) fn file(config: &Config) -> Vec<Finding> {
    let database = &config.database.value;
    database.path().map(|path| file_at(path, database, key(config))).unwrap_or_default()
}

/// The database on a server.
pub(super) fn server(config: &Config) -> Vec<Finding> {
    server_at(CHECK, &config.database.value, key(config), true)
}

/// The server behind a pooler, which is not written to by this way.
pub(super) fn direct(config: &Config) -> Vec<Finding> {
    config.database_direct.value.iter().flat_map(|direct| server_at("direct", direct, None, false)).collect()
}

fn file_at(path: &Path, database: &Database, key: Option<SecretKey>) -> Vec<Finding> {
    if let Err(error) = server_process::check_folder(path) {
        return vec![fail(CHECK, error.to_string())];
    }
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
    if let Err(error) = rehearse_open(&server::store_options(database.url())) {
        return vec![fail(CHECK, error.to_string())];
    }
    if &head != MAGIC {
        return vec![fail(CHECK, format!("{shown} is not a SQLite database; restore a backup"))];
    }
    let holder = Holder::of(&files::with_suffix(path, "-lock"));
    let log = files::with_suffix(path, "-wal");
    let log_size = std::fs::metadata(&log).map_or(0, |log| log.len());
    let size = size.div_ceil(MIB);
    let shows_its_schema = holder.is_some() || log_size == 0;
    let mut findings = match holder {
        Some(holder) => vec![ok(CHECK, format!("{shown} is {size} MiB; {holder} uses it"))],
        // The start of the server moves the log into the file.
        None if log_size > 0 => vec![ok(CHECK, format!("{shown} is {size} MiB; its server was killed"))],
        None => looked(CHECK, &format!("{shown} is {size} MiB; no server uses it"), database, key),
    };
    if shows_its_schema {
        let found = findings.remove(0);
        findings.insert(0, schema(path, found));
    }
    let modes = machine::secret_file(CHECK, path);
    findings.extend(Some(modes).filter(|modes| modes.state != State::Ok));
    if let Some(size) = Some(log_size).filter(|size| *size > LOG_MAX) {
        let advice = "a long read of another program keeps it from shrinking; end that program";
        findings.push(warn(CHECK, format!("{} is {} MiB; {advice}", log.display(), size / MIB)));
    }
    findings
}

/// Compares the schema of a database that is all right so far, as `sarsen check` does with a backup of it.
fn schema(path: &Path, found: Finding) -> Finding {
    // The server creates what is missing.
    if found.state != State::Ok || found.message.contains(NO_TABLES) {
        return found;
    }
    match backups::compare_schema(path) {
        Err(error) => fail(CHECK, error.to_string()),
        Ok(SchemaDifferences { problems, .. }) if !problems.is_empty() => fail(
            CHECK,
            format!("{}; sarsen restore refuses backups of it: {}", found.message, problems.join("; ")),
        ),
        Ok(SchemaDifferences { warnings, .. }) if !warnings.is_empty() => {
            warn(CHECK, format!("{}; {}", found.message, warnings.join("; ")))
        }
        Ok(_) => found,
    }
}

/// The primary serves lists while a replica cannot be reached, so that is a warning.
pub(super) fn replica(replica: &Database) -> Finding {
    match reached(replica) {
        Ok(message) => ok("replica", message),
        Err(message) => warn("replica", message),
    }
}

/// The host and port of a server, if its URL names one host and that is where a connection goes. Of several hosts one that
/// can be reached is enough, which only a real connection finds out.
fn host_and_port(database: &Database) -> Option<(String, u16)> {
    let url: Uri = database.url().parse().ok()?;
    let usual = if database.is_postgres() { POSTGRES_PORT } else { MYSQL_PORT };
    let mut names =
        url.query().unwrap_or_default().split('&').filter_map(|setting| setting.split('=').next());
    if names.any(|name| ELSEWHERE.contains(&name)) {
        return None;
    }
    let host = url.host().filter(|host| !host.is_empty() && !host.contains(','))?;
    Some((host.to_owned(), url.port_u16().unwrap_or(usual)))
}

/// Whether a server listens there, and this program can use its database: also whether a start could do its work there, if
/// it is written to.
fn server_at(
    check: &'static str,
    database: &Database,
    key: Option<SecretKey>,
    is_written: bool,
) -> Vec<Finding> {
    let message = match reached(database) {
        Ok(message) => message,
        Err(message) => return vec![fail(check, message)],
    };
    let mut findings = looked(check, &message, database, key);
    // A clock that may be behind changes nothing about what a start can do.
    let is_good = findings.iter().all(|finding| finding.state != State::Fail);
    if is_good && is_written {
        match rehearse_open(&server::store_options(database.url())) {
            Err(error) => findings[0] = fail(check, format!("{database}: {error}")),
            Ok(Some(not_asked)) => findings[0].message.push_str(&format!("; {not_asked}")),
            Ok(None) => {}
        }
    }
    findings
}

/// A finding that begins with `found` if this program can serve the database, and one about the clock if that is wrong.
fn looked(check: &'static str, found: &str, database: &Database, key: Option<SecretKey>) -> Vec<Finding> {
    let Looked { schema, problem, latest } = match look(&server::store_options(database.url()), key) {
        Err(StoreError::Open(problem)) => return vec![fail(check, format!("{database}: {problem}"))],
        Err(error) => return vec![fail(check, format!("{database}: {error}"))],
        Ok(None) => {
            return vec![ok(check, format!("{found}; {NO_TABLES}, and sarsen serve creates them"))];
        }
        Ok(Some(found)) => found,
    };
    let usable = match problem {
        None => ok(check, format!("{found}; its schema is {schema}")),
        Some(problem) => fail(check, format!("{database}: {problem}")),
    };
    let now = Time::from_millis(api_client::now().saturating_mul(1000));
    let clock = clock_behind(&latest, now).map(|behind| match behind.is_certain {
        true => fail("clock", behind.text),
        false => warn("clock", behind.text),
    });
    [usable].into_iter().chain(clock).collect()
}

/// Whether a server listens there, without a look at its database. Where the URL does not name one host, only opening the
/// database can tell.
fn reached(database: &Database) -> Result<String, String> {
    let Some((host, port)) = host_and_port(database) else { return Ok(format!("{database} is used")) };
    let addresses = (host.trim_matches(['[', ']']), port).to_socket_addrs();
    let reached =
        addresses.map(|mut all| all.any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok()));
    match reached {
        Ok(true) => Ok(format!("{database} can be reached")),
        Ok(false) => {
            Err(format!("no server listens at {host}:{port} ({database}); start it, or correct the URL"))
        }
        Err(error) => Err(format!("cannot resolve {host} ({database}): {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_database_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sarsen.db");
        let database = Database::parse(&format!("sqlite:{}", path.display())).expect("a database");
        let state = |path: &Path| file_at(path, &database, None)[0].state;
        assert!(state(&path) == State::Warn, "not there yet");
        std::fs::write(&path, "some text, longer than the header").expect("written");
        assert!(state(&path) == State::Fail);
        std::fs::write(&path, MAGIC).expect("written");
        assert!(state(&path) == State::Fail, "nothing behind the first bytes");
    }

    #[test]
    fn a_server_that_does_not_listen_is_named_without_its_password() {
        let closed =
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
        let database = Database::parse(&format!("postgres://ada:hunter2@{closed}/x")).expect("a database");
        let server = server_at(CHECK, &database, None, true).remove(0);
        for (finding, expected) in [(server, State::Fail), (replica(&database), State::Warn)] {
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
            ("mysql://user@db/x?socket=%2Frun%2Fmysqld%2Fmysqld.sock", None),
            ("postgres://user@one,two/x", None),
            ("postgres://user@one:5001,two:5002/x", None),
            ("postgres://user@db/x?connect_timeout=3&hostaddr=10.0.0.5", None),
            ("postgres://user@db/x?application_name=host", Some(("db", 5432))),
        ] {
            let found = host_and_port(&Database::parse(url).expect("a database"));
            assert_eq!(found, expected.map(|(host, port)| (host.to_owned(), port)), "{url}");
        }
    }
}
