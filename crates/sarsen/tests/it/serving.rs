//! `sarsen serve`: the first start, the set-up link, a clean shutdown.

use crate::backups::OF_0_1_0;
use crate::support::{Place, Running, mode, rest};
use server::testing::fixture::Fixture;
use server::{Store, StoreError};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

fn serve(place: &Place, name: &str) -> Running {
    let command = place.sarsen(&["serve", "--listen", "127.0.0.1:0"]);
    Running::start(command, place.path(name))
}

#[test]
fn a_server_without_key_and_database_points_to_init() {
    let place = Place::new();
    insta::assert_snapshot!(place.run(&["serve", "--listen", "127.0.0.1:0"]).seen(), @r"
    exit 2
    --- stdout
    --- stderr
    sarsen: there is no secret key (sarsen.key) and no database (sarsen.db); for a new server run `sarsen init` first, to restore a backup put its key there, and for a server elsewhere name its configuration with --config
    ");
    assert!(!place.path("sarsen.db").exists());
    std::fs::write(place.path("sarsen.db"), "").expect("written");
    assert!(place.run(&["serve"]).stderr.contains("the secret key sarsen.key is missing"));
}

#[test]
fn the_first_start_leaves_the_owner_s_link_in_a_private_file_and_ends_cleanly() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes", "--issuer", "http://localhost:7070"]).code, 0);
    let mut first = serve(&place, "first.log");
    let log = first.wait_for("listening");
    assert!(log.contains("setup-link.txt"), "{log}");
    let link = std::fs::read_to_string(place.path("setup-link.txt")).expect("a link");
    assert!(link.starts_with("http://localhost:7070/setup?token="), "{link}");
    assert_eq!(mode(&place.path("setup-link.txt")), 0o600);
    assert_eq!(mode(&place.path("sarsen.db")), 0o600);
    let token = link.trim().split('=').nth(1).expect("a token");

    let second = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains(&format!("in use by process {}", first.pid())), "{}", second.stderr);

    assert!(!first.log().contains(token), "no log has the link");
    assert_eq!(first.stop(), 0);
    assert!(!place.path("sarsen.db-wal").exists(), "the log is merged into the file");

    std::fs::hard_link(place.path("sarsen.db"), place.path("other.db")).expect("linked");
    let mut again = serve(&place, "again.log");
    again.wait_for("the database file has other names (hard links)");
    again.wait_for("listening");
    assert_eq!(again.stop(), 0);
}

#[test]
fn health_tells_why_a_server_is_not_ready() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    assert_eq!(place.run(&["init", "--yes", "--listen", &address]).code, 0);
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            request.extend(byte);
        }
        let body = "{\"detail\": \"The disk is full.\"}";
        let head =
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nconnection: close";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("answered");
        String::from_utf8(request).expect("text")
    });
    let ended = place.run(&["health"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("The disk is full."), "{}", ended.stderr);
    let request = answering.join().expect("it was asked");
    assert!(request.starts_with("GET /readyz "), "{request}");
}

/// A server, and a connection with a request whose body it waits for.
fn busy(place: &Place) -> (Running, TcpStream) {
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let mut server = serve(place, "log");
    let log = server.wait_for("listening");
    let address =
        log.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("an address");
    let mut slow = TcpStream::connect(address).expect("a connection");
    let head = "POST /auth/token HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 5\r\nexpect: 100-continue\r\n\r\n";
    slow.write_all(head.as_bytes()).expect("sent");
    // The server asks for the body, so it has begun the request.
    slow.read_exact(&mut [0; 25]).expect("an answer");
    (server, slow)
}

#[test]
fn signals_that_say_the_same_twice_stop_the_server_once() {
    for interrupts in [false, true] {
        let place = Place::new();
        let (mut server, mut slow) = busy(&place);
        // GNU timeout sends its signal to the program and to its group.
        if interrupts {
            server.interrupt();
            server.interrupt();
        } else {
            server.terminate();
        }
        server.wait_for("stopping");
        if !interrupts {
            server.terminate();
            server.terminate();
        }
        slow.write_all(b"\"abc\"").expect("the request is not finished");
        let mut answer = String::new();
        slow.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
        assert_eq!(server.finish().0, 0);
        assert!(!place.path("sarsen.db-wal").exists(), "the database was closed");
    }
}

#[test]
fn another_ctrl_c_stops_the_server_at_once() {
    let place = Place::new();
    let (mut server, _slow) = busy(&place);
    server.terminate();
    server.wait_for("stopping");
    // Pressed again and again; those of the first second are not counted.
    while !server.has_ended() {
        server.interrupt();
        rest();
    }
    assert_eq!(server.finish().0, 1);
    assert!(std::fs::read_to_string(place.path("log")).expect("a log").contains("stopped at once"));
}

#[test]
fn the_last_line_of_a_failed_start_is_json_where_the_log_is() {
    let place = Place::new();
    let last = |args: &[&str]| {
        let ended = place.run(args);
        let line = ended.stderr.lines().last().expect("a line").to_owned();
        let line: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", ended.stderr));
        assert_eq!(line["level"], "ERROR");
        (ended.code, line["message"].as_str().expect("a message").to_owned())
    };
    let (code, message) = last(&["serve", "--log-format", "json"]);
    assert!(code == 2 && message.starts_with("there is no secret key"), "{message}");
    std::fs::write(place.path("sarsen.toml"), "log_format = \"json\"\nlistn = 1\n").expect("written");
    let (code, message) = last(&["serve"]);
    assert!(code == 2 && message.starts_with("unknown setting listn"), "{message}");
    std::fs::remove_file(place.path("sarsen.toml")).expect("removed");
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, message) = last(&["serve", "--log-format", "json", "--listen", &address]);
    assert!(code == 1 && message.starts_with("cannot listen on"), "{message}");
}

#[test]
fn another_key_is_refused() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let mut server = serve(&place, "log");
    server.wait_for("listening");
    assert_eq!(server.stop(), 0);
    std::fs::remove_file(place.path("sarsen.key")).expect("removed");
    let other = place
        .sarsen(&["serve", "--listen", "127.0.0.1:0"])
        .env("SARSEN_SECRET_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        .output()
        .expect("it runs");
    // A supervisor does not start it again: it stays wrong.
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("secret_key"), "{other:?}");
}

/// Writes to the database of a place without the program.
async fn write(place: &Place, text: &'static str) {
    let url = format!("sqlite:{}", place.path("sarsen.db").display());
    let store = Store::open(server::store_options(url)).expect("opens");
    let statement = store::sql(text);
    let written = store.write("test.write", move |tx| tx.exec(&statement, store::args![]));
    written.await.map_err(|error: StoreError| error).expect("writes");
    store.close();
}

const MARKED: &str =
    "INSERT INTO leases (name, holder, ends_at) VALUES ('move', 'another', 9007199254740991)";

#[tokio::test]
async fn a_database_that_this_program_cannot_serve_stops_the_start_for_good() {
    for (text, expected) in [
        (
            "INSERT INTO sarsen_migrations (number, name) VALUES (99, 'of a newer program')",
            "the database has schema 99",
        ),
        (MARKED, "a move into this database is unfinished"),
    ] {
        let place = Place::new();
        assert_eq!(place.run(&["init", "--yes"]).code, 0);
        write(&place, text).await;
        for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["owner", "recover", "--email", "x@y.test"]]
        {
            let refused = place.run(args);
            assert!(refused.code == 2 && refused.stderr.contains(expected), "{args:?}: {}", refused.seen());
        }
    }
}

#[tokio::test]
async fn a_start_with_another_key_leaves_the_schema_to_the_earlier_program() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let (_, rows) = OF_0_1_0.split_once('\n').expect("two lines");
    Fixture::parse(rows).create(&format!("sqlite:{}", place.path("sarsen.db").display())).await;
    let refused = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(refused.code == 2 && refused.stderr.contains("another key"), "{}", refused.seen());
    std::fs::write(place.path("sarsen.key"), Fixture::secret_key()).expect("written");
    assert_eq!(place.json(&["check", "sarsen.db", "--accept-unmarked"])["schema"], 10);
}

#[test]
fn a_folder_for_backups_of_another_user_is_a_wrong_setting() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    // A test of root gives it away; for anybody else, this one is root's.
    let own = place.path("backups");
    std::fs::create_dir(&own).expect("a folder");
    let folder = if std::os::unix::fs::chown(&own, Some(1), None).is_ok() { own } else { "/usr".into() };
    let folder = folder.to_str().expect("text");
    let refused = place.run(&["serve", "--listen", "127.0.0.1:0", "--backup-directory", folder]);
    assert!(refused.code == 2 && refused.stderr.contains("another user"), "{}", refused.seen());
}

#[test]
fn a_database_that_is_away_is_no_wrong_argument() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let mut server = serve(&place, "log");
    server.wait_for("listening");
    // One process owns the file.
    let served = place.run(&["move", "--from", "sqlite:sarsen.db", "--to", "sqlite:other.db"]);
    assert!(served.code == 1 && served.stderr.contains("--from: "), "{}", served.seen());
    assert_eq!(server.stop(), 0);
    let wrong = place.run(&["move", "--from", "sqlite:sarsen.db", "--to", "oracle://x"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("--to is not a database"), "{}", wrong.seen());
}

#[test]
fn a_log_may_be_json() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let command = place.sarsen(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    let mut server = Running::start(command, place.path("log"));
    let log = server.wait_for("listening");
    assert!(log.contains("This server has no owner yet"), "{log}");
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
    let line = log.lines().find(|line| line.contains("listening")).expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert!(line["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{line}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_taken_address_and_a_missing_folder_stop_the_start_before_anything_is_made() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let refused = place.run(&["serve", "--listen", &address]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.starts_with(&format!("sarsen: cannot listen on {address}: ")),
        "{}",
        refused.stderr
    );
    assert!(!place.path("sarsen.db").exists() && !place.path("setup-link.txt").exists());

    let missing = place.run(&["serve", "--listen", "127.0.0.1:0", "--database", "sqlite:no/where/sarsen.db"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("the folder no/where of the database"), "{}", missing.stderr);
    assert!(missing.stderr.contains("does not exist; create it"), "{}", missing.stderr);
}

#[test]
fn a_database_server_that_does_not_answer_is_mentioned_after_a_second() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    // It accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("postgres://ada:hunter2@{}/sarsen", silent.local_addr().expect("its address"));
    let command = place.sarsen(&["serve", "--listen", "127.0.0.1:0", "--database", &url]);
    let mut server = Running::start(command, place.path("log"));
    let log = server.wait_for("waiting for the database");
    assert!(log.contains("postgres://ada:…@") && !log.contains("hunter2"), "{log}");
}
