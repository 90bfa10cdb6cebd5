//! What a stranger with an account on the platform can do with organizations that nobody has reviewed.

use crate::support::*;
use serde_json::json;
use server::testing::TestServer;

const TEXT: &str = "Acme. Your account is locked; call +1 555 0100";

/// A user of the platform who has signed up.
async fn stranger<'s>(server: &'s TestServer, email: &str) -> Admin<'s> {
    open_sign_up(server, "platform").await;
    let mut browser = server.browser();
    let csrf = browser.get("/o/platform/signup").await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", email), ("password", "correct horse battery")];
    assert_eq!(browser.post("/o/platform/signup", &fields).await.status, 303);
    let ask = Ask::by("console", CONSOLE).with("scope", "platform");
    Admin { server, token: tokens_of(server, &mut browser, &ask).await.text("access_token") }
}

async fn make(admin: &Admin<'_>, number: usize) -> (u16, String) {
    let body = json!({ "slug": format!("squat-{number}"), "name": TEXT });
    let answer = admin.call("POST", "/api/organizations", &body).await;
    (answer.status, answer.text("code"))
}

#[tokio::test(flavor = "multi_thread")]
async fn five_organizations_of_a_user_may_wait_for_their_review() {
    let server = TestServer::start().await;
    let mallory = stranger(&server, "mallory@platform.test").await;
    let made = server::testing::at_once((0..9).map(|number| make(&mallory, number))).await;
    let refused = (409, "too_many_pending_organizations".to_owned());
    assert_eq!(made.iter().filter(|answer| answer.0 == 201).count(), 5, "{made:?}");
    assert_eq!(made.iter().filter(|answer| **answer == refused).count(), 4, "{made:?}");
    let other = stranger(&server, "nina@platform.test").await;
    assert_eq!(make(&other, 20).await.0, 201, "another user has room");

    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let one = made.iter().position(|answer| answer.0 == 201).expect("five were made");
    let review = format!("/api/platform/organizations/squat-{one}/review");
    owner.change("POST", &review, json!({ "decision": "rejected" })).await;
    assert_eq!(make(&mallory, 21).await.0, 201, "one place is free again");
    assert_eq!(make(&mallory, 22).await, refused);
    for number in 30..36 {
        assert_eq!(make(&owner, number).await.0, 201, "those of a platform owner do not wait");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_that_nobody_has_approved_shows_no_text_of_its_own() {
    let server = TestServer::start().await;
    let mallory = stranger(&server, "mallory@platform.test").await;
    assert_eq!(make(&mallory, 0).await.0, 201);
    assert_eq!(make(&mallory, 1).await.0, 201);
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let review = "/api/platform/organizations/squat-1/review";
    owner.change("POST", review, json!({ "decision": "rejected" })).await;
    for (slug, status) in [("squat-0", "pending"), ("squat-1", "rejected")] {
        for page in ["login", "signup", "account", "logout", "link?token=x"] {
            let mut page = server.browser().get(&format!("/o/{slug}/{page}")).await;
            if page.status == 303 {
                page = server.browser().get(page.header("location")).await;
            }
            assert!(!page.body.contains("555 0100"), "{page:?}");
        }
        let page = server.browser().get(&format!("/o/{slug}/login")).await;
        assert_eq!(page.status, 403);
        assert!(page.body.contains(&format!("This organization is {status}.")), "{page:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_deceive_are_refused_everywhere() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    for name in ["Acme\u{202e}txt", "Ac\u{200b}me", "Acme\u{2066}", "\u{feff}Acme", "A\u{ad}cme"] {
        let user = json!({ "email": "new@acme.test", "name": name });
        let service = json!({ "slug": "extra", "name": name });
        let client = json!({ "service": "sketch", "kind": "spa", "name": name, "redirect_uris": [CALLBACK] });
        let calls = [
            admin.call("POST", "/api/organizations/acme/users", &user).await,
            admin.call("POST", "/api/organizations/acme/services", &service).await,
            admin.call("POST", "/api/organizations/acme/clients", &client).await,
            admin.call("PATCH", "/api/organizations/acme", &json!({ "name": name })).await,
            owner.call("POST", "/api/organizations", &service).await,
        ];
        for answer in calls {
            assert_eq!((answer.status, answer.text("code")), (422, "invalid".to_owned()), "{answer:?}");
            assert!(answer.text("detail").contains("invisible character"), "{answer:?}");
        }
        let mut browser = server.browser();
        let csrf = browser.get("/o/acme/signup").await.input("csrf");
        let fields = [
            ("csrf", &*csrf),
            ("email", "new@acme.test"),
            ("name", name),
            ("password", "correct horse battery"),
        ];
        assert_eq!(browser.post("/o/acme/signup", &fields).await.status, 422);
    }
    server.stop().await;
}
