//! The console of an owner of the server: what waits for a decision comes first.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{TestServer, at_once};

async fn console(server: &TestServer) -> String {
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("platform", "owner@sarsen.test").await.status, 303);
    browser.get("/console").await.body
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_organizations_come_first_at_any_number() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    admin.make("/api/organizations", json!({ "slug": "zenith", "name": "Zenith" })).await;
    let page = console(&server).await;
    assert!(page.find("zenith") < page.find("<code>platform"), "also before the own ones");
    // More than a page shows, all before the pending one.
    for hundred in 0..3 {
        let slugs = (0..100).map(|number| format!("customer-{hundred}-{number}"));
        let make = async |slug: String| {
            owner.make("/api/organizations", json!({ "slug": slug, "name": slug })).await
        };
        at_once(slugs.map(make)).await;
    }
    let page = console(&server).await;
    assert!(page.contains("sarsen org approve zenith"), "{}", page.len());
    assert!(page.find("zenith") < page.find("customer-"), "first of all");
    assert!(page.contains("There are more of them than this page shows."));
    assert!(page.matches("<li").count() <= 600, "{}", page.matches("<li").count());

    let slugs = async |admin: &Admin<'_>, path: &str| -> Vec<String> {
        let found = admin.read(path).await;
        found["items"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|found| text(found, "slug").to_owned())
            .collect()
    };
    const ALL: &str = "/api/platform/organizations";
    assert_eq!(slugs(&owner, &format!("{ALL}?status=pending")).await, ["zenith"]);
    assert_eq!(slugs(&admin, "/api/organizations?status=pending").await, ["zenith"]);
    assert_eq!(slugs(&admin, "/api/organizations?status=active").await, ["acme"]);
    owner.change("PUT", &format!("{ALL}/customer-0-0/suspension"), json!({})).await;
    owner.change("POST", &format!("{ALL}/zenith/review"), json!({ "decision": "rejected" })).await;
    for (status, expected) in
        [("pending", vec![]), ("suspended", vec!["customer-0-0"]), ("rejected", vec!["zenith"])]
    {
        assert_eq!(slugs(&owner, &format!("{ALL}?status={status}")).await, expected, "{status}");
    }
    assert_eq!(slugs(&owner, &format!("{ALL}?status=deleted")).await, [""; 0]);
    let page = owner.read(&format!("{ALL}?status=active&limit=1")).await;
    let cursor = text(&page, "next");
    let elsewhere = owner.call("GET", &format!("{ALL}?cursor={cursor}"), &Value::Null).await;
    let wrong = owner.call("GET", &format!("{ALL}?status=open"), &Value::Null).await;
    assert_eq!((elsewhere.status, wrong.status), (400, 400), "{elsewhere:?} {wrong:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_of_a_new_owner_begins_with_making_an_organization() {
    let server = TestServer::start_empty().await;
    let url = server::first_start::link(&server.app).await.expect("asks").expect("no owner yet");
    let mut browser = server.browser();
    let page = open_link(&mut browser, &path_of(&url)).await;
    let (csrf, link) = (page.input("csrf"), page.input("link"));
    let fields = [
        ("csrf", csrf.as_str()),
        ("link", link.as_str()),
        ("name", "Olga"),
        ("email", "olga@sarsen.test"),
        ("password", "three unrelated words"),
    ];
    assert_eq!(browser.post("/setup", &fields).await.status, 303);
    let page = browser.get("/console").await.body;
    let (first, list) = (page.find("Make the first organization"), page.find("<h2>Organizations"));
    assert!(first.is_some() && first < list && page.contains("sarsen org create acme"), "{page}");
    assert!(!page.contains("sarsen service list"), "{page}");
    server.stop().await;
}
