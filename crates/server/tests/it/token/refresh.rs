//! Refresh tokens: used once, with one successor, and no longer than what they came from.

use super::{presenting, reads, refresh, refreshing, spa_code, token};
use crate::device::{
    ada_on_a_device, end_sessions_of_ada, error, in_acme, refusal, sign_out, signed_in, suspend_acme,
    suspend_ada,
};
use crate::support::{Admin, Ask, claims, text, tokens_of};
use serde_json::{Value, json};
use server::testing::{Answer, TestServer, at_once};
use std::collections::BTreeSet;
use std::time::Duration;

const LATE: Duration = Duration::from_secs(120);

/// The rows of an action in the audit trail.
async fn trail(admin: &Admin<'_>, action: &str) -> Vec<Value> {
    let listed = admin.read("/api/organizations/acme/audit?limit=200").await;
    let rows = listed["items"].as_array().expect("rows");
    rows.iter().filter(|row| row["action"] == action).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_that_comes_back_too_late_ends_its_family() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await;
    let second = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(second.status, 200, "{second:?}");
    assert_ne!(first.text("refresh_token"), second.text("refresh_token"));

    server.clock.advance(LATE + Duration::from_millis(1));
    let stolen = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(refusal(&stolen), error(400, "invalid_grant"));
    for tokens in [&first, &second] {
        assert_eq!(reads(&server, tokens).await, 401);
        assert_eq!(
            refusal(&refresh(&server, &tokens.text("refresh_token")).await),
            error(400, "invalid_grant")
        );
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_lost_comes_again_for_ten_seconds_and_once_more_within_two_minutes() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let first = ada_on_a_device(&server).await;
    let second = refresh(&server, &first.text("refresh_token")).await.text("refresh_token");
    server.clock.advance(Duration::from_secs(10));
    for _ in 0..3 {
        let again = refresh(&server, &first.text("refresh_token")).await;
        assert_eq!(again.text("refresh_token"), second, "the same again");
    }
    assert_eq!(trail(&admin, "grant.refresh_token_repeated").await, [Value::Null; 0], "nothing of note");

    server.clock.advance(LATE - Duration::from_secs(10));
    // A wrong parameter does not cost the late repeat.
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*first.text("refresh_token")),
        ("client_id", server.client("cli")),
        ("scope", "offline_access"),
    ];
    assert_eq!(refusal(&token(&server, &fields).send().await), error(400, "invalid_scope"));
    let late = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!((late.status, late.text("refresh_token")), (200, second.clone()), "{late:?}");
    assert_eq!(reads(&server, &late).await, 200);
    let rows = trail(&admin, "grant.refresh_token_repeated").await;
    let [row] = &rows[..] else { panic!("one row: {rows:?}") };
    assert_eq!((&row["actor"], &row["address"]), (&json!("unknown"), &json!("127.0.0.1")));
    assert_eq!(row["target_name"], json!("ada@acme.test"));
    assert!(text(row, "details").starts_with(&format!("{} grant_", server.client("cli"))), "{row}");

    let stolen = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(refusal(&stolen), error(400, "invalid_grant"), "once more, and not twice");
    assert_eq!(
        refusal(&refresh(&server, &second).await),
        error(400, "invalid_grant"),
        "the family has ended"
    );
    assert_eq!(reads(&server, &late).await, 401);
    assert_eq!(trail(&admin, "grant.refresh_token_reused").await.len(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_rotations_in_time_come_between_two_late_repeats() {
    let server = TestServer::start().await;
    // After a late repeat, so many rotations in time; then an answer is lost again.
    for (rotations, expected) in [(0, 400), (1, 400), (2, 200), (3, 200)] {
        let mut current = ada_on_a_device(&server).await.text("refresh_token");
        let lost = refresh(&server, &current).await;
        server.clock.advance(Duration::from_secs(60));
        let late = refresh(&server, &current).await;
        assert_eq!(late.text("refresh_token"), lost.text("refresh_token"), "{rotations}");
        current = late.text("refresh_token");
        for _ in 0..rotations {
            let next = refresh(&server, &current).await;
            // Repeats in time are no late ones.
            assert_eq!(refresh(&server, &current).await.text("refresh_token"), next.text("refresh_token"));
            current = next.text("refresh_token");
        }
        let lost = refresh(&server, &current).await;
        server.clock.advance(Duration::from_secs(60));
        let again = refresh(&server, &current).await;
        assert_eq!(again.status, expected, "{rotations} rotations: {again:?}");
        let next = refresh(&server, &lost.text("refresh_token")).await;
        assert_eq!(next.status, expected, "the family, after {rotations} rotations: {next:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_repeat_ends_the_family_once_the_successor_was_used() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await.text("refresh_token");
    let second = refresh(&server, &first).await.text("refresh_token");
    let third = refresh(&server, &second).await.text("refresh_token");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(refusal(&refresh(&server, &first).await), error(400, "invalid_grant"));
    assert_eq!(refusal(&refresh(&server, &third).await), error(400, "invalid_grant"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_late_repeats_at_once_one_wins() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await.text("refresh_token");
    refresh(&server, &first).await;
    server.clock.advance(Duration::from_secs(60));
    let answers = at_once((0..20).map(|_| refresh(&server, &first))).await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(served <= 1, "{answers:?}");
    let refused = answers.iter().filter(|answer| answer.error() == error(400, "invalid_grant")).count();
    assert_eq!(served + refused, 20, "{answers:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_whose_successor_was_used_ends_its_family() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await;
    let second = refresh(&server, &first.text("refresh_token")).await;
    let third = refresh(&server, &second.text("refresh_token")).await;
    assert_eq!(third.status, 200, "{third:?}");
    let stolen = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(refusal(&stolen), error(400, "invalid_grant"), "within ten seconds all the same");
    assert_eq!(reads(&server, &third).await, 401);
    assert_eq!(refusal(&refresh(&server, &third.text("refresh_token")).await), error(400, "invalid_grant"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_refreshes_at_once_give_one_successor() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await.text("refresh_token");
    let answers = at_once((0..100).map(|_| refresh(&server, &first))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let successors: BTreeSet<String> = answers.iter().map(|answer| answer.text("refresh_token")).collect();
    assert_eq!(successors.len(), 1, "{successors:?}");
    let next = refresh(&server, successors.first().expect("one")).await;
    assert_eq!((next.status, reads(&server, &next).await), (200, 200));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_token_a_replayed_code_and_a_consent_are_in_the_audit_trail() {
    let server = TestServer::start().await;
    server.clock.advance(Duration::from_secs(1));
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let id = claims(&tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token"));
    let spa = server.client("spa");

    // Twice each: only the first time revokes anything.
    let code = spa_code(&mut ada, &server).await;
    for expected in [200, 400, 400] {
        assert_eq!(token(&server, &presenting(&server, &code)).send().await.status, expected);
    }
    let code = spa_code(&mut ada, &server).await;
    let first = token(&server, &presenting(&server, &code)).send().await;
    let next = refreshing(&server, "spa", &first.text("refresh_token")).send().await;
    assert_eq!(refreshing(&server, "spa", &next.text("refresh_token")).send().await.status, 200);
    for _ in 0..2 {
        let reused = refreshing(&server, "spa", &first.text("refresh_token")).send().await;
        assert_eq!(refusal(&reused), error(400, "invalid_grant"));
    }
    let asked = ada.get(&Ask::of(&server, "spa").with("prompt", "consent").path()).await;
    let (csrf, next, session) = (asked.input("csrf"), asked.input("next"), asked.input("session"));
    let fields = [("csrf", &*csrf), ("next", &next), ("session", &session), ("decision", "allow")];
    assert_eq!(ada.post("/consent", &fields).await.status, 303);

    let trail = admin.read("/api/organizations/acme/audit").await;
    let rows: Vec<&Value> = trail["items"].as_array().expect("rows").iter().collect();
    let of = |action: &str| -> Vec<&Value> {
        rows.iter().copied().filter(|row| row["action"] == action).collect()
    };
    for action in ["grant.code_replayed", "grant.refresh_token_reused"] {
        let [row] = of(action)[..] else { panic!("one {action} in {trail}") };
        assert_eq!((&row["target"], &row["target_name"]), (&id["sub"], &json!("ada@acme.test")));
        assert_eq!((&row["actor"], &row["address"]), (&json!("unknown"), &json!("127.0.0.1")));
        let details = text(row, "details");
        assert!(details.starts_with(&format!("{spa} grant_")), "the client and the grant: {details}");
    }
    let [consent] = of("consent.given")[..] else { panic!("one consent in {trail}") };
    assert_eq!((&consent["actor"], &consent["target"]), (&id["sub"], &json!(spa)));
    assert_eq!(
        (&consent["details"], &consent["address"]),
        (&json!("openid profile email"), &json!("127.0.0.1"))
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_does_not_cost_the_refresh_token() {
    let server = TestServer::start().await;
    let tokens = ada_on_a_device(&server).await;
    let refresh_token = tokens.text("refresh_token");
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*refresh_token)];
    let with_scope = |scope| {
        token(&server, &[fields[0], fields[1], ("client_id", server.client("cli")), ("scope", scope)])
    };
    for wider in ["openid", "profile email offline_access", "platform", "fly"] {
        assert_eq!(refusal(&with_scope(wider).send().await), error(400, "invalid_scope"), "{wider}");
    }
    let foreign = refreshing(&server, "spa", &refresh_token).send().await;
    assert_eq!(refusal(&foreign), error(400, "invalid_grant"));
    for garbage in ["x", "x.y", &refresh_token[..refresh_token.len() - 1], &format!("{refresh_token}x")] {
        assert_eq!(refusal(&refresh(&server, garbage).await), error(400, "invalid_grant"), "{garbage}");
    }
    server.clock.advance(Duration::from_secs(60));
    let narrow = with_scope("email").send().await;
    assert_eq!((narrow.status, narrow.text("scope")), (200, "email".to_owned()), "{narrow:?}");
    let whole = refresh(&server, &narrow.text("refresh_token")).await;
    assert_eq!(whole.text("scope"), "profile email", "the grant itself is as wide as before");
    let blank = token(
        &server,
        &[
            fields[0],
            ("refresh_token", &whole.text("refresh_token")),
            ("client_id", server.client("cli")),
            ("scope", " "),
        ],
    );
    assert_eq!(blank.send().await.text("scope"), "profile email", "a scope without a word is none");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_ends_with_its_time_its_session_its_user_and_its_organization() {
    let server = TestServer::start().await;
    let refused = async |client: &str, tokens: &Answer| {
        assert_eq!(reads(&server, tokens).await, 401);
        let answer = refreshing(&server, client, &tokens.text("refresh_token")).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_grant"));
    };
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = spa_code(&mut ada, &server).await;
    let signed_out = token(&server, &presenting(&server, &code)).send().await;
    assert_eq!(reads(&server, &signed_out).await, 200);
    sign_out(&mut ada).await;
    refused("spa", &signed_out).await;

    let ended = ada_on_a_device(&server).await;
    end_sessions_of_ada(&server).await;
    refused("cli", &ended).await;

    let old = ada_on_a_device(&server).await;
    server.clock.advance(Duration::from_secs(30 * 24 * 3600));
    refused("cli", &old).await;

    let stopped = ada_on_a_device(&server).await;
    suspend_acme(&server).await;
    refused("cli", &stopped).await;
    in_acme(&server, |tx, acme, actor| {
        identity::organization_decisions::activate(tx, acme, actor).map(|_| ())
    })
    .await;
    assert_eq!(reads(&server, &stopped).await, 200, "it goes on with its organization");

    suspend_ada(&server).await;
    refused("cli", &stopped).await;
    server.stop().await;
}
