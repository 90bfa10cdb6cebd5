//! Signing keys: the first one, and two makers at once.

use crate::support::{START, TestIdentity};
use identity::keys::{self, Algorithm};
use identity::secrets::SecretKey;
use std::time::Duration;

#[tokio::test]
async fn the_first_key_also_signs_for_a_request_that_waited_for_it() {
    let identity = TestIdentity::open().await;
    let secret_key = SecretKey::new(&[7; 32]);
    let made_at = START + Duration::from_millis(300);
    let new = keys::generate(Algorithm::Es256, made_at, identity.random(), &secret_key).expect("a key");
    identity.write_at(made_at, move |tx, actor| keys::add_if_due(tx, &new, actor.now)).await.expect("adds");
    let ring = identity.read(move |snapshot| keys::ring(snapshot, &secret_key, START)).await.expect("a ring");
    assert!(ring.signer(Algorithm::Es256, START).is_some(), "its redeemed code would be lost");
}

#[tokio::test]
async fn two_who_renew_at_once_make_one_key() {
    let identity = TestIdentity::open().await;
    let secret_key = SecretKey::new(&[7; 32]);
    for _ in 0..2 {
        let new = keys::generate(Algorithm::Es256, START, identity.random(), &secret_key).expect("a key");
        identity.write(move |tx, actor| keys::add_if_due(tx, &new, actor.now)).await.expect("adds");
    }
    let ring = identity.read(move |snapshot| keys::ring(snapshot, &secret_key, START)).await.expect("a ring");
    assert_eq!(ring.jwks()["keys"].as_array().map(Vec::len), Some(1));
}
