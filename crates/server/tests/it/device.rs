//! The device grant (RFC 8628): the story, and every attack on it.

use identity::clients::DEVICE_GRANT;
use server::testing::{Answer, TestServer};
use std::time::{Duration, Instant};

/// A device of the demo's command line asks for codes.
async fn codes(server: &TestServer) -> Answer {
    let answer = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

async fn poll(server: &TestServer, codes: &Answer) -> Answer {
    poll_as(server, codes, server.client("cli")).await
}

async fn poll_as(server: &TestServer, codes: &Answer, client: &str) -> Answer {
    let code = codes.text("device_code");
    let fields = [("grant_type", DEVICE_GRANT), ("device_code", &code), ("client_id", client)];
    server.post("/auth/token", &fields).send().await
}

fn error(status: u16, name: &str) -> (u16, String) {
    (status, name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_signed_in_by_its_user_in_a_browser() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    assert_eq!(codes.header("cache-control"), "no-store");
    assert_eq!(codes.json()["interval"], 5);
    assert_eq!(codes.json()["expires_in"], 900);
    let user_code = codes.text("user_code");
    assert_eq!(
        codes.text("verification_uri_complete"),
        format!("http://127.0.0.1:7070/activate?user_code={user_code}")
    );
    assert_eq!(poll(&server, &codes).await.error(), error(400, "authorization_pending"));

    let mut ada = server.browser();
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    let done = ada.decide(&user_code, "allow").await;
    assert!(done.body.contains("signed in"), "{done:?}");

    let tokens = poll(&server, &codes).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let subscription = server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await;
    assert_eq!((subscription.status, subscription.text("plan")), (200, "pro".to_owned()), "{subscription:?}");
    assert_eq!(poll(&server, &codes).await.error(), error(400, "invalid_grant"), "a code is used once");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_reaches_a_held_poll_at_once() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let code = codes.text("device_code");
    let fields = [("grant_type", DEVICE_GRANT), ("device_code", &code), ("client_id", server.client("cli"))];
    let held = server.post("/auth/token", &fields).header("prefer", "wait=10").send();
    let user_code = codes.text("user_code");
    let decided = async {
        let metric = || async { server.get("/metrics").send().await.body.contains("sarsen_held_polls 1") };
        while !metric().await {
            tokio::task::yield_now().await;
        }
        ada.decide(&user_code, "allow").await;
        Instant::now()
    };
    let (answer, decided_at) = tokio::join!(held, decided);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("preference-applied"), "wait=10");
    assert!(decided_at.elapsed() < Duration::from_secs(2));
    server.stop().await;
}
