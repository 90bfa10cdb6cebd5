//! `sarsen doctor`: what it finds, and that it changes nothing.

use crate::support::{Ended, Place, Running};
use server::testing::{Rows, change_file, free_port};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn states(place: &Place, args: &[&str]) -> Vec<(String, String)> {
    let output = place.sarsen(&[&["doctor", "--json"], args].concat()).output().expect("it runs");
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |finding: &serde_json::Value, name: &str| finding[name].as_str().expect("text").to_owned();
    findings.iter().map(|finding| (text(finding, "check"), text(finding, "state"))).collect()
}

fn state(place: &Place, check: &str) -> String {
    let found = states(place, &[]).into_iter().find(|(name, _)| name == check);
    found.unwrap_or_else(|| panic!("{check} was not checked")).1
}

#[test]
fn doctor_prints_what_is_wrong_and_what_to_do() {
    let place = Place::new();
    assert_eq!(state(&place, "secret key"), "fail");
    assert_eq!(place.run(&["doctor"]).code, 1);
    assert_eq!(place.run(&["init", "--yes", "--listen", "127.0.0.1:1"]).code, 0);
    let fine = place.run(&["doctor", "--connections-max", "10"]);
    assert_eq!(fine.code, 0, "{}", fine.seen());
    assert!(
        fine.stdout.contains("warn  issuer         no answer from http://localhost:1"),
        "{}",
        fine.stdout
    );
    assert!(!place.path("sarsen.db").exists(), "it changes nothing");

    std::fs::set_permissions(place.path("sarsen.key"), PermissionsExt::from_mode(0o644)).expect("set");
    assert_eq!(state(&place, "secret key"), "fail");
    std::fs::set_permissions(place.path("sarsen.key"), PermissionsExt::from_mode(0o600)).expect("set");
    let file = std::fs::read_to_string(place.path("sarsen.toml")).expect("read");
    let with_token = format!("{file}\nmetrics_token = \"0123456789abcdef\"\n");
    for (text, mode, expected) in
        [(&file, 0o644, "ok"), (&with_token, 0o644, "fail"), (&with_token, 0o640, "ok")]
    {
        std::fs::write(place.path("sarsen.toml"), text).expect("written");
        std::fs::set_permissions(place.path("sarsen.toml"), PermissionsExt::from_mode(mode)).expect("set");
        assert_eq!(state(&place, "configuration"), expected, "{mode:o}");
    }
    let wrong = place.run(&["doctor", "--session-days", "0"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stdout.starts_with("fail  configuration  session_days"), "{}", wrong.stdout);
}

#[test]
fn doctor_finds_a_server_that_runs() {
    let place = Place::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    assert_eq!(place.run(&["init", "--yes", "--listen", &free.to_string()]).code, 0);
    let mut server = Running::start(place.sarsen(&["serve"]), place.path("log"));
    server.wait_for("listening");
    assert_eq!(state(&place, "issuer"), "ok");
    let seen = place.run(&["doctor"]);
    assert!(seen.stdout.contains(&format!("process {} uses it", server.pid())), "{}", seen.seen());
    assert!(
        seen.stdout.contains(&format!("ok    listen         the server listens on {free}")),
        "{}",
        seen.seen()
    );

    assert_eq!(state(&place, "proxies"), "ok");
    for _ in 0..3 {
        let page = ureq::get(format!("http://{free}/login")).header("x-forwarded-for", "203.0.113.9").call();
        assert!(page.is_ok_and(|page| page.status() == 200));
    }
    let seen = place.run(&["doctor"]);
    assert!(seen.stdout.contains("warn  proxies        3 requests since the start"), "{}", seen.seen());
    let log = server.wait_for("X-Forwarded-For was ignored");
    assert_eq!(log.matches("X-Forwarded-For was ignored").count(), 1, "once an hour: {log}");
    assert!(log.contains("peer=127.0.0.1"), "{log}");
    assert_eq!(server.stop(), 0);
    assert_eq!(state(&place, "issuer"), "warn", "no server answers");
    assert_eq!(state(&place, "database"), "ok");
    let other_key = Place::new();
    assert_eq!(other_key.run(&["init", "--yes"]).code, 0);
    let key = other_key.path("sarsen.key").display().to_string();
    let seen = place.run(&["doctor", "--secret-key-file", &key]);
    assert!(seen.code == 1 && seen.stdout.contains("created with another key"), "{}", seen.seen());

    let other = Place::new();
    assert_eq!(other.run(&["init", "--yes", "--listen", &free.to_string()]).code, 0);
    let mut server = Running::start(other.sarsen(&["serve"]), other.path("log"));
    server.wait_for("listening");
    assert_eq!(state(&place, "issuer"), "fail", "the server of another folder answers");
    assert_eq!(state(&other, "issuer"), "ok");
    assert_eq!(server.stop(), 0);

    // A listed proxy that sends no address.
    let listed = ["--trusted-proxies", "127.0.0.1"];
    let mut server = Running::start(other.sarsen(&[&["serve"], &listed[..]].concat()), other.path("listed"));
    server.wait_for("listening");
    for _ in 0..2 {
        let page = ureq::get(format!("http://{free}/login")).call();
        assert!(page.is_ok_and(|page| page.status() == 200));
    }
    let seen = other.run(&[&["doctor"], &listed[..]].concat());
    assert!(
        seen.stdout.contains("warn  proxies        2 of 2 requests from trusted_proxies"),
        "{}",
        seen.seen()
    );
    assert_eq!(server.stop(), 0);
}

#[test]
fn doctor_tells_a_proxy_without_its_server_from_a_server() {
    let place = Place::new();
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let issuer = format!("http://localhost:{}", proxy.local_addr().expect("its address").port());
    assert_eq!(place.run(&["init", "--yes", "--issuer", &issuer, "--listen", "127.0.0.1:1"]).code, 0);
    for (status, expected) in [
        ("502 Bad Gateway", "warn  issuer         a proxy answers at http://localhost:"),
        ("504 Gateway Timeout", "finds no server (504); start sarsen serve"),
        ("404 Not Found", "fail  issuer         another server answers at http://localhost:"),
    ] {
        let answers = std::thread::scope(|scope| {
            let answers = scope.spawn(|| {
                let (mut client, _) = proxy.accept().expect("doctor asks");
                let mut request = [0; 4096];
                let length = client.read(&mut request).expect("a request");
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                client.write_all(answer.as_bytes()).expect("answered");
                String::from_utf8_lossy(&request[..length]).into_owned()
            });
            let seen = place.run(&["doctor"]);
            assert!(seen.stdout.contains(expected), "{status}: {}", seen.seen());
            answers.join().expect("no panic")
        });
        assert!(answers.starts_with("GET /healthz "), "{answers}");
    }
}

/// A place with settings, a key, and the database that a server has made.
fn served_once() -> Place {
    let place = Place::new();
    let listen = format!("127.0.0.1:{}", free_port());
    assert_eq!(place.run(&["init", "--yes", "--listen", &listen]).code, 0);
    let mut server = Running::start(place.sarsen(&["serve"]), place.path("log"));
    server.wait_for("listening");
    assert_eq!(server.stop(), 0);
    place
}

/// The line about a check that failed.
fn failure<'a>(seen: &'a Ended, check: &str) -> &'a str {
    let begin = format!("fail  {check:<13}  ");
    seen.stdout.lines().find(|line| line.starts_with(&begin)).unwrap_or_default()
}

/// What the program says as a user without rights of root, who owns the folder but not all that is in it.
fn as_owner(place: &Place, args: &[&str]) -> Output {
    let mut command = place.sarsen(args);
    let nobody = 65534;
    if std::fs::metadata("/proc/self").expect("Linux").uid() == 0 {
        for entry in std::fs::read_dir(place.root()).expect("a folder").flatten() {
            chown(entry.path(), Some(nobody), Some(nobody)).expect("root may");
        }
        chown(place.root(), Some(nobody), Some(nobody)).expect("root may");
        command.uid(nobody).gid(nobody);
    }
    command.output().expect("it runs")
}

#[test]
fn doctor_refuses_what_serve_refuses_in_the_same_words() {
    let mut rows = Rows::new();
    rows.check("a port of a program that is silent", || {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listen = silent.local_addr().expect("its address").to_string();
        let place = Place::new();
        assert_eq!(place.run(&["init", "--yes", "--listen", &listen]).code, 0);
        let began = Instant::now();
        let seen = place.run(&["doctor", "--connections-max", "10"]);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        let words = format!("cannot listen on {listen}: Address already in use");
        assert!(seen.code == 1 && failure(&seen, "listen").contains(&words), "{}", seen.seen());
        let serve = place.run(&["serve"]);
        assert!(serve.code == 1 && serve.stderr.contains(&words), "{}", serve.seen());
    });
    rows.check("a file that its user cannot write", || {
        let place = served_once();
        std::fs::set_permissions(place.path("sarsen.db"), PermissionsExt::from_mode(0o444)).expect("set");
        let words = "sarsen.db for writing: Permission denied";
        let seen = as_owner(&place, &["doctor"]);
        let (code, text) = (seen.status.code(), String::from_utf8_lossy(&seen.stdout).into_owned());
        assert!(code == Some(1) && text.contains(words), "{text}");
        let seen = as_owner(&place, &["serve"]);
        let (code, text) = (seen.status.code(), String::from_utf8_lossy(&seen.stderr).into_owned());
        assert!(code == Some(1) && text.contains(words), "{text}");
    });
    for (name, args, check, words) in [
        ("no folder", ["--database", "sqlite:no/where.db"], "database", "does not exist; create it"),
        ("no folder for backups", ["--backup-directory", "sarsen.toml/backups"], "backups", "sarsen.toml"),
        (
            "an address of others",
            ["--listen", "192.0.2.1:7070"],
            "listen",
            "this machine has no such address",
        ),
        (
            "an interrupted rekey",
            ["--log", "info"],
            "secret key",
            "a change of the secret key was interrupted",
        ),
    ] {
        rows.check(name, || {
            let place = served_once();
            if check == "secret key" {
                std::fs::write(place.path("sarsen.key.new"), "x").expect("written");
            }
            let args = [&args[..], &["--issuer", "https://id.example.com"]].concat();
            let seen = place.run(&[&["doctor"], &args[..]].concat());
            assert!(seen.code == 1 && failure(&seen, check).contains(words), "{}", seen.seen());
            let serve = place.run(&[&["serve"], &args[..]].concat());
            assert!(serve.code != 0 && serve.stderr.contains(words), "{}", serve.seen());
        });
    }
}

#[test]
fn what_serve_only_warns_of_doctor_finds() {
    let place = served_once();
    // A server that stops gives its leases back, so that there may be none.
    let ahead = "INSERT INTO leases (name, holder, ends_at) \
                 VALUES ('of another time', 'somebody', (unixepoch() + 34603200) * 1000)";
    change_file(&place.path("sarsen.db"), ahead);
    std::fs::set_permissions(place.path("sarsen.db"), PermissionsExt::from_mode(0o666)).expect("set");
    let seen = place.run(&["doctor"]);
    assert_eq!(seen.code, 1, "{}", seen.seen());
    assert!(failure(&seen, "clock").contains("the clock is at least 400 days behind"), "{}", seen.seen());
    assert!(failure(&seen, "database").contains("mode 666"), "{}", seen.seen());
    let mut server = Running::start(place.sarsen(&["serve"]), place.path("log"));
    let log = server.wait_for("listening");
    assert!(log.contains("the clock is at least 400 days behind"), "{log}");
    assert!(log.contains("can use the file of the database"), "{log}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_check_that_hangs_is_a_failure_and_the_others_are_made() {
    let place = served_once();
    std::fs::remove_file(place.path("sarsen.key")).expect("removed");
    // Nobody writes to it: who opens it waits.
    let made = Command::new("mkfifo").arg(place.path("sarsen.key")).status();
    assert!(made.expect("runs").success());
    let seen = place.run(&["doctor"]);
    assert_eq!(seen.code, 1, "{}", seen.seen());
    let line = failure(&seen, "secret key");
    assert!(line.contains("no result within 5 seconds: a file of it does not answer"), "{}", seen.seen());
    assert!(seen.stdout.contains("ok    listen"), "{}", seen.seen());
}
