//! Signing keys: the first key, and concurrent renewals.

use crate::support::{START, TestIdentity};
use identity::keys::{self, Algorithm, Ring};
use identity::secrets::SecretKey;
use identity::tokens::{self, AccessClaims, AccessTokenTyp, Audience};
use std::time::Duration;
use store::Time;

#[tokio::test]
async fn the_first_key_signs_for_requests_that_began_before_it() {
    let identity = TestIdentity::open().await;
    let secret_key = SecretKey::new(&[7; 32]);
    let made_at = START + Duration::from_millis(300);
    let new = keys::generate(Algorithm::Es256, made_at, identity.random(), &secret_key).expect("a key");
    identity.write_at(made_at, move |tx, actor| keys::add_if_due(tx, &new, actor.now)).await.expect("adds");
    let ring = identity.read(move |snapshot| keys::ring(snapshot, &secret_key, START)).await.expect("a ring");
    assert!(
        ring.signer(Algorithm::Es256, START).is_some(),
        "the request has redeemed its code and needs a signer"
    );
}

#[tokio::test]
async fn concurrent_renewals_store_one_key() {
    let identity = TestIdentity::open().await;
    let secret_key = SecretKey::new(&[7; 32]);
    for _ in 0..2 {
        let new = keys::generate(Algorithm::Es256, START, identity.random(), &secret_key).expect("a key");
        identity.write(move |tx, actor| keys::add_if_due(tx, &new, actor.now)).await.expect("adds");
    }
    let ring = identity.read(move |snapshot| keys::ring(snapshot, &secret_key, START)).await.expect("a ring");
    assert_eq!(ring.jwks()["keys"].as_array().map(Vec::len), Some(1));
}

fn claims() -> AccessClaims {
    AccessClaims {
        iss: "https://id.test".to_owned(),
        sub: "user".to_owned(),
        aud: Audience::One("service:acme/app".to_owned()),
        client_id: "client".to_owned(),
        exp: START.seconds() + 600,
        iat: START.seconds(),
        jti: "grant.random".to_owned(),
        scope: String::new(),
        sid: None,
        org: None,
        service: None,
        customer: None,
        azp: None,
        auth_time: None,
        acr: None,
        amr: None,
    }
}

async fn ring_with_a_key(seed: u8) -> Ring {
    let identity = TestIdentity::open().await;
    let secret_key = SecretKey::new(&[seed; 32]);
    // Its id begins with the time.
    let made_at = START + Duration::from_millis(seed.into());
    let new = keys::generate(Algorithm::Es256, made_at, identity.random(), &secret_key).expect("a key");
    identity.write(move |tx, actor| keys::add(tx, &new, actor.now)).await.expect("adds");
    identity.read(move |snapshot| keys::ring(snapshot, &secret_key, START)).await.expect("a ring")
}

#[tokio::test]
async fn a_known_signature_saves_its_verification_and_nothing_else() {
    let ring = ring_with_a_key(7).await;
    let issuer = "https://id.test";
    let (token, key) = tokens::sign_access(&ring, &claims(), AccessTokenTyp::AtJwt, START).expect("signs");
    let verify = |ring: &Ring, issuer: &str, token: &str, now, is_known: bool| {
        let verified = tokens::verify_access(ring, issuer, token, now, |_| is_known);
        verified.map(|verified| (verified.claims, verified.key.clone()))
    };
    for is_known in [true, false] {
        assert_eq!(verify(&ring, issuer, &token, START, is_known), Some((claims(), key.clone())));
        let late = START + Duration::from_secs(600);
        assert_eq!(verify(&ring, issuer, &token, late, is_known), None, "expired");
        let early = Time::from_millis(START.millis() - 61_000);
        assert_eq!(verify(&ring, issuer, &token, early, is_known), None, "from the future");
        assert_eq!(verify(&ring, "https://other.test", &token, START, is_known), None, "another issuer");
        let id_token = token.replacen(token.split('.').next().unwrap_or_default(), "eyJ0eXAiOiJKV1QifQ", 1);
        assert_eq!(verify(&ring, issuer, &id_token, START, is_known), None, "a header without a key");
        let others = ring_with_a_key(8).await;
        assert_eq!(verify(&others, issuer, &token, START, is_known), None, "the key was withdrawn");
    }
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    assert_eq!(verify(&ring, issuer, &forged, START, false), None, "another signature");
}
