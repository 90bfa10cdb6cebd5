//! Prices and customers are mapped by an administrator, customers also by a reference that the server has made.

use super::*;

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().expect("a list")
}

async fn waiting(admin: &Admin<'_>, stripe: &Stripe<'_>) -> Vec<(String, String)> {
    let list = admin.read(&stripe.path("subscriptions?waiting=true")).await;
    let pair = |one: &Value| (text(one, "billing_subscription").to_owned(), text(one, "problem").to_owned());
    items(&list).iter().map(pair).collect()
}

fn waits(id: &str, problem: &str) -> (String, String) {
    (id.to_owned(), problem.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unknown_waits_and_is_applied_when_it_is_known() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    let created = event(
        "evt_1",
        "customer.subscription.created",
        now,
        subscription("sub_1", "price_new", "active", end),
    );
    assert_eq!(stripe.send(&created).await, "unknown_customer");
    assert_eq!(waiting(&owner, &stripe).await, [waits("sub_1", "unknown_customer")]);
    // A customer that becomes known is applied at once; now the price is missing.
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    assert_eq!(waiting(&owner, &stripe).await, [waits("sub_1", "unknown_price")]);
    assert_eq!(live(&owner, "grace@acme.test").await, []);
    assert_eq!(set_price(&owner, &stripe, "price_new", "pro").await, (1, 0, 0));
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    assert_eq!(waiting(&owner, &stripe).await, []);
    let again = owner.change("POST", &stripe.path("retry"), Value::Null).await.json();
    assert_eq!(again["applied"], 0);

    // Items of other products beside the plan are fine; two plans are not.
    for (number, (prices, expected)) in
        [(["price_addon", "price_pro"], "applied"), (["price_starter", "price_pro"], "several_plans")]
            .into_iter()
            .enumerate()
    {
        let mut object = subscription("sub_1", "x", "active", end);
        object["items"]["data"] = prices.iter().map(|price| json!({ "price": { "id": price } })).collect();
        let id = format!("evt_p{number}");
        let event = event(&id, "customer.subscription.updated", now + 1 + number as i64, object);
        assert_eq!(stripe.send(&event).await, expected, "{prices:?}");
    }
    // What was paid before stays until an administrator decides.
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    server.stop().await;
}

/// Sets a price; how many subscriptions were applied, wait, and are still to be checked.
async fn set_price(admin: &Admin<'_>, stripe: &Stripe<'_>, price: &str, plan: &str) -> (i64, i64, i64) {
    let path = stripe.path(&format!("prices/{price}"));
    let set = admin.change("PUT", &path, json!({ "plan": plan })).await.json();
    assert_eq!((text(&set, "price"), text(&set, "plan")), (price, plan));
    let count = |name: &str| set[name].as_i64().expect("a number");
    (count("applied"), count("waiting"), count("pending"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_that_is_mapped_anew_changes_the_plans_of_its_subscriptions_at_once() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    assert_eq!(set_price(&owner, &stripe, "price_x", "starter").await, (0, 0, 0));
    let mut object = subscription("sub_1", "price_x", "active", end);
    object["items"]["data"] =
        ["price_x", "price_y"].iter().map(|price| json!({ "price": { "id": price } })).collect();
    let created = event("evt_1", "customer.subscription.created", now, object);
    assert_eq!(stripe.send(&created).await, "applied");
    // Others that have the price: one has ended, the customer of the other one is not known.
    let ended = subscription("sub_2", "price_x", "canceled", end);
    stripe.send(&event("evt_2", "customer.subscription.deleted", now, ended)).await;
    let mut unknown = subscription("sub_3", "price_x", "active", end);
    unknown["customer"] = json!("cus_unknown");
    stripe.send(&event("evt_3", "customer.subscription.created", now, unknown)).await;
    assert_eq!(live(&owner, "grace@acme.test").await, one("starter", "active"));

    // It was a mistake.
    assert_eq!(set_price(&owner, &stripe, "price_x", "pro").await, (1, 1, 0));
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    // Again: nothing changes, and nothing is written down.
    let changes = noted(&owner, "subscription.changed").await;
    assert_eq!(set_price(&owner, &stripe, "price_x", "pro").await, (1, 1, 0));
    assert_eq!(noted(&owner, "subscription.changed").await, changes);
    // A second plan waits for a decision, and the removal of one of the prices is one.
    assert_eq!(set_price(&owner, &stripe, "price_y", "starter").await, (0, 1, 0));
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    let waits_for_plan = [waits("sub_1", "several_plans"), waits("sub_3", "unknown_customer")];
    assert_eq!(waiting(&owner, &stripe).await, waits_for_plan);
    owner.change("DELETE", &stripe.path("prices/price_x"), Value::Null).await;
    assert_eq!(live(&owner, "grace@acme.test").await, one("starter", "active"));
    // Without any price that has a plan, what was paid stays, and administrators see it.
    owner.change("DELETE", &stripe.path("prices/price_y"), Value::Null).await;
    assert_eq!(live(&owner, "grace@acme.test").await, one("starter", "active"));
    assert_eq!(waiting(&owner, &stripe).await[0], waits("sub_1", "unknown_price"));
    assert_eq!(set_price(&owner, &stripe, "price_y", "pro").await, (1, 0, 0));
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_subscriptions_of_a_price_are_applied_step_by_step() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    set_price(&owner, &stripe, "price_x", "starter").await;
    let email = |number: u32| format!("user{number}@acme.test");
    for number in 10..34 {
        owner.make("/api/organizations/acme/users", json!({ "email": email(number) })).await;
        let customer = format!("cus_{number}");
        stripe.set_customer(&owner, &customer, &email(number)).await;
        let mut object = subscription(&format!("sub_{number}"), "price_x", "active", end);
        object["customer"] = json!(customer);
        let created = event(&format!("evt_{number}"), "customer.subscription.created", now, object);
        assert_eq!(stripe.send(&created).await, "applied");
    }
    assert_eq!(set_price(&owner, &stripe, "price_x", "pro").await, (20, 0, 4));
    assert_eq!(live(&owner, &email(29)).await, one("pro", "active"));
    assert_eq!(live(&owner, &email(30)).await, one("starter", "active"));
    server.clock.advance(std::time::Duration::from_secs(11));
    assert!(server.tidy().await.expect("tidies"));
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for number in 10..34 {
        assert_eq!(live(&owner, &email(number)).await, one("pro", "active"), "{number}");
    }
    let changes = noted(&owner, "subscription.changed").await;
    server.clock.advance(std::time::Duration::from_secs(3600));
    assert!(server.tidy().await.expect("tidies"));
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(noted(&owner, "subscription.changed").await, changes, "each once");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_subscriptions_of_a_customer_that_becomes_known_are_applied() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    // The one that gives a plan is behind many that do not.
    for number in 10..35 {
        let price = if number == 34 { "price_pro" } else { "price_other" };
        let object = subscription(&format!("sub_{number}"), price, "active", end);
        let created = event(&format!("evt_{number}"), "customer.subscription.created", now, object);
        assert_eq!(stripe.send(&created).await, "unknown_customer");
    }
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    assert!(server.tidy().await.expect("tidies"));
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_forms_of_items_are_read() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    let item = |name: &str, price: Value| json!({ "data": [{ "id": "si_1", name: price }] });
    let plan = |price: &str| json!({ "id": price, "object": "plan", "amount": 1900 });
    let more = json!({ "has_more": true, "data": [{ "price": { "id": "price_addon" } }] });
    for (number, (items, own_plan, outcome, expected)) in [
        (item("plan", plan("price_starter")), Value::Null, "applied", "starter"),
        (item("price", json!("price_pro")), Value::Null, "applied", "pro"),
        (Value::Null, plan("price_starter"), "applied", "starter"),
        (more.clone(), Value::Null, "more_items", "starter"),
        (more, plan("price_pro"), "applied", "pro"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut object = subscription("sub_1", "x", "active", end);
        (object["items"], object["plan"], object["current_period_end"]) = (items, own_plan, json!(end));
        let id = format!("evt_{number}");
        let event = event(&id, "customer.subscription.updated", now + number as i64, object);
        assert_eq!(stripe.send(&event).await, outcome, "{event}");
        assert_eq!(live(&owner, "grace@acme.test").await, one(expected, "active"), "{event}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_goes_through_pages() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    for number in 0..60 {
        let object = subscription(&format!("sub_{number:02}"), "price_pro", "active", stripe.now() + 3600);
        let created = event(&format!("evt_{number}"), "customer.subscription.created", stripe.now(), object);
        assert_eq!(stripe.send(&created).await, "unknown_customer");
    }
    let first = owner.change("POST", &stripe.path("retry"), Value::Null).await.json();
    assert_eq!(first, json!({ "applied": 0, "waiting": 50, "next": "sub_49" }));
    let rest = owner.change("POST", &stripe.path("retry?cursor=sub_49"), Value::Null).await.json();
    assert_eq!(rest, json!({ "applied": 0, "waiting": 10, "next": null }));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_made_by_hand_is_taken_over_if_its_plan_is_the_same() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    // Ada has `pro` from the demo.
    stripe.set_customer(&owner, "cus_ada", "ada@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    let starter = subscription("sub_1", "price_starter", "active", end);
    let starter = event("evt_1", "customer.subscription.created", now, starter);
    assert_eq!(stripe.send(&starter).await, "already_subscribed");
    assert_eq!(live(&owner, "ada@acme.test").await, one("pro", "active"), "nothing is taken from ada");
    let pro = subscription("sub_2", "price_pro", "trialing", end);
    assert_eq!(stripe.send(&event("evt_2", "customer.subscription.created", now, pro)).await, "applied");
    assert_eq!(live(&owner, "ada@acme.test").await, one("pro", "trialing"));
    let ended = subscription("sub_2", "price_pro", "canceled", end);
    assert_eq!(
        stripe.send(&event("evt_3", "customer.subscription.deleted", now + 1, ended)).await,
        "applied"
    );
    assert_eq!(live(&owner, "ada@acme.test").await, one("starter", "active"), "what waited comes next");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_with_a_reference_ties_its_customer() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let other = Stripe::connect(&owner).await;
    let (grace, ada) = (user_id(&owner, "grace@acme.test").await, user_id(&owner, "ada@acme.test").await);
    let reference = async |stripe: &Stripe<'_>, user: &str| {
        let made = owner.make(&stripe.path("references"), json!({ "user": user })).await;
        (text(&made, "reference").to_owned(), text(&made, "customer").to_owned())
    };
    let (of_grace, customer) = reference(&stripe, &grace).await;
    let (of_ada, customer_of_ada) = reference(&stripe, &ada).await;
    let (elsewhere, _) = reference(&other, &grace).await;
    let now = stripe.now();
    let object = subscription("sub_1", "price_pro", "active", now + 3600);
    let created = event("evt_1", "customer.subscription.created", now, object);
    assert_eq!(stripe.send(&created).await, "unknown_customer");

    // What a buyer could have typed.
    let forged = of_grace.replace(&customer, &customer_of_ada);
    let mut number = 0;
    for wrong in [None, Some(""), Some(&*customer), Some(&*grace), Some(&*forged), Some(&*elsewhere)] {
        number += 1;
        let object = checkout("cs_1", "cus_ada", wrong);
        let completed = event(&format!("evt_w{number}"), "checkout.session.completed", now, object);
        assert_eq!(stripe.send(&completed).await, "no_reference", "{wrong:?}");
    }
    assert_eq!(items(&owner.read(&stripe.path("customers")).await), Vec::<Value>::new());

    let completed = checkout("cs_2", "cus_ada", Some(&of_grace));
    let completed = event("evt_2", "checkout.session.completed", now, completed);
    assert_eq!(stripe.send(&completed).await, "applied");
    assert_eq!(live(&owner, "grace@acme.test").await, one("pro", "active"), "the event from before");
    // Nobody else takes the customer over.
    let taken =
        event("evt_3", "checkout.session.completed", now + 9, checkout("cs_3", "cus_ada", Some(&of_ada)));
    assert_eq!(stripe.send(&taken).await, "customer_taken");
    assert_eq!(noted(&owner, "billing.customer_taken").await, 1);
    let tied = items(&owner.read(&stripe.path("customers")).await);
    assert_eq!((text(&tied[0], "billing_customer"), text(&tied[0], "user")), ("cus_ada", &*grace));
    // An administrator may.
    owner.change("PUT", &stripe.path("customers/cus_ada"), json!({ "user": ada })).await;
    assert_eq!(live(&owner, "grace@acme.test").await, []);
    assert_eq!(live(&owner, "ada@acme.test").await, one("pro", "active"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_the_scope_makes_references_and_no_connections() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let key = json!({ "name": "Shop", "scopes": ["billing:write"] });
    let key = owner.make("/api/organizations/acme/keys", key).await;
    let shop = Admin { server: &server, token: text(&key, "key").to_owned() };
    let grace = user_id(&owner, "grace@acme.test").await;
    shop.make(&stripe.path("references"), json!({ "user": grace })).await;
    let made = shop.call("POST", BILLING, &json!({ "name": "Mine", "secret": SECRET })).await;
    assert_eq!((made.status, made.text("code").as_str()), (403, "forbidden"), "{made:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_input_is_refused_with_the_reason() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    for (method, path, body, status, words) in [
        ("POST", BILLING, json!({ "name": "" }), 422, "name: "),
        ("POST", BILLING, json!({ "name": "x", "secret": "sk_live_0123456789012345" }), 422, "secret: "),
        ("POST", BILLING, json!({ "name": "x", "account": "acct 1" }), 422, "payment provider"),
        ("PUT", &stripe.path("prices/price_1"), json!({ "plan": "gold" }), 404, "use pro or starter"),
        ("PUT", &stripe.path("prices/price%201"), json!({ "plan": "pro" }), 422, "payment provider"),
        ("PUT", &stripe.path("customers/cus_1"), json!({}), 422, "user or a customer"),
        ("PUT", &stripe.path("customers/cus_1"), json!({ "user": "user_1" }), 404, "User not found"),
        ("DELETE", &stripe.path("prices/price_1"), Value::Null, 404, "Price not found"),
        ("DELETE", &stripe.path("customers/cus_1"), Value::Null, 404, "Billing customer not found"),
        ("DELETE", "/api/organizations/acme/plans/starter", Value::Null, 409, "remove the price first"),
    ] {
        let answer = owner.call(method, path, &body).await;
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert!(answer.text("detail").contains(words), "{method} {path}: {answer:?}");
    }
    for _ in 0..19 {
        owner.make(BILLING, json!({ "name": "Another" })).await;
    }
    let last = owner.call("POST", BILLING, &json!({ "name": "One too many" })).await;
    assert_eq!((last.status, last.text("code").as_str()), (409, "too_many_connections"));
    server.stop().await;
}
