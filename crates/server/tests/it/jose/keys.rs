//! The keys that sign: renewed with an overlap, then retired.

use super::{Forge, assert_good, assert_refused, with};
use crate::support::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::keys::{self, Algorithm};
use serde_json::{Value, json};
use server::testing::TestServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_renewed_with_an_overlap_and_then_retired() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    until_both_keys_sign(&server).await;
    let ask = Ask::of(&server, "spa");
    let old = Forge::of_server(&server, Algorithm::Es256).await;
    let kid = |token: &str| {
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next().expect("a header")).expect("base64url");
        let header: Value = serde_json::from_slice(&header).expect("JSON");
        text(&header, "kid").to_owned()
    };
    let published = async || {
        let jwks = server.get("/.well-known/jwks.json").send().await;
        let max_age =
            jwks.header("cache-control").split_once("max-age=").and_then(|(_, age)| age.parse::<u64>().ok());
        assert!(max_age.is_some_and(|age| (60..=keys::PUBLISH_AHEAD.as_secs()).contains(&age)), "{jwks:?}");
        let keys = jwks.json()["keys"].as_array().cloned().unwrap_or_default();
        for key in &keys {
            for private in ["d", "p", "q", "dp", "dq", "qi", "k", "oth"] {
                assert!(key.get(private).is_none(), "{private} of a key is published");
            }
            assert!(key["use"] == "sig" && (key["alg"] == "ES256" || key["alg"] == "RS256"), "{key}");
        }
        keys.iter().map(|key| text(key, "kid").to_owned()).collect::<Vec<_>>()
    };
    let fresh = async |browser: &mut server::testing::TestBrowser<'_>| {
        tokens_of(&server, browser, &ask).await.text("access_token")
    };

    server.clock.advance(Duration::from_secs(60));
    let now = server.app.now();
    let new =
        keys::generate(Algorithm::Es256, now, &server::SystemRandom, &server.app.secret_key).expect("a key");
    server.app.store.write("key.add", move |tx| keys::add(tx, &new, now)).await.expect("adds");
    let kids = published().await;
    assert_eq!(kids.len(), 3, "published before it signs");
    let before = fresh(&mut ada).await;
    assert_eq!(kid(&before), old.kid, "those who keep jwks.json do not know the new one yet");
    server.clock.advance(keys::PUBLISH_AHEAD - Duration::from_secs(1));
    let before = fresh(&mut ada).await;
    assert_eq!(kid(&before), old.kid);
    server.clock.advance(Duration::from_secs(1));
    let after = fresh(&mut ada).await;
    assert!(kid(&after) != old.kid && kids.contains(&kid(&after)));
    assert_good(&server, &after, "of the new key").await;
    assert_good(&server, &before, "of the old key").await;
    assert_eq!(published().await.len(), 3, "the old one is still published");

    // Longer than any token lives, then it is gone.
    server.clock.advance(Duration::from_secs(23 * 3600));
    let claims_now = |token: &str| {
        let now = server.app.now().seconds();
        with(&claims(token), json!({ "iat": now, "exp": now + 600 }))
    };
    assert_good(&server, &old.jws(&old.header().to_string(), &claims_now(&after)), "not retired yet").await;
    server.clock.advance(Duration::from_secs(3601));
    assert!(!published().await.contains(&old.kid));
    let forged = old.jws(&old.header().to_string(), &claims_now(&after));
    assert_refused(&server, &forged, "signed by a key that was retired").await;
    let fresh = fresh(&mut ada).await;
    assert_good(&server, &fresh, "of the new key").await;
    server.stop().await;
}
