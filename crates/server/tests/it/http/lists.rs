//! Search, order and filters of lists, with their pages.

use super::problem;
use crate::support::{Admin, text};
use serde_json::{Value, json};
use server::testing::{Rows, TestServer};
use std::time::Duration;

const ACME: &str = "/api/organizations/acme";

/// One field of all items of a list, read in pages of one.
async fn walk(admin: &Admin<'_>, path: &str, field: &str) -> Vec<String> {
    let mark = if path.contains('?') { '&' } else { '?' };
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let page = admin.read(&format!("{path}{mark}limit=1{next}")).await;
        found.extend(page["items"].as_array().into_iter().flatten().map(|item| text(item, field).to_owned()));
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return found,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_searched_and_sorted() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for (email, name) in [("zoe+news@acme.test", "Zoë Ada O'Neill"), ("adam@acme.test", "Adam Müller")] {
        admin.make(&format!("{ACME}/users"), json!({ "email": email, "name": name })).await;
    }
    let mut rows = Rows::new();
    for (query, expected) in [
        ("q=ADA", &["ada@acme.test", "zoe+news@acme.test", "adam@acme.test"][..]),
        ("q=ada%20o%27", &["zoe+news@acme.test"]),
        ("q=m%C3%BC", &["adam@acme.test"]),
        ("q=zoe%2Bnews", &["zoe+news@acme.test"]),
        ("q=nobody", &[]),
        ("sort=email", &["ada@acme.test", "adam@acme.test", "grace@acme.test", "zoe+news@acme.test"]),
    ] {
        let row = async {
            let found = walk(&admin, &format!("{ACME}/users?{query}"), "email").await;
            let mut sorted = (found.clone(), expected.to_vec());
            if !query.starts_with("sort") {
                sorted.0.sort();
                sorted.1.sort_unstable();
            }
            assert_eq!(sorted.0, sorted.1, "{query}");
        };
        rows.row(query, row).await;
    }
    let oldest = walk(&admin, &format!("{ACME}/users?sort=created_at"), "id").await;
    let mut newest = walk(&admin, &format!("{ACME}/users?sort=-created_at"), "id").await;
    newest.reverse();
    assert_eq!(oldest, newest);
    assert_eq!(oldest, walk(&admin, &format!("{ACME}/users"), "id").await);

    let mut said = String::new();
    for query in ["q=", "q=a&sort=email&email=x", "sort=name", "email=ada"] {
        let answer = admin.request("GET", &format!("{ACME}/users?{query}")).send().await;
        assert_eq!(problem(&answer), (400, "invalid_query".to_owned()), "{query}: {answer:?}");
        said.push_str(&format!("{query}: {}\n", answer.text("detail")));
    }
    insta::assert_snapshot!(said, @r#"
    q=: q: the text is empty; use the beginning of a name or an e-mail address.
    q=a&sort=email&email=x: 2 fields are wrong: email, sort. See `errors`.
    sort=name: sort: "name" is not an order; use created_at, -created_at or email.
    email=ada: email: this is not an e-mail address; use one like ada@example.com.
    "#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_trail_is_filtered() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    // Entries of the same millisecond have no order.
    let tick = || server.clock.advance(Duration::from_secs(1));
    tick();
    let made = admin.make(&format!("{ACME}/users"), json!({ "email": "bob@acme.test" })).await;
    tick();
    admin.change("PATCH", &format!("{ACME}/users/{}", text(&made, "id")), json!({ "name": "Bob" })).await;
    tick();
    admin.make(&format!("{ACME}/services"), json!({ "slug": "draw", "name": "Draw" })).await;
    let trail = format!("{ACME}/audit");
    let newest = admin.read(&format!("{trail}?limit=1")).await["items"][0].clone();
    let (own, at) = (text(&newest, "actor"), text(&newest, "created_at"));
    let own_actions = ["service.created", "user.changed", "user.created"];
    assert_eq!(walk(&admin, &format!("{trail}?actor={own}"), "action").await[..3], own_actions);
    assert_eq!(walk(&admin, &format!("{trail}?actor=admin@acme.test"), "action").await[..3], own_actions);
    let created = walk(&admin, &format!("{trail}?actor={own}&action=user.created"), "action").await;
    assert_eq!(created, ["user.created"]);
    // What happened to one object, whoever did it.
    let bob = text(&made, "id");
    for target in [bob, "bob@acme.test"] {
        let about = walk(&admin, &format!("{trail}?target={target}"), "action").await;
        assert_eq!(about, ["user.changed", "user.created"], "{target}");
        let created = walk(&admin, &format!("{trail}?target={target}&action=user.created"), "target").await;
        assert_eq!(created, [bob]);
        let by_admin = format!("{trail}?target={target}&actor=admin@acme.test&until={at}");
        assert_eq!(walk(&admin, &by_admin, "action").await, ["user.changed", "user.created"]);
        assert!(walk(&admin, &format!("{trail}?target={target}&actor=system"), "action").await.is_empty());
    }
    let page = admin.read(&format!("{trail}?target={bob}&limit=1")).await;
    let elsewhere = format!("{trail}?actor={bob}&cursor={}", text(&page, "next"));
    assert_eq!(admin.request("GET", &elsewhere).send().await.status, 400, "the cursor of another filter");
    assert!(walk(&admin, &format!("{trail}?target=price_Of%2FStripe"), "action").await.is_empty());
    let all = walk(&admin, &trail, "id").await;
    assert_eq!(walk(&admin, &format!("{trail}?until=2999-01-01"), "id").await, all);
    assert!(walk(&admin, &format!("{trail}?until={at}"), "id").await.iter().all(|id| id < &all[0]));
    assert!(walk(&admin, &format!("{trail}?since={at}"), "id").await.contains(&all[0]));
    assert!(walk(&admin, &format!("{trail}?since=2999-01-01T00:00:00Z"), "id").await.is_empty());

    let mut said = String::new();
    for query in [
        "actor=ada&action=a%20b&since=now&until=2027-02-30",
        "actor=nobody@acme.test",
        "target=a%20b",
        "target=nobody@acme.test",
        "by=ada",
    ] {
        let answer = admin.request("GET", &format!("{trail}?{query}")).send().await;
        said.push_str(&format!("{query}: {:?}\n", problem(&answer)));
        for error in answer.json()["errors"].as_array().into_iter().flatten() {
            said.push_str(&format!("  {}: {}\n", text(error, "field"), text(error, "detail")));
        }
    }
    insta::assert_snapshot!(said, @r#"
    actor=ada&action=a%20b&since=now&until=2027-02-30: (400, "invalid_query")
      actor: "ada" is not an actor; use an e-mail address, the id of a user, an API key or a client, system or unknown.
      action: "a b" is not an action; use one of the list, like service.created.
      since: "now" is not a time; use RFC 3339, like "2027-01-31T00:00:00Z".
      until: "2027-02-30" is not a time; use RFC 3339, like "2027-01-31T00:00:00Z".
    actor=nobody@acme.test: (404, "not_found")
      actor: Actor "nobody@acme.test" not found; use the address of a user or an administrator, or an id.
    target=a%20b: (400, "invalid_query")
      target: "a b" is not an id; use an id of the list, or an e-mail address.
    target=nobody@acme.test: (404, "not_found")
      target: Target "nobody@acme.test" not found; use the address of a user or an administrator, or an id.
    by=ada: (400, "invalid_query")
      by: Unknown; use limit, cursor, actor, action, target, since or until.
    "#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_belongs_to_the_filter_of_its_list() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let lists = [
        "users",
        "users?q=a",
        "users?q=g",
        "users?sort=email",
        "users?sort=-created_at",
        "audit",
        "audit?action=user.created",
        "audit?actor=system",
        "audit?since=2020-01-01",
        "audit?until=2999-01-01",
        "clients",
        "clients?service=sketch",
        "subscriptions",
        "subscriptions?plan=pro",
    ];
    for email in ["gil@acme.test", "ann@acme.test"] {
        admin.make(&format!("{ACME}/users"), json!({ "email": email })).await;
    }
    for (email, plan) in [("gil@acme.test", "pro"), ("ann@acme.test", "pro")] {
        let user = admin.read(&format!("{ACME}/users?email={email}")).await["items"][0]["id"].clone();
        admin.make(&format!("{ACME}/subscriptions"), json!({ "user": user, "plan": plan })).await;
    }
    let mut cursors = Vec::new();
    for list in lists {
        let mark = if list.contains('?') { '&' } else { '?' };
        let page = admin.read(&format!("{ACME}/{list}{mark}limit=1")).await;
        if let Value::String(cursor) = &page["next"] {
            cursors.push((list, mark, cursor.clone()));
        }
    }
    assert!(cursors.len() > 10, "{cursors:?}");
    for (list, mark, _) in &cursors {
        for (of, _, cursor) in &cursors {
            let path = format!("{ACME}/{list}{mark}cursor={cursor}");
            let answer = admin.request("GET", &path).send().await;
            let expected = if list == of { 200 } else { 400 };
            assert_eq!(answer.status, expected, "{list} with a cursor of {of}: {answer:?}");
        }
    }
    server.stop().await;
}
