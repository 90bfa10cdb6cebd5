//! The version that answers carry: who sends it back is never answered from an older state, whichever instance
//! he reaches.

use crate::device::{codes, poll, signed_in};
use crate::instances::{at, instances, stop};
use crate::support::{Admin, text};
use serde_json::json;
use server::testing::TestServer;
use store::testing::{Kind, kind};

#[tokio::test(flavor = "multi_thread")]
async fn who_carries_a_version_sees_that_state_at_every_instance() {
    let instances = instances().await;
    let device = codes(at(&instances, 0)).await;
    let mut ada = signed_in(at(&instances, 0), "ada@acme.test").await;
    ada.decide(&device.text("user_code"), "allow").await;
    let token = poll(at(&instances, 0), &device).await.text("access_token");
    let admin = Admin::sign_in(at(&instances, 0), "admin@acme.test", "org:acme").await;
    let second =
        json!({ "slug": "team", "name": "Team", "services": ["cli"], "price_cents": 1, "currency": "EUR" });
    admin.make("/api/organizations/acme/plans", second).await;
    let subscriptions = "/api/organizations/acme/subscriptions";
    let user = admin.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let hers = admin.read(&format!("{subscriptions}?user={}", text(&user["items"][0], "id"))).await;
    let path = format!("{subscriptions}/{}", text(&hers["items"][0], "id"));
    let plan_at = async |instance: &TestServer, version: &str| {
        let answer =
            instance.get("/api/subscription").bearer(&token).header("sarsen-version", version).send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        (answer.text("plan"), answer.header("sarsen-version").parse::<u64>().expect("a version"))
    };
    for round in 0..40 {
        let plan = ["team", "pro"][round % 2];
        for instance in &instances {
            plan_at(instance, "0").await; // It is cached now.
        }
        let changed = admin.change("PATCH", &path, json!({ "plan": plan })).await;
        let version = changed.header("sarsen-version");
        for instance in &instances {
            let (shown, then) = plan_at(instance, version).await;
            assert_eq!(shown, plan, "round {round}");
            assert!(then >= version.parse().expect("a version"), "an answer says from when it is: {then}");
        }
    }
    stop(instances).await;
}

#[tokio::test]
async fn a_version_from_before_a_restore_is_carried_until_the_database_was_asked() {
    let server = TestServer::start().await;
    let device = codes(&server).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    ada.decide(&device.text("user_code"), "allow").await;
    let token = poll(&server, &device).await.text("access_token");
    let lost = 1_000_000_000_000_u64;
    let carried = async |path: &str, version: u64| {
        let asked = server.get(path).bearer(&token).header("sarsen-version", &version.to_string());
        asked.send().await.header("sarsen-version").parse::<u64>().expect("a version")
    };
    assert_eq!(carried("/api/there-is-nothing-here", lost).await, lost, "nobody was asked");
    let now = carried("/api/subscription", lost).await;
    match kind() {
        // The versions of its instances are not the same, so none can tell.
        Kind::Mysql => assert_eq!(now, lost),
        Kind::Sqlite | Kind::Postgres => {
            assert!(now < lost, "{now}");
            assert!(carried("/api/subscription", now).await >= now);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_version_that_no_answer_has_carried_is_refused() {
    let server = TestServer::start().await;
    for wrong in ["", "yesterday", "-1", "1.5", "99999999999999999999"] {
        let answer = server.get("/api/subscription").header("sarsen-version", wrong).send().await;
        assert_eq!((answer.status, answer.text("code")), (400, "invalid_version".to_owned()), "{wrong:?}");
    }
    // One from before a restore is newer than anything that there is: the newest state must do.
    let answer =
        server.get("/api/subscription").header("sarsen-version", "18446744073709551615").send().await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(server.get("/healthz").send().await.header("sarsen-version"), "");
    server.stop().await;
}
