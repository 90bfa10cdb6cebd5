//! The demo: what its pages show, and how visitors walk through it.

use crate::support::{Admin, text};
use serde_json::json;
use server::testing::{Answer, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_shows_the_plans_that_its_users_have_now() {
    let server = TestServer::start().await;
    let plan_of_ada = |home: &Answer| {
        let (_, ada) = home.body.split_once("ada@acme.test").expect("ada");
        let (_, badge) = ada.split_once("badge\">").expect("a badge");
        badge.split('<').next().unwrap_or_default().to_owned()
    };
    assert_eq!(plan_of_ada(&server.get("/").send().await), "pro");

    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let found = admin.read("/api/organizations/acme/subscriptions").await;
    let path = format!("/api/organizations/acme/subscriptions/{}", text(&found["items"][0], "id"));
    admin.change("PATCH", &path, json!({ "plan": "starter" })).await;
    assert_eq!(plan_of_ada(&server.get("/").send().await), "starter");
    let again = server::demo::seed(&server.app, Some(server.demo.clone())).await.expect("starts again");
    let plans: Vec<Option<&str>> = again.users.iter().map(|user| user.plan.as_deref()).collect();
    assert_eq!(plans, [Some("starter"), Some("free")]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_begins_where_its_answer_comes_back() {
    let server = TestServer::start().await;
    // The name at which the sample product is registered, and others of the same machine.
    for (host, expected) in [
        ("127.0.0.1:7070", "/auth/authorize?"),
        ("localhost:7070", "http://127.0.0.1:7070/demo/sketch/login"),
        ("127.0.0.1:7071", "/auth/authorize?"),
    ] {
        let request = format!("GET /demo/sketch/login HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let answer = Answer::parse(&server.raw(request.as_bytes()).await);
        assert_eq!(answer.status, 303, "{host}: {answer:?}");
        assert!(answer.header("location").starts_with(expected), "{host}: {answer:?}");
    }
    server.stop().await;
}
