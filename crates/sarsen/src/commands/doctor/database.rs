//! What can be seen of a database without opening it: to open it is to bring its schema up to date, and
//! that is not a doctor's to do.

use super::{Finding, fail, ok, warn};
use crate::config::Database;
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
const PORT_DEFAULT: u16 = 5432;

pub(super) fn look(database: &Database) -> Vec<Finding> {
    match database.path() {
        Some(path) => file(path),
        None => vec![server(database)],
    }
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

/// Whether somebody listens there; who may come in is seen at the start.
fn server(database: &Database) -> Finding {
    let url: Option<Uri> = database.url().parse().ok();
    let place =
        url.as_ref().and_then(|url| Some((url.host()?.to_owned(), url.port_u16().unwrap_or(PORT_DEFAULT))));
    let Some((host, port)) = place.filter(|(host, _)| !host.is_empty()) else {
        return ok(CHECK, format!("{database}; it is asked when the server starts"));
    };
    let addresses = (host.trim_matches(['[', ']']), port).to_socket_addrs();
    let reached =
        addresses.map(|mut all| all.any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok()));
    match reached {
        Ok(true) => ok(CHECK, format!("{database} can be reached")),
        Ok(false) => fail(CHECK, format!("nobody listens at {host}:{port} ({database})")),
        Err(error) => fail(CHECK, format!("{host} is not found ({database}): {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
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
        let finding = server(&database);
        assert!(finding.state == State::Fail && !finding.says.contains("hunter2"), "{}", finding.says);
    }
}
