//! Who does not have the secret changes nothing, and learns nothing.

use super::*;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn without_the_secret_everything_is_refused_alike() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let without = owner.make(BILLING, json!({ "name": "No secret" })).await;
    let other = Stripe { secret: "whsec_another_secret".to_owned(), ..Stripe::connect(&owner).await };
    let deleted = Stripe::connect(&owner).await;
    owner.change("DELETE", &format!("{BILLING}/{}", deleted.connection), Value::Null).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;

    let now = stripe.now();
    let object = subscription("sub_1", "price_pro", "active", now + 3600);
    let body = event("evt_1", "customer.subscription.created", now, object).to_string().into_bytes();
    let good = header(SECRET, now, &body);
    let ours = stripe.connection.clone();
    let none = "billing_00000000000000000000000000".to_owned();
    let without = text(&without, "id").to_owned();
    let sent = async |connection: &str, header: Option<&str>, body: &[u8]| {
        let request = server.request("POST", &format!("/webhooks/billing/{connection}"));
        let request = request.body("application/json", body.to_vec());
        match header {
            Some(header) => request.header("stripe-signature", header).send().await,
            None => request.send().await,
        }
    };
    let refused = sent(&none, Some(&good), &body).await;
    assert_eq!((refused.status, refused.text("code").as_str()), (400, "invalid_signature"), "{refused:?}");
    let longer = [&body[..], b" "].concat();
    for (what, connection, header, body) in [
        ("no header", &ours, None, &body),
        ("an empty header", &ours, Some(String::new()), &body),
        ("another secret", &ours, Some(header("whsec_guessed_by_somebody", now, &body)), &body),
        ("an empty secret", &without, Some(header("", now, &body)), &body),
        ("a connection without a secret", &without, Some(good.clone()), &body),
        ("another connection", &other.connection, Some(header(&other.secret, now, &body)), &body),
        ("a deleted connection", &deleted.connection, Some(good.clone()), &body),
        ("another body", &ours, Some(good.clone()), &longer),
        ("an old signature", &ours, Some(header(SECRET, now - 301, &body)), &body),
        ("one of the future", &ours, Some(header(SECRET, now + 301, &body)), &body),
        ("another time", &ours, Some(good.replace(&format!("t={now}"), &format!("t={}", now + 1))), &body),
        ("no id", &"x".repeat(500), Some(good.clone()), &body),
        ("another kind of id", &"user_00000000000000000000000000".to_owned(), Some(good.clone()), &body),
    ] {
        let answer = sent(connection, header.as_deref(), body).await;
        assert_eq!((answer.status, &answer.body), (400, &refused.body), "{what}");
    }
    // Two headers: an attacker's proxy may have added one.
    let twice = stripe.signed(body.clone()).header("stripe-signature", &good).send().await;
    assert_eq!((twice.status, &twice.body), (400, &refused.body));
    // A replay: the signature is good for five minutes, and the event for once.
    assert_eq!(outcome(&sent(&ours, Some(&good), &body).await), "applied");
    assert_eq!(outcome(&sent(&ours, Some(&good), &body).await), "repeated");
    server.clock.advance(Duration::from_secs(301));
    assert_eq!(sent(&ours, Some(&good), &body).await.body, refused.body);
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    for method in ["GET", "PUT", "DELETE"] {
        let answer = server.request(method, &format!("/webhooks/billing/{ours}")).send().await;
        assert_eq!((answer.status, answer.text("code").as_str()), (405, "method_not_allowed"));
    }
    assert_eq!(server.get("/webhooks/other").send().await.text("code"), "not_found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_replaced_and_never_shown() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let old = stripe.signed(event("evt_1", "invoice.paid", stripe.now(), json!({})).to_string().into_bytes());
    assert_eq!(outcome(&old.send().await), "ignored");
    let new = "whsec_the_next_secret";
    let path = format!("{BILLING}/{}", stripe.connection);
    let changed = owner.change("PATCH", &path, json!({ "secret": new })).await;
    assert_eq!(changed.json()["has_secret"], true);
    let body = event("evt_2", "invoice.paid", stripe.now(), json!({})).to_string().into_bytes();
    // While Stripe replaces the secret it signs with both.
    let (was, is) = (header(SECRET, stripe.now(), &body), header(new, stripe.now(), &body));
    let (_, is_v1) = is.split_once(',').expect("two parts");
    for (header, status) in [(was.clone(), 400), (is.clone(), 200), (format!("{was},{is_v1}"), 200)] {
        let request = server.request("POST", &format!("/webhooks/billing/{}", stripe.connection));
        let answer =
            request.header("stripe-signature", &header).body("application/json", body.clone()).send().await;
        assert_eq!(answer.status, status, "{header}");
    }
    for path in [BILLING, &path, "/api/organizations/acme/audit"] {
        let shown = owner.read(path).await.to_string();
        assert!(!shown.contains(new) && !shown.contains(SECRET), "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_mode_or_account_change_nothing() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let body = json!({ "name": "Connect", "livemode": false, "account": "acct_1", "secret": SECRET });
    let made = owner.make(BILLING, body).await;
    let of_account = Stripe { connection: text(&made, "id").to_owned(), secret: SECRET.to_owned(), ..stripe };
    let stripe = Stripe::connect(&owner).await;
    for stripe in [&stripe, &of_account] {
        stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    }
    let object = subscription("sub_1", "price_pro", "active", stripe.now() + 3600);
    let test = event("evt_1", "customer.subscription.created", stripe.now(), object);
    let with = |id: &str, name: &str, value: Value| {
        let mut event = test.clone();
        event["id"] = json!(id);
        event[name] = value;
        event
    };
    assert_eq!(stripe.send(&with("evt_2", "livemode", json!(true))).await, "other_mode");
    assert_eq!(stripe.send(&with("evt_3", "account", json!("acct_1"))).await, "other_account");
    assert_eq!(of_account.send(&with("evt_4", "account", json!("acct_2"))).await, "other_account");
    assert_eq!(of_account.send(&test).await, "other_account");
    assert_eq!(live(&owner, "grace@acme.test").await, []);
    let events = owner.read(&stripe.path("events")).await;
    assert_eq!(events["items"].as_array().map(Vec::len), Some(2), "they are shown: {events}");
    owner.change("PUT", &of_account.path("prices/price_pro"), json!({ "plan": "pro" })).await;
    assert_eq!(of_account.send(&with("evt_5", "account", json!("acct_1"))).await, "applied");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_and_broken_bodies_are_refused() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let padded = |bytes: usize| {
        let event = event("evt_1", "invoice.paid", stripe.now(), json!({})).to_string();
        [event.as_bytes(), &b" ".repeat(bytes - event.len())].concat()
    };
    assert_eq!(outcome(&stripe.signed(padded(256 * 1024)).send().await), "ignored");
    let large = stripe.signed(padded(256 * 1024 + 1)).send().await;
    assert_eq!((large.status, large.text("code").as_str()), (413, "body_too_large"));
    let deep = |open: &str| {
        let nested = open.repeat(20_000);
        format!(r#"{{"id":"evt_1","type":"customer.subscription.created","data":{{"object":{nested}"#)
            .into_bytes()
    };
    let object = subscription("sub_1", "price_pro", "active", i64::MAX);
    let far = event("evt_1", "customer.subscription.created", stripe.now(), object);
    let object = subscription("sub_1\u{0}", "price_pro", "active", stripe.now());
    let nul = event("evt_1", "customer.subscription.created", stripe.now(), object);
    for body in [
        b"".to_vec(),
        b"null".to_vec(),
        b"\xff\xfe".to_vec(),
        deep("["),
        deep("{\"a\":"),
        far.to_string().into_bytes(),
        nul.to_string().into_bytes(),
        br#"{"id":"evt_1","type":"customer.subscription.created"}"#.to_vec(),
    ] {
        let answer = stripe.signed(body.clone()).send().await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]);
        assert_eq!(
            (answer.status, answer.text("code").as_str()),
            (400, "invalid_event"),
            "{shown}: {answer:?}"
        );
    }
    assert_eq!(owner.read(&stripe.path("subscriptions")).await["items"], json!([]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_the_database_cannot_take_is_to_be_sent_again() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let object = subscription("sub_1", "price_pro", "active", stripe.now() + 3600);
    let created = event("evt_1", "customer.subscription.created", stripe.now(), object);
    assert_eq!(stripe.send(&created).await, "unknown_customer");
    server.app.store.close();
    let answer = stripe.signed(created.to_string().into_bytes()).send().await;
    assert_eq!((answer.status, answer.text("code").as_str()), (503, "unavailable"), "{answer:?}");
    assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    server.stop().await;
}
