//! Hosts that requests are for: DNS rebinding, and browsers that must come back over TLS.

use super::{is_page, problem};
use crate::device::{error, refusal};
use server::testing::{Answer, Rows, TestServer};

async fn ask(server: &TestServer, target: &str, hosts: &[&str]) -> Answer {
    let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
    let request = format!("GET {target} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
    Answer::parse(&server.raw(request.as_bytes()).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_another_host_is_misdirected() {
    let server = TestServer::start().await;
    let mut rows = Rows::new();
    for (host, home) in [
        ("127.0.0.1:7070", 200),
        ("127.0.0.1", 200),
        ("localhost:9", 200),
        ("[::1]:7070", 200),
        ("192.0.2.7:7070", 200),
        ("test", 200),
        ("evil.example", 421),
        ("evil.example:7070", 421),
        ("localhost.evil.example", 421),
        ("evil example", 400),
        ("", 400),
    ] {
        let row = async {
            let answer = ask(&server, "/", &[host]).await;
            assert_eq!((answer.status, is_page(&answer)), (home, true), "{host}: {answer:?}");
            assert!(!answer.body.contains("evil"), "{host}");
            for path in ["/healthz", "/readyz"] {
                assert_eq!(ask(&server, path, &[host]).await.status, 200, "{host} {path}");
            }
        };
        rows.row(host, row).await;
    }
    let evil = ["evil.example"];
    let api = ask(&server, "/api/user", &evil).await;
    assert_eq!(problem(&api), (421, "unknown_host".to_owned()));
    assert_eq!(refusal(&ask(&server, "/auth/userinfo", &evil).await), error(421, "invalid_request"));
    // The host of an absolute URL overrides the header.
    assert_eq!(ask(&server, "http://evil.example/api/user", &["localhost"]).await.status, 421);
    assert_eq!(ask(&server, "http://localhost/healthz", &evil).await.status, 200);
    for hosts in [&[][..], &["localhost", "localhost"], &["localhost", "evil.example"]] {
        assert_eq!(
            problem(&ask(&server, "/api/user", hosts).await),
            (400, "invalid_host".to_owned()),
            "{hosts:?}"
        );
    }
    let old = Answer::parse(&server.raw(b"GET / HTTP/1.0\r\n\r\n").await);
    assert_eq!(old.status, 200, "HTTP/1.0 has no host");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_come_back_over_tls_when_the_issuer_has_it() {
    for (issuer, policy) in [("https://id.example", "max-age=31536000"), ("http://127.0.0.1:7070", "")] {
        let server = TestServer::start_with(|settings| settings.issuer = issuer.to_owned(), |_| {}).await;
        for path in ["/", "/nothing", "/api/user", "/auth/authorize", "/assets/sarsen.css"] {
            let answer = server.get(path).send().await;
            assert_eq!(answer.header("strict-transport-security"), policy, "{issuer}{path}");
        }
        assert_eq!(
            ask(&server, "/login", &["id.example"]).await.status,
            if policy.is_empty() { 421 } else { 200 }
        );
        server.stop().await;
    }
}
