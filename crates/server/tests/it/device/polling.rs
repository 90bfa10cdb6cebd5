//! Polling: how often, how long a poll is held, what each end of a code answers, and who of many redeems.

use super::{ada_allows, allow, codes, error, poll, poll_as, polling, refusal, signed_in};
use identity::clients::DEVICE_GRANT;
use server::testing::{Answer, Request, Rows, TestServer, at_once};
use std::time::{Duration, Instant};

/// A poll that asks to be held for ten seconds.
fn held<'s>(server: &'s TestServer, codes: &Answer) -> Request<'s> {
    polling(server, &codes.text("device_code"), server.client("cli")).header("prefer", "wait=10")
}

/// Waits until so many polls are held.
async fn until_held(server: &TestServer, count: usize) {
    let wanted = format!("sarsen_held_polls {count}\n");
    let waiting = async {
        while !server.get("/metrics").send().await.body.contains(&wanted) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the polls are held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_reaches_a_held_poll_at_once() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    for (decision, status) in [("allow", 200), ("deny", 400)] {
        let codes = codes(&server).await;
        let held = held(&server, &codes).spawn();
        until_held(&server, 1).await;
        ada.decide(&codes.text("user_code"), decision).await;
        let decided_at = Instant::now();
        let answer = held.await.expect("an answer");
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("preference-applied"), "wait=10");
        assert!(decided_at.elapsed() < Duration::from_secs(2));
        if decision == "deny" {
            assert_eq!(refusal(&answer), error(400, "access_denied"));
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hurries_is_told_to_slow_down_until_one_interval_is_kept() {
    let server = TestServer::start_with(|settings| settings.hold_max = Duration::ZERO, |_| {}).await;
    let codes = codes(&server).await;
    // Seconds since the poll before, and the answer. A second of tolerance; half of the interval is asked for.
    let story = [
        (0.0, "authorization_pending"),  // the first
        (1.4, "slow_down"),              // of 5 s; now 10
        (3.9, "slow_down"),              // now 15
        (6.4, "slow_down"),              // now 20
        (9.0, "authorization_pending"),  // half of 20, with the tolerance; but the interval was not kept
        (8.9, "slow_down"),              // so it still counts; now 25
        (24.0, "authorization_pending"), // kept: forgiven
        (1.5, "authorization_pending"),  // half of 5, with the tolerance
        (1.4, "slow_down"),
    ];
    for (index, (gap, expected)) in story.into_iter().enumerate() {
        server.clock.advance(Duration::from_secs_f64(gap));
        assert_eq!(refusal(&poll(&server, &codes).await), error(400, expected), "poll {index}");
    }

    ada_allows(&server, &codes).await;
    assert_eq!(poll(&server, &codes).await.status, 200, "a decided code is answered however early");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_steady_poller_with_jitter_is_never_told_to_slow_down() {
    let server = TestServer::start_with(|settings| settings.hold_max = Duration::ZERO, |_| {}).await;
    let codes = codes(&server).await;
    for index in 0..120 {
        let answer = poll(&server, &codes).await;
        assert_eq!(refusal(&answer), error(400, "authorization_pending"), "poll {index}");
        let jitter = [0.4, -0.6, 0.0, 0.9, -0.9, -0.2][index % 6];
        server.clock.advance(Duration::from_secs_f64(5.0 + jitter));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_code_has_its_own_error() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let (denied, redeemed, allowed) = (codes(&server).await, codes(&server).await, codes(&server).await);
    ada.decide(&denied.text("user_code"), "deny").await;
    allow(&mut ada, &redeemed).await;
    allow(&mut ada, &allowed).await;
    assert_eq!(poll(&server, &redeemed).await.status, 200);
    let waiting = codes(&server).await;

    let machine = (server.client("machine"), server.secret("machine"));
    let code = waiting.text("device_code");
    let machine = [("client_id", machine.0), ("client_secret", machine.1)];
    let fields: Vec<_> =
        [("grant_type", DEVICE_GRANT), ("device_code", &*code)].into_iter().chain(machine).collect();
    let without_the_grant = server.post("/auth/token", &fields).send().await;
    assert_eq!(refusal(&without_the_grant), error(400, "unauthorized_client"));
    assert_eq!(refusal(&poll_as(&server, &waiting, "nobody").await), error(401, "invalid_client"));
    assert_eq!(refusal(&poll_as(&server, &waiting, "cli").await), error(400, "invalid_grant"), "foreign");
    assert_eq!(refusal(&poll(&server, &denied).await), error(400, "access_denied"));
    assert_eq!(refusal(&poll(&server, &denied).await), error(400, "access_denied"), "and again");
    assert_eq!(refusal(&poll(&server, &redeemed).await), error(400, "invalid_grant"));

    let (id, secret) = code.split_once('.').expect("two halves");
    let other = id.replace(&id[id.len() - 1..], if id.ends_with('0') { "1" } else { "0" });
    let unknown = [
        "x".to_owned(),
        ".".to_owned(),
        format!("{id}."),
        format!("{id}.{secret}x"),
        format!("{id}.{}", &secret[1..]),
        format!("{other}.{secret}"),
        format!("{id}.{}", "x".repeat(4000)),
        waiting.text("user_code"),
    ];
    let mut rows = Rows::new();
    for code in unknown {
        let row = async {
            let answer = polling(&server, &code, server.client("cli")).send().await;
            assert_eq!(refusal(&answer), error(400, "invalid_grant"), "{code}");
        };
        rows.row(format!("{code:.80}"), row).await;
    }
    let nothing = server.post("/auth/token", &fields[..1]).send().await;
    assert_eq!(refusal(&nothing), error(401, "invalid_client"));
    let no_code = [("grant_type", DEVICE_GRANT), ("client_id", server.client("cli"))];
    assert_eq!(refusal(&server.post("/auth/token", &no_code).send().await), error(400, "invalid_request"));

    server.clock.advance(Duration::from_secs(900));
    assert_eq!(refusal(&poll(&server, &waiting).await), error(400, "expired_token"));
    assert_eq!(refusal(&poll(&server, &allowed).await), error(400, "expired_token"), "allowed, but too late");
    assert_eq!(refusal(&poll(&server, &redeemed).await), error(400, "invalid_grant"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_who_redeem_one_wins() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    for pollers in [2, 100] {
        let codes = codes(&server).await;
        allow(&mut ada, &codes).await;
        let answers = at_once((0..pollers).map(|_| poll(&server, &codes))).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!(won.len(), 1);
        assert!(lost.iter().all(|answer| refusal(answer) == error(400, "invalid_grant")), "{lost:?}");
        let api = server.get("/api/subscription").bearer(&won[0].text("access_token")).send().await;
        assert_eq!(api.status, 200, "{api:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_poll_releases_the_older_one_and_redeems() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    let older = held(&server, &codes).spawn();
    until_held(&server, 1).await;
    server.clock.advance(Duration::from_secs(5));
    let newer = held(&server, &codes).spawn();
    let released_at = Instant::now();
    assert_eq!(refusal(&older.await.expect("an answer")), error(400, "authorization_pending"));
    assert!(released_at.elapsed() < Duration::from_secs(2));
    until_held(&server, 1).await;
    allow(&mut ada, &codes).await;
    assert_eq!(newer.await.expect("an answer").status, 200);
    until_held(&server, 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_polls_held_for_one_address_are_bounded() {
    let server = TestServer::start().await;
    let all = at_once((0..200).map(|_| codes(&server))).await;
    let holding: Vec<_> = all.iter().map(|codes| held(&server, codes).spawn()).collect();
    until_held(&server, 200).await;
    let codes = codes(&server).await;
    let asked_at = Instant::now();
    assert_eq!(refusal(&held(&server, &codes).send().await), error(400, "authorization_pending"));
    assert!(asked_at.elapsed() < Duration::from_secs(5), "one more is answered at once");
    server.clock.advance(Duration::from_secs(5));
    let elsewhere = held(&server, &codes).header("x-forwarded-for", "203.0.113.9").spawn();
    until_held(&server, 201).await;
    server.stop().await;
    for answer in holding.into_iter().chain([elsewhere]) {
        assert_eq!(refusal(&answer.await.expect("an answer")), error(400, "authorization_pending"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_poll_is_answered_when_the_server_stops() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    let held = held(&server, &codes).spawn();
    until_held(&server, 1).await;
    let stopped_at = Instant::now();
    server.stop().await;
    assert_eq!(refusal(&held.await.expect("an answer")), error(400, "authorization_pending"));
    assert!(stopped_at.elapsed() < Duration::from_secs(5));
}
