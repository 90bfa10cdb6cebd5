//! Events change plans: once, in any order, at once.

use super::*;
use server::testing::at_once;
use std::time::Duration;

const DAY: i64 = 24 * 3600;

#[tokio::test(flavor = "multi_thread")]
async fn an_event_changes_the_plan_once_and_the_product_shows_it_on_the_next_load() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let token = tokens(&server, "grace@acme.test", "openid").await.text("access_token");
    let plan = async || server.get("/api/subscription").bearer(&token).send().await.json();
    let mut product = server.browser();
    assert_eq!(product.sign_in("acme", "grace@acme.test").await.status, 303);
    let mut address = "/demo/sketch/login".to_owned();
    let mut steps = 0;
    while address != "/demo/sketch" {
        steps += 1;
        assert!(steps < 10, "{address}");
        let answer = product.get(&address).await;
        assert_eq!(answer.status, 303, "{address}: {answer:?}");
        let location = answer.header("location");
        address = location.strip_prefix(ISSUER).unwrap_or(location).to_owned();
    }
    let shown = async |product: &mut server::testing::TestBrowser<'_>, plan: &str| {
        let page = product.get("/demo/sketch").await;
        assert!(
            page.body.contains("Grace") && page.body.contains(&format!(">{plan}</span>")),
            "{}",
            page.body
        );
    };
    assert_eq!(plan().await["plan"], "free");
    shown(&mut product, "free").await;

    let (now, end) = (stripe.now(), stripe.now() + 30 * DAY);
    let created = event(
        "evt_1",
        "customer.subscription.created",
        now,
        subscription("sub_1", "price_pro", "active", end),
    );
    assert_eq!(stripe.send(&created).await, "applied");
    let seen = plan().await;
    assert_eq!((text(&seen, "plan"), text(&seen, "status")), ("pro", "active"));
    let until = jiff::Timestamp::from_second(end).expect("a time").to_string();
    assert_eq!(text(&seen, "current_period_end"), until);
    shown(&mut product, "pro").await;

    for _ in 0..3 {
        assert_eq!(stripe.send(&created).await, "repeated");
    }
    assert_eq!(noted(&owner, "subscription.created").await, 2, "ada's from the demo and this one");
    let changed = subscription("sub_1", "price_starter", "past_due", end);
    let changed = event("evt_2", "customer.subscription.updated", now + 5, changed);
    assert_eq!(stripe.send(&changed).await, "applied");
    let seen = plan().await;
    assert_eq!((text(&seen, "plan"), text(&seen, "status")), ("starter", "past_due"));
    shown(&mut product, "starter").await;
    let deleted = subscription("sub_1", "price_starter", "canceled", end);
    let deleted = event("evt_3", "customer.subscription.deleted", now + 6, deleted);
    assert_eq!(stripe.send(&deleted).await, "applied");
    assert_eq!(plan().await["plan"], "free");
    assert_eq!(stripe.send(&changed).await, "repeated");
    assert_eq!(plan().await["plan"], "free");

    let events = owner.read(&stripe.path("events")).await;
    let outcomes: Vec<&str> =
        events["items"].as_array().expect("a list").iter().map(|event| text(event, "outcome")).collect();
    assert_eq!(outcomes, ["applied", "applied", "applied"]);
    let audit = owner.read("/api/organizations/acme/audit").await;
    let by_stripe = |entry: &&Value| entry["actor"] == stripe.connection;
    assert_eq!(audit["items"].as_array().expect("a list").iter().filter(by_stripe).count(), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_in_one_second_the_last_counts_whatever_its_id_is() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 30 * DAY);
    // Trialing, active, another price, unpaid: the ids say another order.
    let changes = [
        ("evt_9", json!({ "status": "trialing" }), "price_starter", "active"),
        (
            "evt_5",
            json!({ "items": { "data": [{ "id": "si_1", "price": { "id": "price_starter" }, "current_period_end": end }] } }),
            "price_pro",
            "active",
        ),
        ("evt_1", json!({ "status": "active" }), "price_pro", "past_due"),
    ];
    for (number, order) in
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate()
    {
        let subject = format!("sub_{number}");
        for at in order {
            let (id, previous, price, status) = &changes[at];
            let object = subscription(&subject, price, status, end);
            let id = format!("{id}_{number}");
            let mut event = event(&id, "customer.subscription.updated", now, object);
            event["data"]["previous_attributes"] = previous.clone();
            assert!(["applied", "outdated"].contains(&stripe.send(&event).await.as_str()));
        }
        assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "past_due"), "{order:?}");
        let ended = subscription(&subject, "price_pro", "canceled", end);
        let ended = event(&format!("evt_end{number}"), "customer.subscription.deleted", now, ended);
        assert_eq!(stripe.send(&ended).await, "applied");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_twenty_times_at_once_is_applied_once() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 30 * DAY);
    // Two events, each ten times, the newer one among the older ones.
    let old = subscription("sub_1", "price_starter", "active", end);
    let old = event("evt_1", "customer.subscription.created", now, old);
    let new = subscription("sub_1", "price_pro", "active", end);
    let new = event("evt_2", "customer.subscription.updated", now + 1, new);
    let sends = (0..20).map(|number| stripe.send(if number % 2 == 0 { &old } else { &new }));
    let mut outcomes = at_once(sends).await;
    outcomes.sort();
    let repeated = outcomes.iter().filter(|outcome| *outcome == "repeated").count();
    let rest: Vec<&str> =
        outcomes.iter().map(String::as_str).filter(|outcome| *outcome != "repeated").collect();
    assert_eq!(repeated, 18, "{outcomes:?}");
    assert!(rest == ["applied", "applied"] || rest == ["applied", "outdated"], "{rest:?}");
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_subscriptions_at_once_of_one_customer_leave_one_live() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 30 * DAY);
    let events: Vec<Value> = (0..20)
        .map(|number| {
            let object = subscription(&format!("sub_{number}"), "price_pro", "active", end);
            event(&format!("evt_{number}"), "customer.subscription.created", now, object)
        })
        .collect();
    let outcomes = at_once(events.iter().map(|event| stripe.send(event))).await;
    let applied = outcomes.iter().filter(|outcome| *outcome == "applied").count();
    let waiting = outcomes.iter().filter(|outcome| *outcome == "already_subscribed").count();
    assert_eq!((applied, waiting), (1, 19), "{outcomes:?}");
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    // The one that is live ends, and another one takes its place in the same transaction.
    let place = outcomes.iter().position(|outcome| outcome == "applied").expect("one");
    let ended = subscription(&format!("sub_{place}"), "price_pro", "canceled", end);
    let ended = event("evt_end", "customer.subscription.deleted", now + 1, ended);
    assert_eq!(stripe.send(&ended).await, "applied");
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    let waiting = owner.read(&stripe.path("subscriptions?waiting=true")).await;
    assert_eq!(waiting["items"].as_array().map(Vec::len), Some(18));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_status_of_stripe_has_its_meaning() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 30 * DAY);
    let steps = [
        ("created", "incomplete", vec![]),
        ("updated", "trialing", one("pro", "trialing")),
        ("paused", "paused", vec![]),
        ("resumed", "active", one("pro", "active")),
        ("updated", "past_due", one("pro", "past_due")),
        ("updated", "unpaid", vec![]),
        ("updated", "active", one("pro", "active")),
        ("deleted", "canceled", vec![]),
        // Nothing comes after the end, whatever its time.
        ("updated", "active", vec![]),
    ];
    for (number, (kind, status, expected)) in steps.into_iter().enumerate() {
        let object = subscription("sub_1", "price_pro", status, end);
        let kind = format!("customer.subscription.{kind}");
        let event = event(&format!("evt_{number}"), &kind, now + number as i64, object);
        let outcome = stripe.send(&event).await;
        assert_eq!(outcome, if number == 8 { "outdated" } else { "applied" }, "{number} {status}");
        assert_eq!(live(&owner, "grace@acme.test").await, expected, "{number} {status}");
    }
    // It is one subscription all the time.
    let user = user_id(&owner, "grace@acme.test").await;
    let all = owner.read(&format!("/api/organizations/acme/subscriptions?user={user}")).await;
    assert_eq!(all["items"].as_array().map(Vec::len), Some(1), "{all}");

    let object = subscription("sub_2", "price_pro", "delighted", end);
    let odd = event("evt_odd", "customer.subscription.created", now, object);
    assert_eq!(stripe.send(&odd).await, "unknown_status");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_comes_late_leaves_no_gap_and_an_end_is_exact() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let tokens = tokens(&server, "grace@acme.test", "openid offline_access").await;
    let mut refresh = tokens.text("refresh_token");
    let mut plan_after = async |span: i64| {
        server.clock.advance(Duration::from_secs(span.unsigned_abs()));
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", &*refresh),
            ("client_id", server.client("spa")),
        ];
        let answer = server.post("/auth/token", &fields).send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        refresh = answer.text("refresh_token");
        let token = answer.text("access_token");
        text(&server.get("/api/subscription").bearer(&token).send().await.json(), "plan").to_owned()
    };
    let end = stripe.now() + DAY;
    let renews = subscription("sub_1", "price_pro", "active", end);
    let created = event("evt_1", "customer.subscription.created", stripe.now(), renews.clone());
    assert_eq!(stripe.send(&created).await, "applied");
    assert_eq!(plan_after(DAY + 3600).await, "pro", "the renewal is on its way");
    assert_eq!(plan_after(2 * DAY).await, "pro");
    assert_eq!(plan_after(DAY).await, "free", "no renewal came");

    let end = stripe.now() + DAY;
    let mut ends = subscription("sub_1", "price_pro", "active", end);
    ends["cancel_at_period_end"] = json!(true);
    let updated = event("evt_2", "customer.subscription.updated", stripe.now(), ends);
    assert_eq!(stripe.send(&updated).await, "applied");
    assert_eq!(plan_after(DAY - 1).await, "pro");
    assert_eq!(plan_after(1).await, "free");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_nobody_asked_for_do_nothing() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    for kind in ["invoice.paid", "customer.created", "customer.subscription.trial_will_end", "something.new"]
    {
        assert_eq!(stripe.send(&event("evt_1", kind, stripe.now(), json!({}))).await, "ignored", "{kind}");
    }
    assert_eq!(owner.read(&stripe.path("events")).await["items"], json!([]));
    server.stop().await;
}
