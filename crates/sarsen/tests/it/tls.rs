//! `sarsen serve` with a certificate: a stock client, `doctor`, and a renewal while the server runs.

use crate::support::{Place, Running};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

/// Writes a certificate for `localhost` and its key into the place.
fn issue(place: &Place, days: &str) {
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days".split(' '))
        .arg(days)
        .args("-subj /CN=localhost -addext subjectAltName=DNS:localhost".split(' '))
        .args("-addext basicConstraints=critical,CA:FALSE -keyout tls.key -out tls.pem".split(' '))
        .current_dir(place.root())
        .output()
        .expect("openssl makes certificates");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The status and the version of HTTP that curl gets.
fn curl(place: &Place, address: SocketAddr, option: &str) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", option, "--output", "/dev/null"])
        .args(["--write-out", "%{http_code} %{http_version}", "--resolve"])
        .arg(format!("localhost:{}:127.0.0.1", address.port()))
        .args([
            "--cacert",
            "tls.pem",
            &format!("https://localhost:{}/.well-known/openid-configuration", address.port()),
        ])
        .current_dir(place.root())
        .output()
        .expect("curl runs");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Signs the place's certificate again, with an end that has passed.
fn let_it_end(place: &Place) {
    let made = Command::new("openssl")
        .args("x509 -in tls.pem -signkey tls.key -days -1 -out ended.pem".split(' '))
        .current_dir(place.root())
        .output()
        .expect("openssl makes certificates");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::rename(place.path("ended.pem"), place.path("tls.pem")).expect("replaced");
}

#[test]
fn a_server_with_a_certificate_speaks_https_and_follows_its_files() {
    let place = Place::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    assert_eq!(place.run(&["init", "--yes", "--listen", &free.to_string()]).code, 0);
    let file = place.path("sarsen.toml");
    let settings: String = fs::read_to_string(&file)
        .expect("made")
        .lines()
        .filter(|line| !line.starts_with("issuer"))
        .map(|line| format!("{line}\n"))
        .chain(["tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\n".to_owned()])
        .collect();
    fs::write(&file, settings).expect("written");
    assert_eq!(place.run(&["health"]).code, 1, "nobody answers");
    let refused = place.run(&["serve"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("tls.pem (tls_certificate): No such file"), "{}", refused.stderr);
    assert!(place.run(&["doctor"]).stdout.contains("fail  tls"));

    for (days, expected) in [("2", "warn  tls            the certificate ends at 20"), ("15", "ok    tls ")] {
        issue(&place, days);
        let seen = place.run(&["doctor"]).stdout;
        assert!(seen.contains(expected), "{days}: {seen}");
    }
    let mut server = Running::start(place.sarsen(&["serve"]), place.path("log"));
    let log = server.wait_for("listening");
    assert!(log.contains(&format!("issuer=\"https://localhost:{}\"", free.port())), "{log}");
    let health = place.run(&["health"]);
    assert_eq!((health.code, health.stdout.as_str()), (0, "ready\n"), "{}", health.stderr);
    assert_eq!(curl(&place, free, "--http2"), "200 2");
    assert_eq!(curl(&place, free, "--http1.1"), "200 1.1");
    let seen = place.run(&["doctor"]).stdout;
    assert!(seen.contains("set SSL_CERT_FILE to the authority's certificate"), "{seen}");
    assert!(seen.contains("ok    listen         the server listens on"), "{seen}");

    issue(&place, "15");
    // The client trusts the new certificate only.
    server.wait_for("the TLS certificate was replaced");
    assert_eq!(curl(&place, free, "--http2"), "200 2");
    fs::write(place.path("tls.pem"), "rubbish").expect("written");
    server.wait_for("the TLS certificate stays as it is");
    assert_eq!(server.stop(), 0);

    issue(&place, "15");
    let_it_end(&place);
    let seen = place.run(&["doctor"]).stdout;
    assert!(seen.contains("fail  tls            the certificate has ended"), "{seen}");
    let mut server = Running::start(place.sarsen(&["serve"]), place.path("ended"));
    server.wait_for("the TLS certificate has ended, so clients refuse it");
    server.wait_for("listening");
    assert_eq!(server.stop(), 0);
}
