//! `X-Request-Id`: every response has one, and a good one of the client is kept.

use server::testing::{Rows, TestServer};
use std::collections::BTreeSet;

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
