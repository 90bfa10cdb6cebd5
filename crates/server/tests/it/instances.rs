//! Several instances on one database, without sticky sessions. Where one process owns the database there is one
//! instance, and the same must hold.

use crate::device::{codes, error, poll, refusal, signed_in};
use crate::support::{Ask, CALLBACK, VERIFIER, code};
use identity::clients::DEVICE_GRANT;
use server::testing::{Answer, TestServer, at_once};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Three instances, or as many as the database allows.
pub async fn instances() -> Vec<TestServer> {
    let first = TestServer::start().await;
    let mut all = Vec::new();
    for _ in 0..2 {
        all.extend(first.another().await);
    }
    all.insert(0, first);
    all
}

/// The instance that the `number`th request goes to.
pub fn at(instances: &[TestServer], number: usize) -> &TestServer {
    &instances[number % instances.len()]
}

pub async fn stop(instances: Vec<TestServer>) {
    for instance in instances.into_iter().rev() {
        instance.stop().await;
    }
}

async fn reads(server: &TestServer, tokens: &Answer) -> u16 {
    server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await.status
}

/// What one instance has acknowledged is in force on the others after a moment, not at once.
async fn until_refused(server: &TestServer, tokens: &Answer) -> Duration {
    let began = Instant::now();
    while reads(server, tokens).await != 401 {
        assert!(began.elapsed() < Duration::from_secs(5), "a revoked token is still good");
        tokio::task::yield_now().await;
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_signs_in_over_three_instances() {
    let instances = instances().await;
    let codes = codes(at(&instances, 0)).await;
    let mut ada = signed_in(at(&instances, 1), "ada@acme.test").await;
    let fields = [
        ("grant_type", DEVICE_GRANT),
        ("device_code", &*codes.text("device_code")),
        ("client_id", at(&instances, 2).client("cli")),
    ];
    let held = at(&instances, 2).post("/auth/token", &fields).header("prefer", "wait=10").spawn();
    let done = ada.decide(&codes.text("user_code"), "allow").await;
    assert!(done.body.contains("signed in"), "{done:?}");
    let tokens = held.await.expect("an answer");
    assert_eq!(tokens.status, 200, "{tokens:?}");
    for instance in &instances {
        assert_eq!(reads(instance, &tokens).await, 200);
    }

    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*tokens.text("refresh_token")),
        ("client_id", at(&instances, 0).client("cli")),
    ];
    let next = at(&instances, 0).post("/auth/token", &fields).send().await;
    assert_eq!(next.status, 200, "{next:?}");
    for instance in &instances {
        assert_eq!(reads(instance, &next).await, 200);
    }
    let fields = [("token", &*next.text("refresh_token")), ("client_id", at(&instances, 1).client("cli"))];
    assert_eq!(at(&instances, 1).post("/auth/revoke", &fields).send().await.status, 200);
    assert_eq!(reads(at(&instances, 1), &next).await, 401, "at once where it was revoked");
    for instance in &instances {
        until_refused(instance, &next).await;
    }
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_redemptions_of_a_device_code_have_one_winner() {
    let instances = instances().await;
    let codes = codes(at(&instances, 0)).await;
    let mut ada = signed_in(at(&instances, 1), "ada@acme.test").await;
    ada.decide(&codes.text("user_code"), "allow").await;
    let answers = at_once((0..100).map(|number| poll(at(&instances, number), &codes))).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 1, "{won:?}");
    for answer in lost {
        assert_eq!(refusal(answer), error(400, "invalid_grant"));
    }
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_redemptions_of_an_authorization_code_have_one_winner_at_most() {
    let instances = instances().await;
    let mut ada = signed_in(at(&instances, 0), "ada@acme.test").await;
    let code = code(&mut ada, &Ask::of(at(&instances, 0), "spa").with("scope", "profile")).await;
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
        ("client_id", at(&instances, 0).client("spa")),
    ];
    let redeem = |number: usize| at(&instances, number).post("/auth/token", &fields).send();
    let answers = at_once((0..100).map(redeem)).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(won.len() <= 1, "{won:?}");
    for answer in lost {
        assert_eq!(refusal(answer), error(400, "invalid_grant"));
    }
    // A code that comes twice was stolen: what the first gave is worth nothing.
    for tokens in won {
        for instance in &instances {
            until_refused(instance, tokens).await;
        }
    }
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_refreshes_give_one_successor() {
    let instances = instances().await;
    let codes = codes(at(&instances, 0)).await;
    let mut ada = signed_in(at(&instances, 1), "ada@acme.test").await;
    ada.decide(&codes.text("user_code"), "allow").await;
    let first = poll(at(&instances, 2), &codes).await.text("refresh_token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*first),
        ("client_id", at(&instances, 0).client("cli")),
    ];
    let refresh = |number: usize| at(&instances, number).post("/auth/token", &fields).send();
    let answers = at_once((0..100).map(refresh)).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let successors: BTreeSet<String> = answers.iter().map(|answer| answer.text("refresh_token")).collect();
    assert_eq!(successors.len(), 1, "one family");
    stop(instances).await;
}
