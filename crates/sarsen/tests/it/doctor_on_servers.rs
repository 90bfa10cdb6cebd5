//! `sarsen doctor` and the start of a server on PostgreSQL and MariaDB: what `sarsen serve` would refuse, it refuses in the same words, within seconds,
//! and it changes nothing.

use crate::support::{Ended, Place, Running};
use server::testing::{OwnMariaDb, OwnServer, Rows, free_port};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// A check may take five seconds, and beside the database nothing takes long here.
const SOON: Duration = Duration::from_secs(20);

struct Asked {
    place: Place,
}

impl Asked {
    fn new() -> Asked {
        let place = Place::new();
        let listen = format!("127.0.0.1:{}", free_port());
        assert_eq!(place.run(&["init", "--yes", "--listen", &listen]).code, 0);
        Asked { place }
    }

    fn doctor(&self, url: &str) -> Ended {
        let began = Instant::now();
        let seen = self.place.run(&["doctor", "--connections-max", "10", "--database", url]);
        assert!(began.elapsed() < SOON, "{:?}: {}", began.elapsed(), seen.seen());
        seen
    }

    /// Both refuse the database with these words.
    fn both_refuse(&self, url: &str, words: &str) {
        let doctor = self.doctor(url);
        assert_eq!(doctor.code, 1, "{}", doctor.seen());
        assert!(line(&doctor, "fail  database").contains(words), "doctor: {}", doctor.seen());
        let serve = self.place.run(&["serve", "--database", url]);
        assert!(serve.code != 0 && serve.stderr.contains(words), "serve: {}", serve.seen());
    }

    /// Doctor finds nothing wrong, and says this of the database.
    fn is_good(&self, url: &str, words: &str) {
        let seen = self.doctor(url);
        assert!(seen.code == 0 && line(&seen, "ok    database").contains(words), "{}", seen.seen());
    }

    /// Serves once, which makes the schema.
    fn serve_once(&self, url: &str) {
        let mut server =
            Running::start(self.place.sarsen(&["serve", "--database", url]), self.place.path("log"));
        server.wait_for("listening");
        assert_eq!(server.stop(), 0);
    }
}

/// The line that begins so.
fn line<'a>(seen: &'a Ended, begin: &str) -> &'a str {
    seen.stdout.lines().find(|line| line.starts_with(begin)).unwrap_or_default()
}

fn with(url: &str, user: &str, password: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, place) = rest.split_once('@').expect("a user");
    format!("{scheme}://{user}:{password}@{place}")
}

#[test]
fn a_server_that_accepts_and_never_answers_is_a_failure_within_seconds() {
    let asked = Asked::new();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = silent.local_addr().expect("its address");
    for scheme in ["postgres", "mysql"] {
        let seen = asked.doctor(&format!("{scheme}://ada:hunter2@{place}/sarsen"));
        assert_eq!(seen.code, 1, "{}", seen.seen());
        let line = line(&seen, "fail  database");
        assert!(line.contains("within 3s") || line.contains("does not answer"), "{}", seen.seen());
        assert!(!seen.stdout.contains("hunter2"), "{}", seen.seen());
    }
}

#[test]
fn what_serve_refuses_of_postgresql_doctor_refuses_in_the_same_words() {
    let Some(server) = OwnServer::start() else { return };
    let asked = Asked::new();
    let url = server.url();
    let tables =
        || server.number("SELECT COUNT(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace");
    server.sql(
        "CREATE ROLE poor LOGIN PASSWORD 'poor'; CREATE ROLE reader LOGIN PASSWORD 'reader' SUPERUSER;
         ALTER ROLE reader SET default_transaction_read_only = on",
    );
    let standby = server.standby();
    let mut rows = Rows::new();
    for (name, url, words) in [
        ("a wrong password", with(&url, "sarsen", "wrong"), "password authentication failed"),
        ("no such database", url.replace("/postgres", "/nothing"), "does not exist"),
        (
            "no right to create",
            with(&url, "poor", "poor"),
            "lacks a right (permission denied for schema public)",
        ),
        ("read-only", with(&url, "reader", "reader"), "cannot be written"),
        ("a standby", standby.url(), "follows another one"),
    ] {
        rows.check(name, || asked.both_refuse(&url, words));
    }
    rows.check("an empty one", || asked.is_good(&url, "sarsen serve creates them"));
    rows.check("nothing was made", || assert_eq!(tables(), 0));

    asked.serve_once(&url);
    let made = tables();
    rows.check("its own", || asked.is_good(&url, "its schema is"));
    server.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO poor");
    rows.check("tables without the right to create", || {
        asked.both_refuse(&with(&url, "poor", "poor"), "lacks a right (permission denied for schema public)")
    });
    rows.check("a key of another server", || {
        let other = Asked::new();
        other.both_refuse(&url, "created with another key")
    });
    // A server that stops gives its leases back, so that there may be none. Half a day more than what is said.
    server.sql(
        "INSERT INTO leases (name, holder, ends_at)
         VALUES ('of another time', 'somebody', (extract(epoch FROM now()) + 34560000)::bigint * 1000)",
    );
    let late = asked.doctor(&url);
    rows.check("a clock that is behind", || {
        let said = line(&late, "fail  clock          the clock is at least 399 days behind");
        assert!(!said.is_empty() && late.code == 1, "{}", late.seen());
    });
    server.sql("INSERT INTO sarsen_migrations (number, name) VALUES (9999, 'of the future')");
    rows.check("a newer schema", || asked.both_refuse(&url, "9999"));
    rows.check("nothing more was made", || assert_eq!(tables(), made));
}

#[test]
fn what_serve_refuses_of_mariadb_doctor_refuses_in_the_same_words() {
    let Some(server) = OwnMariaDb::start() else { return };
    let asked = Asked::new();
    let url = server.url();
    server.sql(
        "CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'poor'; GRANT SELECT, INSERT, UPDATE, DELETE ON sarsen.* TO poor@'127.0.0.1'",
    );
    let mut rows = Rows::new();
    rows.check("a wrong password", || asked.both_refuse(&with(&url, "sarsen", "wrong"), "Access denied"));
    rows.check("no right to create", || {
        asked.both_refuse(&with(&url, "poor", "poor"), "lacks a right (CREATE command denied")
    });
    rows.check("an empty one", || asked.is_good(&url, "sarsen serve creates them"));
    server.sql("SET GLOBAL read_only = 1");
    rows.check("read-only", || asked.both_refuse(&url, "cannot be written"));
    server.sql("SET GLOBAL read_only = 0; SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    rows.check("commits that are not flushed", || asked.both_refuse(&url, "does not flush each commit"));
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    asked.serve_once(&url);
    rows.check("its own", || asked.is_good(&url, "its schema is"));
}

#[test]
fn a_mariadb_that_is_too_old_is_refused() {
    let old = |_: &std::path::Path| vec!["--version=10.5.9-MariaDB".to_owned()];
    let Some(server) = OwnMariaDb::start_with(old) else { return };
    Asked::new().both_refuse(&server.url(), "10.6.0 or newer is needed");
}

#[test]
fn a_start_goes_on_when_the_server_has_ended_its_connections() {
    let Some(server) = OwnServer::start() else { return };
    let asked = Asked::new();
    let kill =
        "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'sarsen'";
    // With the schema and without it.
    for log in ["first", "second"] {
        let command = asked.place.sarsen(&["serve", "--database", &server.url()]);
        let mut running = Running::start(command, asked.place.path(log));
        let mut killed = 0;
        while killed < 30 {
            killed += server.number(kill);
            assert!(!running.has_ended(), "{}", running.log());
        }
        running.wait_for("listening");
        assert_eq!(running.stop(), 0);
    }
}
