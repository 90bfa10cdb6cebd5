//! Several instances on one database, without sticky sessions. Where one process owns the database there is one
//! instance, and the same must hold.

use crate::device::{ada, allow, codes, error, poll, polling, refusal, signed_in};
use crate::support::{Admin, Ask, CALLBACK, VERIFIER, code, text, until_both_keys_sign};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::clients::DEVICE_GRANT;
use identity::{keys, organizations, sessions};
use server::testing::{Answer, Kind, TestServer, at_once, kind};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use store::{Sql, args, sql};

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

/// Whether a transaction waits for a lock; on MySQL it may be one of another database.
async fn somebody_waits_for_a_lock(server: &TestServer) -> bool {
    static ON_POSTGRES: Sql = sql("SELECT 'waiting', COUNT(*)::TEXT FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'");
    static ON_MYSQL: Sql = sql("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'");
    let count = if kind() == Kind::Postgres { &ON_POSTGRES } else { &ON_MYSQL };
    let read = server.app.store.read(|snapshot| snapshot.one(count, args![], |row| row.get::<String>(1)));
    let count = read.await.map_err(|error: store::Error| error).expect("reads");
    count.expect("a number") != "0"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_just_redeeming_gets_no_session_past_the_end_of_all() {
    let instances = instances().await;
    if instances.len() == 1 {
        // One writer: nothing happens in the middle of something else.
        return stop(instances).await;
    }
    let codes = codes(at(&instances, 0)).await;
    allow(&mut signed_in(at(&instances, 0), "ada@acme.test").await, &codes).await;
    let (ended, mut have_ended) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let app = at(&instances, 0).app.clone();
    let ending = tokio::spawn(async move {
        let actor = app.system();
        let end = app.store.write("test.end_sessions", move |tx| {
            let acme = organizations::find(tx.snapshot(), "acme")?;
            let user = ada(tx, &acme)?;
            let count = sessions::end_all_for(tx, &user, &actor)?;
            // The test may have failed meanwhile; then nobody listens or holds it back.
            let _ = (ended.send(()), released.recv());
            Ok::<_, identity::Error>(count)
        });
        end.await
    });
    have_ended.recv().await.expect("not yet committed");
    let (device_code, client) = (codes.text("device_code"), at(&instances, 1).client("cli").to_owned());
    let redeeming = polling(at(&instances, 1), &device_code, &client).spawn();
    while !redeeming.is_finished() && !somebody_waits_for_a_lock(at(&instances, 2)).await {
        tokio::task::yield_now().await;
    }
    drop(release);
    ending.await.expect("runs").expect("ends");
    let answer = redeeming.await.expect("an answer");
    assert_eq!(refusal(&answer), error(400, "invalid_grant"), "{answer:?}");
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_is_the_newest_one_on_the_pages_of_every_instance() {
    let instances = instances().await;
    let owner = Admin::sign_in(at(&instances, 0), "admin@acme.test", "org:acme").await;
    let mut before = String::new();
    for contact in ["Ada in room 12", "Grace in room 13", ""] {
        let body = serde_json::json!({ "contact": contact });
        owner.change("PUT", "/api/organizations/acme/branding", body).await;
        for (number, instance) in instances.iter().enumerate() {
            let began = Instant::now();
            loop {
                let page = instance.get("/o/acme/login").send().await.body;
                if page.contains(contact) && (before.is_empty() || !page.contains(&before)) {
                    break;
                }
                assert!(number > 0, "the instance that has acknowledged it shows it at once: {page}");
                assert!(began.elapsed() < Duration::from_secs(5), "{contact:?} at instance {number}: {page}");
                tokio::task::yield_now().await;
            }
        }
        contact.clone_into(&mut before);
    }
    stop(instances).await;
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
async fn a_hundred_redemptions_of_an_authorization_code_have_one_winner() {
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
    assert_eq!(won.len(), 1, "{won:?}");
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

/// The keys that an instance publishes.
async fn published(server: &TestServer) -> BTreeSet<String> {
    let jwks = server.get("/.well-known/jwks.json").send().await.json();
    jwks["keys"].as_array().into_iter().flatten().map(|key| text(key, "kid").to_owned()).collect()
}

/// What all instances publish, once they agree.
async fn published_by_all(instances: &[TestServer]) -> BTreeSet<String> {
    let began = Instant::now();
    loop {
        let all = at_once(instances.iter().map(published)).await;
        let different: BTreeSet<_> = all.iter().collect();
        match different.first() {
            Some(keys) if different.len() == 1 => return (*keys).clone(),
            _ => assert!(began.elapsed() < Duration::from_secs(5), "they do not agree: {all:?}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Every instance does at once what is due of the housekeeping; which steps were done.
async fn tidy(instances: &[TestServer]) -> Vec<&'static str> {
    let turns = at_once(instances.iter().map(TestServer::tidy_if_due)).await;
    turns.into_iter().flat_map(|turn| turn.expect("no error")).collect()
}

/// The access token of a device, signed by one instance, and the key's name in it.
async fn signed_by(instances: &[TestServer], number: usize) -> (Answer, String) {
    let codes = codes(at(instances, 0)).await;
    let mut ada = signed_in(at(instances, 0), "ada@acme.test").await;
    ada.decide(&codes.text("user_code"), "allow").await;
    let tokens = poll(at(instances, number), &codes).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let token = tokens.text("access_token");
    let head = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap_or_default()).expect("base64");
    let head: serde_json::Value = serde_json::from_slice(&head).expect("JSON");
    (tokens, text(&head, "kid").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn housekeeping_and_the_change_of_keys_are_the_work_of_one() {
    let instances = instances().await;
    for instance in &instances {
        until_both_keys_sign(instance).await;
    }
    let first_keys = published_by_all(&instances).await;
    let forgotten = codes(at(&instances, 1)).await;
    instances[0].clock.advance(keys::ROTATE_AFTER);
    for instance in &instances {
        assert_eq!(refusal(&poll(instance, &forgotten).await), error(400, "expired_token"));
    }

    // All steps are due, and both keys.
    let done = tidy(&instances).await;
    let steps: BTreeSet<&str> = done.iter().copied().collect();
    assert!(steps.contains("keys.es256") && steps.contains("codes.tidy"), "{steps:?}");
    assert_eq!(done.len(), steps.len(), "each by one of {}: {done:?}", instances.len());
    let keys = published_by_all(&instances).await;
    assert!(keys.is_superset(&first_keys) && keys.len() == 4, "one more of each kind: {keys:?}");
    for instance in &instances {
        assert_eq!(refusal(&poll(instance, &forgotten).await), error(400, "invalid_grant"), "deleted");
    }
    assert_eq!(tidy(&instances).await, [""; 0], "no time has passed");
    let (early, old) = signed_by(&instances, 1).await;
    assert!(first_keys.contains(&old), "the new key does not sign yet");

    // The next turn may be another instance's, which makes no second key.
    instances[0].clock.advance(keys::PUBLISH_AHEAD);
    let again = at(&instances, 1).tidy_if_due().await.expect("no error");
    assert_eq!(again.into_iter().collect::<BTreeSet<_>>(), steps);
    assert_eq!(tidy(&instances).await, [""; 0]);
    assert_eq!(published_by_all(&instances).await, keys);
    let mut signers = BTreeSet::new();
    for number in 0..instances.len() {
        let (tokens, key) = signed_by(&instances, number).await;
        signers.insert(key);
        for instance in &instances {
            assert_eq!(reads(instance, &tokens).await, 200, "every instance knows the new key");
        }
    }
    assert_eq!(signers.len(), 1, "all sign with the same key: {signers:?}");
    assert!(!first_keys.is_superset(&signers) && keys.is_superset(&signers), "the new one: {signers:?}");
    assert_eq!(reads(at(&instances, 1), &early).await, 401, "an hour is longer than a token lives");
    stop(instances).await;
}
