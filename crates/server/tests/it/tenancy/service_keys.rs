//! API keys of services: which users they read, and what a check answers.

use super::api_keys::{KEYS, key};
use super::{globex, is, problem};
use crate::support::*;
use identity::ids::UserId;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestServer};

/// The id of a user of acme.
async fn user(owner: &Admin<'_>, email: &str) -> String {
    let found = owner.read(&format!("/api/organizations/acme/users?email={email}")).await;
    text(&found["items"][0], "id").to_owned()
}

fn emails(answer: &Value) -> Vec<&str> {
    let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|user| text(user, "email")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_reads_its_users_and_nobody_elses() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let sketch = Admin { server: &server, token: server.demo.api_key.clone() };
    let (ada, grace) = (user(&owner, "ada@acme.test").await, user(&owner, "grace@acme.test").await);
    let stranger = globex(&server).await;
    let foreign =
        stranger.make("/api/organizations/globex/users", json!({ "email": "eve@globex.test" })).await;
    let all = format!("/api/service/users?ids={ada},{grace},{},rubbish,,{ada}", text(&foreign, "id"));

    // Ada has a plan with this service; Grace has none and has not been there.
    let found = sketch.read(&all).await;
    assert_eq!(emails(&found), ["ada@acme.test"]);
    let first = &found["items"][0];
    assert_eq!((text(first, "id"), text(first, "plan"), text(first, "service")), (&*ada, "pro", "sketch"));
    assert_eq!(first["features"], json!(["export", "history", "priority support"]));
    assert_eq!(first["suspended"], json!(false));
    tokens(&server, "grace@acme.test", "openid").await;
    assert_eq!(emails(&sketch.read(&all).await), ["ada@acme.test", "grace@acme.test"], "she signed in");
    // The same user at another service of the organization.
    let (notes, _) = key(&owner, json!({ "name": "Back end", "service": "notes" })).await;
    assert_eq!(emails(&notes.read(&all).await), ["ada@acme.test"]);

    let many = vec![&*ada; 101].join(",");
    let mut rows = Rows::new();
    for (query, expected) in [
        (format!("ids={many}"), is(400, "invalid_query")),
        ("ids=".to_owned(), is(400, "invalid_query")),
        (String::new(), is(400, "invalid_query")),
        (format!("ids={ada}&service=notes"), is(400, "invalid_query")),
    ] {
        let row = async {
            let answer = sketch.call("GET", &format!("/api/service/users?{query}"), &Value::Null).await;
            assert_eq!(problem(&answer), expected, "{answer:?}");
        };
        rows.row(query.clone(), row).await;
    }
    assert_eq!(
        emails(&sketch.read(&format!("/api/service/users?ids={}", &many[..100 * 32 - 1])).await).len(),
        1
    );

    // A key with one scope has not the other; a user's token is no key.
    let (checks, _) =
        key(&owner, json!({ "name": "Checks", "service": "sketch", "scopes": ["entitlements:read"] })).await;
    let (reads, _) =
        key(&owner, json!({ "name": "Reads", "service": "sketch", "scopes": ["users:read"] })).await;
    let pair = json!({ "checks": [{ "user": ada, "feature": "export" }] });
    for (caller, method, path, body) in [
        (&checks, "GET", &*all, &Value::Null),
        (&reads, "POST", "/api/service/check", &pair),
        (&owner, "POST", "/api/service/check", &pair),
        (&sketch, "GET", "/api/organizations/acme/users", &Value::Null),
        (&sketch, "GET", "/api/organizations/acme", &Value::Null),
        (&sketch, "POST", KEYS, &json!({ "name": "x", "service": "sketch" })),
    ] {
        let answer = caller.call(method, path, body).await;
        assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{method} {path}: {answer:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_gives_the_reason_for_each_pair() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let sketch = Admin { server: &server, token: server.demo.api_key.clone() };
    let (ada, grace) = (user(&owner, "ada@acme.test").await, user(&owner, "grace@acme.test").await);
    let ask = async |pairs: &[(&str, &str)]| {
        let checks: Vec<Value> =
            pairs.iter().map(|(user, feature)| json!({ "user": user, "feature": feature })).collect();
        let answer: Answer = sketch.call("POST", "/api/service/check", &json!({ "checks": checks })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["results"].as_array().cloned().unwrap_or_default()
    };
    let reasons = |results: &[Value]| -> Vec<(bool, String)> {
        results.iter().map(|one| (one["allowed"] == json!(true), text(one, "reason").to_owned())).collect()
    };
    let yes = |reason: &str| (true, reason.to_owned());
    let no = |reason: &str| (false, reason.to_owned());
    let pairs = [(&*ada, "export"), (&*ada, "teleport"), (&*grace, "export"), ("user_x", "export")];
    let results = ask(&pairs).await;
    let expected = [yes("in_plan"), no("not_in_plan"), no("unknown_user"), no("unknown_user")];
    assert_eq!(reasons(&results), expected);
    assert_eq!(text(&results[1], "detail"), "The plan pro does not include teleport.");
    assert_eq!((&results[0]["user"], &results[0]["feature"]), (&json!(ada), &json!("export")));

    tokens(&server, "grace@acme.test", "openid").await;
    assert_eq!(reasons(&ask(&pairs).await)[2], no("not_in_plan"), "she has the plan free");
    // A change of the plan counts at once.
    owner.change("PATCH", "/api/organizations/acme/plans/pro", json!({ "features": ["teleport"] })).await;
    assert_eq!(reasons(&ask(&pairs).await)[..2], [no("not_in_plan"), yes("in_plan")]);
    owner.change("PUT", &format!("/api/organizations/acme/users/{ada}/suspension"), json!({})).await;
    assert_eq!(reasons(&ask(&pairs).await)[..2], [no("user_suspended"), no("user_suspended")]);

    let pairs = |count: usize| json!({ "checks": vec![json!({ "user": ada, "feature": "export" }); count] });
    let strangers: Vec<Value> = (0..101_u128)
        .map(|number| json!({ "user": identity::ids::UserId::from_uuid(number).as_str(), "feature": "export" }))
        .collect();
    assert_eq!(sketch.call("POST", "/api/service/check", &pairs(500)).await.status, 200);
    for body in [pairs(0), pairs(501), json!({ "checks": strangers }), json!({}), json!({ "checks": [{}] })] {
        let answer = sketch.call("POST", "/api/service/check", &body).await;
        assert_eq!(problem(&answer), is(422, "invalid"), "{answer:?}");
    }
    server.stop().await;
}

/// What a service gets about these users: the list, and the results of a check without the ids.
async fn seen(service: &Admin<'_>, ids: &str) -> (Value, Vec<Value>) {
    let list = service.read(&format!("/api/service/users?ids={ids}")).await["items"].clone();
    let checks: Vec<Value> = ids.split(',').map(|id| json!({ "user": id, "feature": "export" })).collect();
    let answer = service.call("POST", "/api/service/check", &json!({ "checks": checks })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut results = answer.json()["results"].as_array().cloned().unwrap_or_default();
    for result in &mut results {
        result["user"] = Value::Null;
    }
    (list, results)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_nobody_and_one_of_somebody_else_cannot_be_distinguished() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let sketch = Admin { server: &server, token: server.demo.api_key.clone() };
    let stranger = globex(&server).await;
    let eve = stranger.make("/api/organizations/globex/users", json!({ "email": "eve@globex.test" })).await;
    let nobody = UserId::new(server.app.now(), server.app.random());
    let ids = [nobody.to_string(), text(&eve, "id").to_owned(), user(&owner, "grace@acme.test").await];
    let mut costs = Vec::new();
    for id in &ids {
        // Users who are active are in the cache. That must not show either.
        let known = server.app.lookups.user(&UserId::parse(id).expect("an id"), server.app.now()).await;
        assert_eq!(known.is_ok(), *id != nobody.as_str());
        let mut reads = Vec::new();
        for _ in 0..5 {
            let before = server.app.store.stats().reads;
            let (list, results) = seen(&sketch, id).await;
            reads.push(server.app.store.stats().reads - before);
            assert_eq!(list, json!([]));
            let unknown = json!({ "user": null, "feature": "export", "allowed": false, "reason": "unknown_user",
                                  "detail": "The service has no such user.", "plan": null });
            assert_eq!(results, [unknown]);
        }
        // The server reads for itself too.
        costs.push(reads.into_iter().min());
    }
    assert_eq!(costs, [costs[0]; 3], "the same number of queries");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_key_of_another_organization_and_a_user_who_is_gone_find_nothing() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let sketch = Admin { server: &server, token: server.demo.api_key.clone() };
    let ada = user(&owner, "ada@acme.test").await;
    let stranger = globex(&server).await;
    stranger.make("/api/organizations/globex/services", json!({ "slug": "sketch", "name": "Same" })).await;
    let made = json!({ "name": "Back end", "service": "sketch" });
    let made = stranger.make("/api/organizations/globex/keys", made).await;
    let lens = Admin { server: &server, token: text(&made, "key").to_owned() };
    let reason = |seen: &(Value, Vec<Value>)| (seen.0.clone(), text(&seen.1[0], "reason").to_owned());
    let nothing = (json!([]), "unknown_user".to_owned());
    assert_eq!(text(&seen(&sketch, &ada).await.1[0], "reason"), "in_plan");
    assert_eq!(reason(&seen(&lens, &ada).await), nothing, "a service with the same slug");

    // Both organizations' keys end with a suspension, and say no more than that.
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    platform.change("PUT", "/api/platform/organizations/globex/suspension", json!({})).await;
    for path in ["/api/service/users?ids=x", &format!("/api/service/users?ids={ada}")] {
        let answer = lens.call("GET", path, &Value::Null).await;
        assert_eq!(problem(&answer), is(401, "invalid_token"), "{answer:?}");
    }
    let answer = lens.call("POST", "/api/service/check", &json!({ "checks": [] })).await;
    assert_eq!(problem(&answer), is(401, "invalid_token"), "{answer:?}");

    owner.change("DELETE", &format!("/api/organizations/acme/users/{ada}"), Value::Null).await;
    assert_eq!(reason(&seen(&sketch, &ada).await), nothing, "as soon as the call has returned");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ids_long_ones_and_odd_ones_are_answered_in_bounds() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let sketch = Admin { server: &server, token: server.demo.api_key.clone() };
    let ada = user(&owner, "ada@acme.test").await;
    let other = |number: u128| UserId::from_uuid(number).to_string();
    let others = |count: u128| (0..count).map(other).collect::<Vec<_>>().join(",");
    let long = "x".repeat(8_000);
    let mut rows = Rows::new();
    for (name, ids, expected) in [
        ("101 different ones", others(101), Err(is(400, "invalid_query"))),
        ("100 and one of them again", format!("{},{}", others(100), other(7)), Err(is(400, "invalid_query"))),
        ("99 of nobody and one", format!("{},{ada}", others(99)), Ok(vec!["ada@acme.test"])),
        ("the same one in other letters", format!("{ada},{}", ada.to_uppercase()), Ok(vec!["ada@acme.test"])),
        ("a long one", format!("{long},{ada}"), Ok(vec!["ada@acme.test"])),
        ("with the prefix of another kind", ada.replace("user_", "client_"), Ok(vec![])),
        ("with a line break", format!("{ada}%0a"), Ok(vec![])),
        ("with NUL", format!("{ada}%00,{ada}"), Err(is(400, "invalid_query"))),
        ("SQL", "user_'%20OR%201=1--".to_owned(), Ok(vec![])),
    ] {
        let row = async {
            let answer = sketch.call("GET", &format!("/api/service/users?ids={ids}"), &Value::Null).await;
            match &expected {
                Ok(found) => {
                    assert_eq!((answer.status, emails(&answer.json())), (200, found.clone()), "{answer:?}")
                }
                Err(refused) => assert_eq!(&problem(&answer), refused, "{answer:?}"),
            }
        };
        rows.row(name.to_owned(), row).await;
    }
    let longest = "x".repeat(400);
    for (who, feature) in [(&*longest, "export"), (&*ada, &*longest), (&*ada, ""), (&*ada, "\u{202e}")] {
        let row = async {
            let body = json!({ "checks": [{ "user": who, "feature": feature }] });
            let answer = sketch.call("POST", "/api/service/check", &body).await;
            assert_eq!((answer.status, &answer.json()["results"][0]["allowed"]), (200, &json!(false)));
        };
        rows.row(format!("{} and {} letters", who.len(), feature.len()), row).await;
    }
    let body = json!({ "checks": [{ "user": ada, "feature": long }] });
    let answer = sketch.call("POST", "/api/service/check", &body).await;
    assert_eq!(problem(&answer), is(422, "invalid"));
    server.stop().await;
}
