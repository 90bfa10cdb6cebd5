//! Where the links of error pages lead: a user has an account in one organization, and none in that of the
//! administrators.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestServer};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
const FOR_ADMINISTRATORS: &str =
    "<p class=\"small\">For administrators of this server: <a href=\"/\">Go to the start page</a></p>";

/// The address of an error page's button, or `None` if only administrators have a link there.
fn button(answer: &Answer) -> Option<String> {
    assert!((400..500).contains(&answer.status), "{answer:?}");
    let button = answer.body.split_once("<a class=\"button full\" href=\"");
    let href = button.map(|(_, rest)| rest.split('"').next().unwrap_or_default().to_owned());
    assert_eq!(href.is_none(), answer.body.contains(FOR_ADMINISTRATORS), "{answer:?}");
    href
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_leads_to_the_organization_that_it_is_about() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let made = admin.make("/api/organizations/acme/users", json!({ "email": "new@acme.test" })).await;
    let user = format!("/api/organizations/acme/users/{}", text(&made, "id"));
    let link = path_of(text(&admin.make(&format!("{user}/password-link"), Value::Null).await, "url"));
    let mut new = server.browser();
    let page = open_link(&mut new, &link).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let fields = [("csrf", &*csrf), ("link", &*id), ("password", "correct horse battery")];
    assert_eq!(new.post("/password", &fields).await.status, 303);
    let expired = path_of(text(&admin.make(&format!("{user}/password-link"), Value::Null).await, "url"));
    server.clock.advance(DAY);

    let spa = server.client("spa");
    let elsewhere = Ask::of(&server, "spa").with("redirect_uri", "https://evil.example/").path();
    let mut rows = Rows::new();
    for (path, to_sign_in) in [
        (elsewhere, true),
        (format!("/auth/authorize?client_id={spa}"), true),
        (format!("/auth/authorize?client_id={spa}&redirect_uri=%ff"), false),
        (format!("/auth/authorize?client_id={spa}&redirect_uri=https://evil.example/&a=1&a=2"), true),
        (Ask::by("client_x", CALLBACK).path(), false),
        ("/auth/authorize".to_owned(), false),
        (link, true),
        (expired, true),
        ("/password?token=x".to_owned(), false),
        ("/password".to_owned(), false),
    ] {
        let row = async {
            let stranger = button(&server.browser().get(&path).await);
            assert_eq!(stranger.as_deref(), to_sign_in.then_some("/o/acme/login"), "signed out");
            let mut ada = server.browser();
            ada.sign_in("acme", "ada@acme.test").await;
            let known = if to_sign_in { "/o/acme/login" } else { "/o/acme/account" };
            assert_eq!(button(&ada.get(&path).await).as_deref(), Some(known), "signed in");
        };
        rows.row(path.clone(), row).await;
    }
    // A signed-in user is asked there.
    let sign_out = format!("/auth/logout?client_id={spa}&post_logout_redirect_uri=https://evil.example/");
    for (path, link) in [(&*sign_out, Some("/o/acme/login")), ("/auth/logout?id_token_hint=x", None)] {
        assert_eq!(button(&server.browser().get(path).await).as_deref(), link, "{path}");
    }
    let posted =
        server.post("/auth/authorize", &[("client_id", spa), ("redirect_uri", "https://evil.example/")]);
    let posted = posted.send().await;
    assert_eq!(posted.status, 303, "a POST is checked by the GET after it: {posted:?}");
    assert_eq!(button(&server.get(posted.header("location")).send().await).as_deref(), Some("/o/acme/login"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sign_in_of_administrators_says_so() {
    let server = TestServer::start().await;
    let (whose, hint) = ("for administrators of this server", "Users of a product sign in at the product");
    let mut browser = server.browser();
    let page = browser.get("/login").await;
    assert!(page.body.contains(whose) && !page.body.contains(hint), "{page:?}");
    let wrong = browser.sign_in_with("platform", "ada@acme.test", server.password("ada@acme.test")).await;
    assert_eq!(wrong.status, 422, "{wrong:?}");
    assert!(wrong.body.contains(whose) && wrong.body.contains(hint), "{wrong:?}");
    let wrong = browser.sign_in_with("acme", "ada@acme.test", "wrong").await;
    assert!(!wrong.body.contains(whose) && !wrong.body.contains(hint), "{wrong:?}");
    server.stop().await;
}
