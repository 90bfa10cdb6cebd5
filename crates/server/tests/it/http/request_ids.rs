//! `X-Request-Id`: every response has one, and a good one of the client is kept.

use identity::Error;
use server::testing::{Rows, TestServer};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Key, Sql, args, sql};

#[tokio::test(flavor = "multi_thread")]
async fn every_response_names_its_request() {
    let server = TestServer::start().await;
    let mut seen = BTreeSet::new();
    let mut rows = Rows::new();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/healthz"),
        ("GET", "/nothing"),
        ("GET", "/api/user"),
        ("GET", "/api/%ff"),
        ("POST", "/auth/token"),
        ("DELETE", "/auth/token"),
        ("OPTIONS", "/api/user"),
    ] {
        let row = async {
            let request = || server.request(method, path).header("origin", "https://app.example");
            let id = request().send().await.header("x-request-id").to_owned();
            assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{path}: {id:?}");
            assert!(seen.insert(id), "each has its own");
            let own = "0af7651916cd43dd8448eb211c80319c";
            let kept = request().header("x-request-id", own).send().await;
            assert_eq!(kept.header("x-request-id"), own, "{path}");
            let wrong = request().header("x-request-id", "a b; <script>").send().await;
            assert_eq!(wrong.header("x-request-id").len(), 16, "{path}: {wrong:?}");
        };
        rows.row(format!("{method} {path}"), row).await;
    }
    let shared = server.get("/api/user").header("origin", "https://app.example").send().await;
    assert!(shared.header("access-control-expose-headers").contains("x-request-id"), "{shared:?}");
    server.stop().await;
}

/// Writes what this thread logs into a file.
fn log_to(file: std::fs::File) -> tracing::subscriber::DefaultGuard {
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(file));
    tracing::subscriber::set_default(log.finish())
}

// One thread runs all tasks of the server, so that its lines go to this test's log.
#[tokio::test]
async fn the_cause_of_a_500_is_logged_with_the_id_of_its_request() {
    static BREAK: Sql = sql("DROP TABLE api_keys");
    let log = tempfile::NamedTempFile::new().expect("a file");
    let _guard = log_to(log.reopen().expect("the file again"));
    let server = TestServer::start().await;
    let broken = server.app.store.write("test.break", |tx| {
        tx.changed(Key::table("api_keys"));
        Ok::<_, Error>(tx.exec(&BREAK, args![])?)
    });
    broken.await.expect("the table is gone");
    let key = format!("sarsen_sk_{}_{}", "0".repeat(26), "a".repeat(43));
    for (keyed, id) in [(false, "the-first"), (true, "the-second")] {
        let (method, path) =
            if keyed { ("POST", "/api/service/check") } else { ("GET", "/api/service/users") };
        let request = server.request(method, path).bearer(&key).header("x-request-id", id);
        // With this header the handler runs in a task of its own.
        let request = if keyed { request.header("idempotency-key", "1") } else { request };
        assert_eq!(request.send().await.status, 500);
        let log = std::fs::read_to_string(log.path()).expect("a log");
        let names = |text: &str| log.lines().any(|line| line.contains(text) && line.contains(id));
        assert!(names("a database operation failed") && names("a request failed"), "{log}");
    }
    server.stop().await;
}
