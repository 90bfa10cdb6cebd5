//! The contact of an organization: who may set it, what it may be, and on which pages it stands.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestServer};

const ACME: &str = "/api/organizations/acme/branding";
const HELP: &str = "help@acme.test, or Ada in room 12";

async fn set(admin: &Admin<'_>, path: &str, contact: &str) {
    let changed = admin.change("PUT", path, json!({ "contact": contact })).await.json();
    assert_eq!(changed, json!({ "contact": contact.trim() }));
}

/// A closed organization of the server's owner, who administers it.
async fn globex(server: &TestServer) -> Admin<'_> {
    let platform = Admin::sign_in(server, "owner@sarsen.test", "platform").await;
    platform.make("/api/organizations", json!({ "slug": "globex", "name": "Globex" })).await;
    Admin::sign_in(server, "owner@sarsen.test", "org:globex org:platform platform").await
}

/// The contacts on a page, as `whose: text`.
fn contacts(page: &Answer) -> Vec<String> {
    let found = page.body.split("<p class=\"small\">Contact for ").skip(1);
    found
        .map(|rest| rest.split("</p>").next().unwrap_or_default().replace("<bdi>", "").replace("</bdi>", ""))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_an_organization_show_its_contact_and_no_other() {
    let server = TestServer::start().await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let owner = globex(&server).await;
    set(&acme, ACME, HELP).await;
    set(&owner, "/api/organizations/globex/branding", "Hank <hank@globex.test>").await;
    set(&owner, "/api/organizations/platform/branding", "Olga, 2nd floor").await;
    let spa = server.client("spa");
    let elsewhere = Ask::of(&server, "spa").with("redirect_uri", "https://evil.example/").path();
    let of_acme = format!("Acme: {HELP}");
    let (globex, platform) = ("Globex: Hank &lt;hank@globex.test&gt;", "this server: Olga, 2nd floor");
    let mut rows = Rows::new();
    for (path, status, expected) in [
        ("/o/acme/login".to_owned(), 200, Some(&*of_acme)),
        ("/o/globex/login".to_owned(), 200, Some(globex)),
        ("/login".to_owned(), 200, Some(platform)),
        ("/o/globex/signup".to_owned(), 403, Some(globex)),
        ("/o/platform/signup".to_owned(), 403, Some(platform)),
        ("/o/acme/signup".to_owned(), 200, None),
        // Error pages: by their path, or by the client that sent the user.
        ("/o/acme/no/such/page".to_owned(), 404, Some(&of_acme)),
        ("/o/acme/link?token=x".to_owned(), 404, Some(&of_acme)),
        ("/o/acme/login?a=1&a=2".to_owned(), 400, Some(&of_acme)),
        ("/o/globex/link".to_owned(), 404, Some(globex)),
        (elsewhere, 400, Some(&of_acme)),
        (format!("/auth/authorize?client_id={spa}"), 400, Some(&of_acme)),
        (
            format!("/auth/logout?client_id={spa}&post_logout_redirect_uri=https://evil.example/"),
            400,
            Some(&of_acme),
        ),
        // Nothing says which organization they are about, or there is none.
        (Ask::by("client_x", CALLBACK).path(), 400, None),
        ("/no/such/page".to_owned(), 404, None),
        ("/password?token=x".to_owned(), 404, None),
        ("/o/nobody/login".to_owned(), 404, None),
        ("/o/%00/login".to_owned(), 400, None),
    ] {
        let row = async {
            let page = server.get(&path).send().await;
            assert_eq!(page.status, status, "{page:?}");
            assert_eq!(contacts(&page), Vec::from_iter(expected.map(str::to_owned)), "{page:?}");
        };
        rows.row(path.clone(), row).await;
    }
    let forged = server.post("/o/acme/login", &[]).send().await;
    assert_eq!((forged.status, contacts(&forged)), (403, vec![of_acme.clone()]), "{forged:?}");
    let busy = server.post("/o/acme/no/such/page", &[]).send().await;
    assert_eq!((busy.status, contacts(&busy)), (404, vec![of_acme]), "{busy:?}");
    let head = server.request("HEAD", "/o/acme/no/such/page").send().await;
    assert_eq!((head.status, &*head.body), (404, ""));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_is_text_that_leads_nowhere() {
    let server = TestServer::start().await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    set(&acme, ACME, "</p><a href=https://evil.example/>x</a><script>alert(1)</script> \"'&").await;
    for path in ["/o/acme/login", "/o/acme/no/such/page"] {
        let page = server.get(path).send().await;
        let shown = contacts(&page);
        let escaped = "Acme: &lt;/p&gt;&lt;a href=https://evil.example/&gt;x&lt;/a&gt;&lt;script&gt;alert(1)&lt;/script&gt; &quot;'&amp;";
        assert_eq!(shown, [escaped], "{path}: {page:?}");
    }
    set(&acme, ACME, "https://evil.example/ ada@acme.test").await;
    let page = server.get("/o/acme/login").send().await;
    assert_eq!(contacts(&page), ["Acme: https://evil.example/ ada@acme.test"], "no link: {page:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_set_a_contact_that_names_could_be() {
    let server = TestServer::start().await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(acme.read(ACME).await, json!({ "contact": "" }), "at first nobody");
    assert_eq!(contacts(&server.get("/o/acme/login").send().await), [""; 0]);
    set(&acme, ACME, "  Ada  ").await;
    set(&acme, ACME, "Ada").await;
    assert_eq!(acme.read(ACME).await, json!({ "contact": "Ada" }));
    let longest = "ä".repeat(200);
    set(&acme, ACME, &longest).await;
    let too_long = longest + "ä";
    for (wrong, code) in [
        (json!({ "contact": too_long }), "too_long"),
        (json!({ "contact": "two\nlines" }), "invalid"),
        (json!({ "contact": "in\u{200b}visible" }), "invalid"),
        (json!({ "contact": "\u{202e}drawkcab" }), "invalid"),
        (json!({ "contact": null }), "wrong_type"),
        (json!({}), "missing"),
        (json!({ "contact": "Ada", "logo": "x" }), "unknown"),
    ] {
        let answer = acme.call("PUT", ACME, &wrong).await;
        assert_eq!(
            (answer.status, answer.json()["errors"][0]["code"].as_str()),
            (422, Some(code)),
            "{answer:?}"
        );
    }
    set(&acme, ACME, " ").await;
    assert_eq!(contacts(&server.get("/o/acme/login").send().await), [""; 0], "removed");
    let trail = acme.read("/api/organizations/acme/audit?action=branding.changed").await;
    let entries = trail["items"].as_array().expect("a list");
    let mut details: Vec<&str> = entries.iter().map(|entry| text(entry, "details")).collect();
    // Entries of one millisecond have no order among them.
    details.sort_unstable();
    let long = format!("contact: {}", "ä".repeat(200));
    assert_eq!(details, ["contact: ", "contact: Ada", &*long], "each change once: {trail}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_that_is_not_active_says_nothing() {
    let server = TestServer::start().await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    set(&acme, ACME, HELP).await;
    let shown = async || {
        let mut shown = Vec::new();
        for path in ["/o/acme/login", "/o/acme/no/such/page"] {
            shown.extend(contacts(&server.get(path).send().await));
        }
        shown.len()
    };
    assert_eq!(shown().await, 2);
    let suspension = "/api/platform/organizations/acme/suspension";
    platform.change("PUT", suspension, json!({})).await;
    assert_eq!(shown().await, 0, "suspended");
    let refused = acme.call("PUT", ACME, &json!({ "contact": "Eve" })).await;
    assert_eq!((refused.status, refused.text("code")), (409, "organization_not_active".to_owned()));
    platform.change("DELETE", suspension, Value::Null).await;
    assert_eq!(shown().await, 2, "active again");

    let founder = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    founder.make("/api/organizations", json!({ "slug": "initech", "name": "Initech" })).await;
    let founder = Admin::sign_in(&server, "admin@acme.test", "org:initech").await;
    let refused =
        founder.call("PUT", "/api/organizations/initech/branding", &json!({ "contact": "Eve" })).await;
    assert_eq!((refused.status, refused.text("code")), (409, "organization_not_active".to_owned()));
    server.stop().await;
}
