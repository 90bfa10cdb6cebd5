//! An issuer over time: rotation, an issuer that does not answer, and many requests at once.

use super::{START, Signer, TestClock, TestIssuer};
use crate::auth::{Accept, Issuer};
use serde_json::json;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Waits until the keys were read `count` times: a refresh runs beside the request that began it.
async fn keys_read(issuer: &TestIssuer, count: u64) {
    while issuer.keys_read() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_unknown_key_ids_make_one_request_a_minute() {
    let (known, stranger) = (Signer::rsa("known"), Signer::ec("stranger"));
    let issuer = TestIssuer::start(&[&known]).await;
    let clock = TestClock::new();
    let verifier = Issuer::discover(&issuer.url, clock.accept()).expect("an issuer");
    verifier.verify(&known.sign(&issuer.claims())).await.expect("known");
    assert_eq!(issuer.keys_read(), 1);
    for round in 2..4 {
        clock.advance(MINUTE);
        let mut requests = tokio::task::JoinSet::new();
        for number in 0..1000 {
            let header =
                json!({ "typ": "at+jwt", "alg": "ES256", "kid": format!("random-{round}-{number}") });
            let token = stranger.sign_text(&header.to_string(), &issuer.claims().to_string());
            let verifier = verifier.clone();
            requests
                .spawn(async move { verifier.verify(&token).await.expect_err("unknown").status.as_u16() });
        }
        assert!(requests.join_all().await.iter().all(|status| *status == 401));
        assert_eq!(issuer.keys_read(), round);
        verifier.verify(&known.sign(&issuer.claims())).await.expect("known");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_first_requests_share_one_read_of_the_keys() {
    let signer = Signer::ec("k");
    let issuer = TestIssuer::start(&[&signer]).await;
    let verifier = Issuer::discover(&issuer.url, TestClock::new().accept()).expect("an issuer");
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..200 {
        let mut claims = issuer.claims();
        claims["sub"] = json!(format!("user-{number}"));
        let (token, verifier) = (signer.sign(&claims), verifier.clone());
        requests.spawn(async move { verifier.verify(&token).await.expect("valid").subject.clone() });
    }
    assert_eq!(requests.join_all().await.len(), 200);
    assert_eq!(issuer.keys_read(), 1);
}

#[tokio::test]
async fn keys_rotate_with_an_overlap_and_retire() {
    let (old, new) = (Signer::ec("old"), Signer::rsa("new"));
    let issuer = TestIssuer::start(&[&old]).await;
    let clock = TestClock::new();
    let verifier = Issuer::discover(&issuer.url, clock.accept()).expect("an issuer");
    let mut claims = issuer.claims();
    claims["exp"] = json!(START + 20 * 3600);
    let (by_old, by_new) = (old.sign(&claims), new.sign(&claims));
    verifier.verify(&by_old).await.expect("the only key");

    // The issuer begins to sign with a key that it has just published.
    issuer.publish(&[&old, &new]);
    clock.advance(MINUTE);
    verifier.verify(&by_new).await.expect("read when a token names it");
    verifier.verify(&by_old).await.expect("still published");
    assert_eq!(issuer.keys_read(), 2);

    // The old key is withdrawn. It is gone when max-age has passed, also for tokens in the cache.
    issuer.publish(&[&new]);
    clock.advance(Duration::from_secs(299));
    verifier.verify(&by_old).await.expect("the set is fresh for 300 s");
    assert_eq!(issuer.keys_read(), 2);
    clock.advance(Duration::from_secs(1));
    verifier.verify(&by_old).await.expect("does not wait for the refresh");
    keys_read(&issuer, 3).await;
    while verifier.verify(&by_old).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let problem = verifier.verify(&by_old).await.expect_err("withdrawn");
    assert!(problem.detail.contains("does not publish"), "{}", problem.detail);
    verifier.verify(&by_new).await.expect("published");
}

#[tokio::test]
async fn keys_that_were_read_while_the_clock_was_ahead_do_not_stay_for_years() {
    let (old, new) = (Signer::ec("old"), Signer::ec("new"));
    let issuer = TestIssuer::start(&[&old]).await;
    let (clock, years) = (TestClock::new(), Duration::from_secs(10 * 365 * 86_400));
    let verifier = Issuer::discover(&issuer.url, clock.accept()).expect("an issuer");
    clock.advance(years);
    verifier.ready().await.expect("keys");
    clock.set_back(years);
    issuer.publish(&[&new]);
    let by_old = old.sign(&issuer.claims());
    while verifier.verify(&by_old).await.is_ok() {
        tokio::task::yield_now().await;
    }
    verifier.verify(&new.sign(&issuer.claims())).await.expect("published");
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_leaves_its_keys_in_use() {
    let (signer, later) = (Signer::ec("k"), Signer::ec("later"));
    let issuer = TestIssuer::start(&[&signer]).await;
    let clock = TestClock::new();
    let verifier = Issuer::discover(&issuer.url, clock.accept()).expect("an issuer");
    verifier.verify(&signer.sign(&issuer.claims())).await.expect("valid");

    issuer.set_down(true);
    let mut claims = issuer.claims();
    let mut number = 0;
    for hour in 1_i64..5 {
        clock.advance(Duration::from_secs(3600));
        claims["exp"] = json!(START + hour * 3600 + 60);
        // Until a request has found that the attempt before has ended, and begins the next one.
        while issuer.keys_read() <= hour as u64 {
            (claims["jti"], number) = (json!(number), number + 1);
            verifier.verify(&signer.sign(&claims)).await.expect("the keys are in use");
            tokio::task::yield_now().await;
        }
    }
    clock.advance(MINUTE);
    claims["exp"] = json!(START + 4 * 3600 + 300);
    assert_eq!(verifier.verify(&later.sign(&claims)).await.expect_err("unknown").status.as_u16(), 401);

    issuer.set_down(false);
    issuer.publish(&[&signer, &later]);
    clock.advance(MINUTE);
    verifier.verify(&later.sign(&claims)).await.expect("read again");
}

#[tokio::test]
async fn a_new_key_is_put_off_while_invented_tokens_use_up_the_attempts() {
    let (known, next, stranger) = (Signer::ec("known"), Signer::ec("next"), Signer::ec("stranger"));
    let issuer = TestIssuer::start(&[&known]).await;
    let clock = TestClock::new();
    let verifier = Issuer::discover(&issuer.url, clock.accept()).expect("an issuer");
    verifier.verify(&known.sign(&issuer.claims())).await.expect("valid");
    clock.advance(MINUTE);
    let invented = stranger.sign(&issuer.claims());
    assert_eq!(verifier.verify(&invented).await.expect_err("just looked").status.as_u16(), 401);
    // The issuer changes its key within the minute.
    issuer.publish(&[&next]);
    clock.advance(Duration::from_secs(20));
    let mut claims = claims_until(&issuer, 600);
    claims["iat"] = json!(START + 70);
    let problem = verifier.verify(&next.sign(&claims)).await.expect_err("put off");
    assert_eq!((problem.status.as_u16(), problem.retry_after), (503, Some(Duration::from_secs(40))));
    assert_eq!(verifier.verify(&invented).await.expect_err("an old one").status.as_u16(), 401);
    clock.advance(Duration::from_secs(40));
    verifier.verify(&next.sign(&claims)).await.expect("read again");
}

#[tokio::test]
async fn a_set_without_a_usable_key_does_not_replace_the_keys() {
    let signer = Signer::ec("k");
    let issuer = TestIssuer::start(&[&signer]).await;
    let clock = TestClock::new();
    let verifier = Issuer::discover(&issuer.url, clock.accept()).expect("an issuer");
    verifier.verify(&signer.sign(&issuer.claims())).await.expect("valid");
    let mut for_encryption = Signer::ec("e").jwk();
    for_encryption["use"] = json!("enc");
    let mut short = Signer::rsa("short").jwk();
    short["n"] = json!(super::encode([255; 128]));
    let many = vec![signer.jwk(); 65];
    for keys in [
        json!("x"),
        json!({ "keys": [] }),
        json!({ "keys": [for_encryption, short, { "kty": "oct", "kid": "s", "k": "AAAA" }] }),
        json!({ "keys": many }),
        json!({ "keys": ["x".repeat(300 * 1024)] }),
    ] {
        issuer.set_keys(keys);
        clock.advance(MINUTE);
        let unknown = json!({ "typ": "at+jwt", "alg": "ES256", "kid": "unknown" }).to_string();
        let token = signer.sign_text(&unknown, &issuer.claims().to_string());
        let before = issuer.keys_read();
        verifier.verify(&token).await.expect_err("unknown");
        assert_eq!(issuer.keys_read(), before + 1);
        verifier.verify(&signer.sign(&claims_until(&issuer, 3600))).await.expect("the keys are in use");
    }
}

fn claims_until(issuer: &TestIssuer, seconds: i64) -> serde_json::Value {
    let mut claims = issuer.claims();
    claims["exp"] = json!(START + seconds);
    claims
}

#[tokio::test]
async fn without_keys_tokens_are_not_refused_but_put_off() {
    let signer = Signer::ec("k");
    let issuer = TestIssuer::start(&[&signer]).await;
    issuer.set_down(true);
    let clock = TestClock::new();
    let verifier = Issuer::discover(&issuer.url, clock.accept()).expect("an issuer");
    let token = signer.sign(&issuer.claims());
    for _ in 0..10 {
        let problem = verifier.verify(&token).await.expect_err("no keys");
        assert_eq!(problem.status.as_u16(), 503);
        assert!(problem.retry_after.is_some());
    }
    assert_eq!(issuer.keys_read(), 1, "no request for each token");
    assert_eq!(verifier.ready().await.expect_err("no keys").status.as_u16(), 503);
    issuer.set_down(false);
    clock.advance(Duration::from_secs(2));
    verifier.ready().await.expect("ready");
    verifier.verify(&token).await.expect("valid");
}

#[tokio::test]
async fn the_document_must_name_the_issuer_and_a_safe_address() {
    let signer = Signer::ec("k");
    let issuer = TestIssuer::start(&[&signer]).await;
    let keys = format!("{}/keys", issuer.url);
    for document in [
        json!({}),
        json!([]),
        json!({ "issuer": issuer.url }),
        json!({ "issuer": format!("{}/", issuer.url), "jwks_uri": keys }),
        json!({ "issuer": "https://other.example.com", "jwks_uri": keys }),
        json!({ "issuer": issuer.url, "jwks_uri": "http://10.0.0.1/keys" }),
        json!({ "issuer": issuer.url, "jwks_uri": "file:///etc/passwd" }),
        json!({ "issuer": issuer.url, "jwks_uri": keys, "padding": "x".repeat(100_000) }),
    ] {
        issuer.set_discovery(document.clone());
        let verifier = Issuer::discover(&issuer.url, TestClock::new().accept()).expect("an issuer");
        verifier.ready().await.expect_err(&document.to_string()[..2]);
        assert_eq!(issuer.keys_read(), 0, "{document:.300}");
    }
    let direct = Issuer::with_keys_at(&issuer.url, &keys, TestClock::new().accept()).expect("an issuer");
    direct.verify(&signer.sign(&issuer.claims())).await.expect("needs no document");
}

#[test]
fn an_issuer_elsewhere_needs_https() {
    let accept = || Accept::audience("api");
    for bad in ["http://id.example.com", "id.example.com", "", "ftp://id.example.com"] {
        Issuer::discover(bad, accept()).err().expect(bad);
    }
    Issuer::discover("https://id.example.com/tenant/", accept()).expect("an issuer with a path");
    Issuer::with_keys_at("https://id.example.com", "http://id.example.com/keys", accept())
        .err()
        .expect("http");
    Issuer::discover("https://id.example.com", accept().authorities("no certificate")).err().expect("no PEM");
}
