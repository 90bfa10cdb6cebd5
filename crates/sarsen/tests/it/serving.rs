//! `sarsen serve`: the first start, the set-up link, a clean shutdown.

use crate::support::{Place, Running, mode};

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
fn a_second_signal_stops_the_server_at_once() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let mut server = serve(&place, "log");
    let log = server.wait_for("listening");
    let address =
        log.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("an address");
    let mut slow = std::net::TcpStream::connect(address).expect("a connection");
    let head = "POST /auth/token HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 5\r\nexpect: 100-continue\r\n\r\n";
    std::io::Write::write_all(&mut slow, head.as_bytes()).expect("sent");
    // The server asks for the body, so it has begun the request.
    std::io::Read::read_exact(&mut slow, &mut [0; 12]).expect("an answer");
    server.terminate();
    server.wait_for("stopping");
    server.terminate();
    assert_eq!(server.finish().0, 1);
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
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("secret_key"), "{other:?}");
}

#[test]
fn a_log_may_be_json() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let command = place.sarsen(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    let mut server = Running::start(command, place.path("log"));
    let log = server.wait_for("listening");
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
