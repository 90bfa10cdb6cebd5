//! Tokens at the back ends of products that are written with `live`: by the keys that the server publishes.

use crate::support::*;
use live::auth::{Accept, Issuer, TokenType};
use serde_json::json;
use server::testing::{TestServer, free_port};
use server::{Clock as _, Limits, Running};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A server that listens where its issuer is.
async fn start() -> (TestServer, Running, String) {
    let port = free_port();
    let issuer = format!("http://127.0.0.1:{port}");
    let chosen = issuer.clone();
    let server = TestServer::start_with(move |settings| settings.issuer = chosen, |_| {}).await;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let running = server::serve(server.app.clone(), &[address], Limits::default()).await.expect("serves");
    (server, running, issuer)
}

fn accept(server: &TestServer, audience: &str) -> Accept {
    let clock = server.clock.clone();
    Accept::audience(audience).clock(Arc::new(move || clock.now()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_token_opens_the_back_end_of_its_service_only() {
    let (server, running, url) = start().await;
    let tokens = tokens(&server, "ada@acme.test", "openid profile email").await;
    let (access, id) = (tokens.text("access_token"), tokens.text("id_token"));
    let of = |audience: &str| Issuer::discover(&url, accept(&server, audience)).expect("an issuer");
    let sketch = of("service:acme/sketch");
    sketch.ready().await.expect("the server publishes keys");
    let caller = sketch.verify(&access).await.expect("its audience");
    assert_eq!(caller.subject.as_deref(), Some(text(&claims(&access), "sub")));
    assert_eq!(caller.claims["org"], "acme");
    for other in ["service:acme/notes", "org:acme", "platform", "service:acme", server.client("spa")] {
        assert_eq!(of(other).verify(&access).await.expect_err(other).status.as_u16(), 401);
    }
    // An ID token is for the client, and says so.
    for token_type in [TokenType::AccessToken, TokenType::Jwt] {
        for audience in ["service:acme/sketch", server.client("spa")] {
            let accept = accept(&server, audience).token_type(token_type);
            let issuer = Issuer::discover(&url, accept).expect("an issuer");
            assert_eq!(issuer.verify(&id).await.expect_err("an ID token").status.as_u16(), 401);
        }
    }
    let signed_in = accept(&server, server.client("spa")).token_type(TokenType::IdToken);
    let signed_in = Issuer::discover(&url, signed_in).expect("an issuer");
    assert_eq!(signed_in.verify(&id).await.expect("signed by RSA").subject, caller.subject);

    server.clock.advance(Duration::from_secs(601));
    assert!(sketch.verify(&access).await.expect_err("expired").detail.contains("expired"));
    running.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_signing_key_is_known_before_it_signs() {
    let (server, running, url) = start().await;
    let issuer = Issuer::discover(&url, accept(&server, "service:acme/sketch")).expect("an issuer");
    let kids = async || {
        let keys = server.get("/.well-known/jwks.json").send().await.json()["keys"].clone();
        keys.as_array().expect("keys").iter().map(|key| text(key, "kid").to_owned()).collect::<Vec<_>>()
    };
    let first = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    issuer.verify(&first).await.expect("valid");
    let before = kids().await;
    server.clock.advance(Duration::from_secs(91 * 24 * 3600));
    server.tidy().await.expect("tidies");
    assert!(kids().await.len() > before.len(), "a new key is published");
    // It signs an hour later.
    server.clock.advance(Duration::from_secs(2 * 3600));
    let second = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let caller = issuer.verify(&second).await.expect("signed with the new key");
    assert_eq!(caller.claims["aud"], json!("service:acme/sketch"));
    let header_of = |token: &str| token.split('.').next().map(str::to_owned);
    assert_ne!(header_of(&first), header_of(&second));
    running.stop().await;
    server.stop().await;
}
