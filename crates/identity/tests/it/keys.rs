//! Signing keys: the first key, and concurrent renewals.

use crate::support::{START, TestIdentity};
use identity::keys::{self, Algorithm};
use identity::secrets::SecretKey;
use std::time::Duration;

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
