//! The pages of `GET /api/service/state`.

use super::{STATE, ada, back_end, owner};
use crate::support::text;
use serde_json::{Value, json};
use server::testing::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn the_state_has_pages() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let mut expected = vec![ada(&owner).await.0];
    for number in 0..5 {
        let user = json!({ "email": format!("u{number}@acme.test") });
        let user = owner.make("/api/organizations/acme/users", user).await;
        let plan = if number % 2 == 0 { "pro" } else { "starter" };
        let bought = json!({ "user": text(&user, "id"), "plan": plan, "status": "active" });
        owner.make("/api/organizations/acme/subscriptions", bought).await;
        expected.push(text(&user, "id").to_owned());
    }
    let whole = sketch.read(STATE).await;
    let ids = |state: &Value| -> Vec<String> {
        let users = state["users"].as_array().cloned().unwrap_or_default();
        users.iter().map(|user| text(user, "id").to_owned()).collect()
    };
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = sketch.read(&format!("{STATE}?limit=2{next}")).await;
        all.extend(ids(&page));
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(all, ids(&whole));
    for user in expected {
        assert!(all.contains(&user), "{user} in {all:?}");
    }
    let wrong = server.get(&format!("{STATE}?cursor=x")).bearer(&sketch.token).send().await;
    assert_eq!((wrong.status, wrong.text("code")), (400, "invalid_query".to_owned()));
    server.stop().await;
}
