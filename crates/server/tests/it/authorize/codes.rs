//! The codes that come of it: used once, soon, by their own client, and not given by a full server.

use super::{ada, post_consent, refusal};
use crate::support::*;
use server::testing::TestServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn overload_is_told_to_the_client_with_state_and_issuer() {
    let server = TestServer::start_on(server::WriterLimits::default()).await;
    let mut ada = ada(&server).await;
    // Those that come after them cannot start in time.
    let question = ada.get(&Ask::of(&server, "spa").with("prompt", "consent").path()).await;
    let writers = HeldWriters::of(&server).await;
    let answer = ada.get(&Ask::of(&server, "spa").path()).await;
    assert_eq!(refusal(&answer), "temporarily_unavailable", "{answer:?}");
    let allowed = post_consent(&mut ada, &question, &[("decision", "allow")]).await;
    assert_eq!(refusal(&allowed), "temporarily_unavailable", "{allowed:?}");
    let device = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    assert_eq!((device.status, device.header("retry-after").is_empty()), (503, false), "only at authorize");
    writers.release().await;
    assert!(ada.get(&Ask::of(&server, "spa").path()).await.redirect_param("code").is_some());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_used_once_soon_and_by_its_own_client() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let other = admin.make_client("spa", &[CALLBACK, "http://127.0.0.1:9999/other"]).await;
    let other = text(&other, "client_id").to_owned();
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa");
    let spa = server.client("spa");
    let refused = (400, "invalid_grant".to_owned());

    let granted = code(&mut ada, &ask).await;
    let wrong_verifiers = [&VERIFIER[1..], "", "a-verifier-that-is-long-enough-for-RFC-7637", "short"];
    let mut bodies = Vec::new();
    for verifier in wrong_verifiers {
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", spa),
            ("redirect_uri", CALLBACK),
            ("code", &granted),
            ("code_verifier", verifier),
        ];
        bodies.push(server.post("/auth/token", &fields).send().await);
    }
    bodies.push(redeem(&server, &other, CALLBACK, &granted).await);
    for uri in
        ["http://127.0.0.1:9999/other", "http://127.0.0.1:9999/callback/", "http://127.0.0.1:9998/callback"]
    {
        bodies.push(redeem(&server, spa, uri, &granted).await);
    }
    for garbage in
        ["x", "code_01h00000000000000000000000.x", &granted[..granted.len() - 1], &format!("{granted}x")]
    {
        bodies.push(redeem(&server, spa, CALLBACK, garbage).await);
    }
    for answer in &bodies {
        assert_eq!(answer.error(), refused, "{answer:?}");
        assert_eq!((&answer.body, answer.header("cache-control")), (&bodies[0].body, "no-store"));
    }
    let first = redeem(&server, spa, CALLBACK, &granted).await;
    assert_eq!(first.status, 200, "wrong tries cost nothing: {first:?}");
    assert_eq!(claims(&first.text("id_token"))["nonce"], "the-nonce");
    assert_eq!(server.get("/api/user").bearer(&first.text("access_token")).send().await.status, 200);
    assert_eq!(redeem(&server, spa, CALLBACK, &granted).await.error(), refused);
    let robbed = server.get("/api/user").bearer(&first.text("access_token")).send().await;
    assert_eq!(robbed.status, 401, "a code that comes back takes its tokens with it");

    let granted = code(&mut ada, &ask.clone().with("nonce", "another")).await;
    server.clock.advance(Duration::from_secs(59));
    let fresh = redeem(&server, spa, CALLBACK, &granted).await;
    assert_eq!(claims(&fresh.text("id_token"))["nonce"], "another");
    let granted = code(&mut ada, &ask).await;
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(redeem(&server, spa, CALLBACK, &granted).await.error(), refused, "a minute is over");

    // It ends with the session that it came from.
    let granted = code(&mut ada, &ask).await;
    let csrf = ada.get("/o/acme/logout").await.input("csrf");
    ada.post("/o/acme/logout", &[("csrf", &csrf)]).await;
    assert_eq!(redeem(&server, spa, CALLBACK, &granted).await.error(), refused, "signed out");
    server.stop().await;
}
