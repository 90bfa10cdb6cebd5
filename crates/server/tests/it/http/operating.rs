//! What those who operate the server look at: metrics, health, discovery.

use super::problem;
use server::testing::{Answer, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_not_public() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/metrics").send().await.status, 200, "this machine may read them");
    for header in
        ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "forwarded", "via"]
    {
        let proxied = server.get("/metrics").header(header, "127.0.0.1").send().await;
        assert_eq!(problem(&proxied).0, 404, "{header}");
    }
    for (host, status) in [("127.0.0.1:7070", 200), ("[::1]", 200), ("test", 404), ("10.0.0.7", 404)] {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        assert_eq!(Answer::parse(&server.raw(request.as_bytes()).await).status, status, "{host}");
    }
    server.stop().await;

    let token = |settings: &mut server::Settings| settings.metrics_token = Some("a-long-token".to_owned());
    let server = TestServer::start_with(token, |_| {}).await;
    let read = async |token: Option<&str>| {
        let request = server.get("/metrics").header("x-forwarded-for", "203.0.113.9");
        token
            .into_iter()
            .fold(request, |request, token| request.header("authorization", token))
            .send()
            .await
            .status
    };
    assert_eq!(server.get("/metrics").send().await.status, 404, "this machine needs it too");
    assert_eq!(read(None).await, 404);
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer a-long-toke",
        "Bearer a-long-token2",
        "a-long-token",
        "Basic a-long-token",
    ] {
        assert_eq!(read(Some(wrong)).await, 404, "{wrong:?}");
    }
    assert_eq!(read(Some("Bearer a-long-token")).await, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_discovery_are_plain() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/healthz").send().await.body, "ok");
    assert_eq!(server.get("/readyz").send().await.body, "ready");
    let configuration = server.get("/.well-known/openid-configuration").send().await;
    assert_eq!(configuration.header("cache-control"), "public, max-age=300");
    assert_eq!(configuration.text("issuer"), "http://127.0.0.1:7070");
    let prompts = &configuration.json()["prompt_values_supported"];
    assert_eq!(*prompts, serde_json::json!(["none", "login", "select_account", "consent", "create"]));
    server.stop().await;
}
