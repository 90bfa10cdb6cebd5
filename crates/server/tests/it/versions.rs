//! The version that answers carry: a client that sends it back never gets an older state, from any instance.

use crate::device::{codes, poll, signed_in};
use crate::instances::{at, instances, stop};
use crate::support::{Admin, text};
use serde_json::json;
use server::testing::TestServer;
use store::Version;
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
        (answer.text("plan"), answer.header("sarsen-version").parse::<Version>().expect("a version"))
    };
    for round in 0..40 {
        let plan = ["team", "pro"][round % 2];
        for instance in &instances {
            let known = admin.read("/api/organizations/acme").await;
            assert!(known.is_object());
            let answer = instance.get("/api/subscription").bearer(&token).send().await;
            assert_eq!(answer.status, 200, "it is cached now");
        }
        let changed = admin.change("PATCH", &path, json!({ "plan": plan })).await;
        let version = changed.header("sarsen-version");
        for instance in &instances {
            let (shown, then) = plan_at(instance, version).await;
            assert_eq!(shown, plan, "round {round}");
            let version: Version = version.parse().expect("a version");
            assert!(then.replaces(version), "an answer says from when it is: {then}");
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
    let carried = async |path: &str, version: &str| {
        let asked = server.get(path).bearer(&token).header("sarsen-version", version);
        asked.send().await.header("sarsen-version").to_owned()
    };
    let known =
        server.get("/api/subscription").bearer(&token).send().await.header("sarsen-version").to_owned();
    let (epoch, _) = known.split_once('.').expect("an epoch");
    let lost = format!("{epoch}.000000e8d4a51000");
    assert_eq!(carried("/api/there-is-nothing-here", &lost).await, lost, "nobody was asked");
    let now = carried("/api/subscription", &lost).await;
    match kind() {
        // The versions of its instances are not the same, so none can tell.
        Kind::Mysql => assert_eq!(now, lost),
        Kind::Sqlite | Kind::Postgres => {
            assert!(now < lost, "{now}");
            assert!(carried("/api/subscription", &now).await >= now);
        }
    }
    // Another history: whatever there is, is newer.
    let other = "00000000000000ff.ffffffffffffffff";
    assert!(carried("/api/subscription", other).await.starts_with(epoch));
    server.stop().await;
}

#[tokio::test]
async fn a_version_that_no_answer_has_carried_is_refused() {
    let server = TestServer::start().await;
    for wrong in ["", "yesterday", "17", "00000000000000FF.0000000000000001", "1.5"] {
        let answer = server.get("/api/subscription").header("sarsen-version", wrong).send().await;
        assert_eq!((answer.status, answer.text("code")), (400, "invalid_version".to_owned()), "{wrong:?}");
    }
    assert_eq!(server.get("/healthz").send().await.header("sarsen-version"), "");
    server.stop().await;
}
