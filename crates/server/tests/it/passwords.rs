//! Passwords are set by a one-time link and changed on the account page; what the old one gave ends.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

const USERS: &str = "/api/organizations/acme/users";
const CHANGE: &str = "/o/acme/account/password";
const NEW: &str = "unrelated words in a row";
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn make_user(admin: &Admin<'_>, email: &str) -> String {
    text(&admin.make(USERS, json!({ "email": email })).await, "id").to_owned()
}

async fn user_id(admin: &Admin<'_>, email: &str) -> String {
    text(&admin.read(&format!("{USERS}?email={email}")).await["items"][0], "id").to_owned()
}

async fn make_link(admin: &Admin<'_>, user: &str) -> String {
    let link = admin.make(&format!("{USERS}/{user}/password-link"), Value::Null).await;
    path_of(text(&link, "url"))
}

async fn set(browser: &mut TestBrowser<'_>, page: &Answer, password: &str) -> Answer {
    let (csrf, link) = (page.input("csrf"), page.input("link"));
    browser.post("/password", &[("csrf", &csrf), ("link", &link), ("password", password)]).await
}

async fn change(browser: &mut TestBrowser<'_>, old: &str, new: &str) -> Answer {
    let csrf = browser.get(CHANGE).await.input("csrf");
    browser.post(CHANGE, &[("csrf", &csrf), ("password", old), ("new_password", new)]).await
}

/// The status of the account page: 200 for a signed-in browser, 303 for another.
async fn account(browser: &mut TestBrowser<'_>) -> u16 {
    browser.get("/o/acme/account").await.status
}

async fn actions(admin: &Admin<'_>) -> Vec<(String, String)> {
    let trail = admin.read("/api/organizations/acme/audit").await;
    let entries = trail["items"].as_array().expect("entries").clone();
    entries.iter().map(|row| (text(row, "action").to_owned(), text(row, "details").to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_account_gets_its_first_password_by_a_link() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let made = admin.make(USERS, json!({ "email": "new@acme.test", "password_link": true })).await;
    let link = path_of(text(&made["password_link"], "url"));
    assert!(link.starts_with("/password?token=link_"), "{link}");
    let seven_days = "2027-01-22T08:00:00Z";
    assert_eq!(text(&made["password_link"], "expires_at"), seven_days, "{made}");

    let mut browser = server.browser();
    let page = open_link(&mut browser, &link).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("Choose a password") && page.body.contains("new@acme.test"), "{page:?}");
    let secret = link.split_once('.').expect("a secret").1;
    assert!(!page.body.contains(secret), "the page does not contain the secret");
    let kept = browser.cookies.get("sarsen_7070__password").expect("a cookie").to_owned();
    assert!(!kept.contains(secret), "the cookie is sealed");
    let mut other = server.browser();
    other.get("/o/acme/login").await;
    other.cookies.set("sarsen_7070__password", &kept);
    assert_eq!(
        other.get("/password").await.status,
        404,
        "the cookie is for the browser that opened the link"
    );
    assert_eq!(open_link(&mut browser, &link).await.status, 200, "opening it again changes nothing");

    for (wrong, status) in [("short", 422), ("", 422)] {
        assert_eq!(set(&mut browser, &page, wrong).await.status, status, "{wrong:?}");
    }
    let forged = browser.post("/password", &[("csrf", "x"), ("password", NEW)]).await;
    assert_eq!(forged.status, 403);
    let before = browser.cookies.clone();
    let done = set(&mut browser, &page, NEW).await;
    assert_eq!((done.status, done.header("location")), (303, "/o/acme/account"), "{done:?}");
    let shown = browser.get("/o/acme/account").await;
    assert!(shown.body.contains("Your password is set."), "{shown:?}");

    let cookies = std::mem::replace(&mut browser.cookies, before);
    let twice = set(&mut browser, &page, NEW).await;
    assert_eq!(
        (twice.status, twice.header("location")),
        (303, "/o/acme/account"),
        "a second click: {twice:?}"
    );
    browser.cookies = cookies;
    assert_eq!(browser.get("/password").await.status, 404, "the cookie is gone");
    assert_eq!(open_link(&mut browser, &link).await.status, 404, "the link works once");
    assert_eq!(server.browser().sign_in_with("acme", "new@acme.test", NEW).await.status, 303);
    let user = admin.read(&format!("{USERS}/{}", text(&made, "id"))).await;
    assert_eq!(user["email_verified"], true, "an administrator's link verifies the address");
    let names: Vec<String> = actions(&admin).await.into_iter().map(|(action, _)| action).collect();
    for action in ["user.password_link_made", "user.email_verified", "user.password_set"] {
        assert!(names.iter().any(|name| name == action), "{action} in {names:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_password_is_replaced_and_ends_every_session() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let tokens = tokens(&server, "ada@acme.test", "openid offline_access").await;
    let mut elsewhere = server.browser();
    assert_eq!(elsewhere.sign_in("acme", "ada@acme.test").await.status, 303);
    let ada = user_id(&admin, "ada@acme.test").await;
    let link = make_link(&admin, &ada).await;
    let (late, earlier) = (make_link(&admin, &ada).await, make_link(&admin, &ada).await);
    server.clock.advance(Duration::from_secs(1));

    // "Not now" changes nothing.
    let mut browser = server.browser();
    let page = open_link(&mut browser, &link).await;
    assert!(page.body.contains("Choose a new password"), "{page:?}");
    let fields = [("csrf", &*page.input("csrf")), ("link", &*page.input("link")), ("later", "yes")];
    let kept = browser.post("/password", &fields).await;
    assert_eq!((kept.status, kept.header("location")), (303, "/o/acme/login"), "{kept:?}");
    assert!(browser.get("/o/acme/login").await.body.contains("Nothing was changed."));
    assert_eq!(browser.get("/password").await.status, 404);
    assert_eq!(server.browser().sign_in("acme", "ada@acme.test").await.status, 303);
    assert_eq!(account(&mut elsewhere).await, 200);

    // A form belongs to the link that it was shown for.
    let page = open_link(&mut browser, &link).await;
    open_link(&mut browser, &late).await;
    assert_eq!(set(&mut browser, &page, NEW).await.status, 403);
    let page = open_link(&mut browser, &link).await;
    assert_eq!(set(&mut browser, &page, NEW).await.status, 303);
    assert_eq!(account(&mut browser).await, 200);
    assert_eq!(account(&mut elsewhere).await, 303);
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", server.client("spa")),
        ("refresh_token", &*tokens.text("refresh_token")),
    ];
    let refused = server.post("/auth/token", &refresh).send().await;
    assert_eq!(refused.error(), (400, "invalid_grant".to_owned()), "{refused:?}");
    let userinfo = server.get("/auth/userinfo").bearer(&tokens.text("access_token")).send().await;
    assert_eq!(userinfo.status, 401, "{userinfo:?}");
    assert_eq!(server.browser().sign_in("acme", "ada@acme.test").await.status, 422);
    for void in [&late, &earlier] {
        assert_eq!(open_link(&mut browser, void).await.status, 404, "made before the password was set");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_forms_of_one_link_one_sets_the_password() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let link = make_link(&admin, &user_id(&admin, "ada@acme.test").await).await;
    let mut browser = server.browser();
    let page = open_link(&mut browser, &link).await;
    let cookie = browser.cookies.header().expect("cookies");
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let attempt = |password: &'static str| {
        let fields = [("csrf", &*csrf), ("link", &*id), ("password", password)];
        server.post("/password", &fields).header("cookie", &cookie).send()
    };
    let passwords = ["the first password", "the second password", "the third password"];
    let answers = tokio::join!(attempt(passwords[0]), attempt(passwords[1]), attempt(passwords[2]));
    let answers = [answers.0, answers.1, answers.2];
    let signs_in = |answer: &Answer| {
        assert_eq!((answer.status, answer.header("location")), (303, "/o/acme/account"), "{answer:?}");
        let mut cookies = answer.headers.iter().filter(|(name, _)| name == "set-cookie");
        cookies.any(|(_, cookie)| cookie.starts_with("sarsen_7070_acme="))
    };
    let signed_in: Vec<bool> = answers.iter().map(signs_in).collect();
    assert_eq!(signed_in.iter().filter(|is_in| **is_in).count(), 1, "{signed_in:?}");
    for (password, is_in) in passwords.into_iter().zip(signed_in) {
        let tried = server.browser().sign_in_with("acme", "ada@acme.test", password).await;
        assert_eq!(tried.status == 303, is_in, "{password}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_for_its_user_while_they_may_sign_in_and_until_it_expires() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut browser = server.browser();
    let ada = user_id(&admin, "ada@acme.test").await;
    let (link, another) = (make_link(&admin, &ada).await, make_link(&admin, &ada).await);

    for wrong in [
        "/password?token=link_01h00000000000000000000000.x".to_owned(),
        "/password?token=x%3B%20Domain=evil".to_owned(),
        link[..link.len() - 1].to_owned(),
        make_sign_in_link(&admin, &ada).await.replace("/o/acme/link", "/password"),
    ] {
        assert_eq!(open_link(&mut browser, &wrong).await.status, 404, "{wrong}");
    }
    assert_eq!(server.get("/password").send().await.status, 404, "without a cookie");
    assert_eq!(server.get("/password?token=").send().await.status, 404, "without a token");
    let as_sign_in = link.replace("/password", "/o/acme/link");
    assert_eq!(open_link(&mut browser, &as_sign_in).await.status, 404, "a link has one purpose");

    admin.change("PUT", &format!("{USERS}/{ada}/suspension"), json!({})).await;
    assert_eq!(open_link(&mut browser, &link).await.status, 404, "suspended");
    let refused = admin.call("POST", &format!("{USERS}/{ada}/password-link"), &Value::Null).await;
    assert_eq!((refused.status, refused.text("code")), (409, "user_suspended".to_owned()));
    admin.change("DELETE", &format!("{USERS}/{ada}/suspension"), Value::Null).await;
    assert_eq!(open_link(&mut browser, &link).await.status, 200);

    let new = make_user(&admin, "slow@acme.test").await;
    let first = make_link(&admin, &new).await;
    server.clock.advance(DAY - Duration::from_secs(1));
    let page = open_link(&mut browser, &another).await;
    assert_eq!(page.status, 200, "a day for a forgotten password");
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(set(&mut browser, &page, NEW).await.status, 404, "expired while the form was open");
    server.clock.advance(DAY * 6 - Duration::from_secs(1));
    assert!(server.tidy().await.expect("cleans up"));
    assert_eq!(open_link(&mut browser, &first).await.status, 200, "seven days for a new account");
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(open_link(&mut browser, &first).await.status, 404);

    // Nobody sets the password of another organization's user.
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let foreign = format!("/api/organizations/platform/users/{ada}/password-link");
    assert_eq!(owner.call("POST", &foreign, &Value::Null).await.status, 404);
    server.stop().await;
}

async fn make_sign_in_link(admin: &Admin<'_>, user: &str) -> String {
    let link = admin.make(&format!("{USERS}/{user}/sign-in-link"), Value::Null).await;
    path_of(text(&link, "url"))
}

/// Somebody registers another person's address before that person has an account.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_before_the_address_was_verified_is_void() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for (email, by_password) in [("victim@acme.test", true), ("other@acme.test", false)] {
        let mut thief = server.browser();
        let csrf = thief.get("/o/acme/signup").await.input("csrf");
        let fields = [("csrf", &*csrf), ("email", email), ("name", ""), ("password", "known to the thief")];
        assert_eq!(thief.post("/o/acme/signup", &fields).await.status, 303);
        assert_eq!(account(&mut thief).await, 200);
        let id = user_id(&admin, email).await;

        let mut victim = server.browser();
        if by_password {
            let page = open_link(&mut victim, &make_link(&admin, &id).await).await;
            assert_eq!(set(&mut victim, &page, NEW).await.status, 303);
        } else {
            let link = make_sign_in_link(&admin, &id).await;
            assert_eq!(use_sign_in_link(&mut victim, &link).await.status, 303);
        }
        assert_eq!(account(&mut victim).await, 200, "{email}");
        assert_eq!(account(&mut thief).await, 303, "{email}: the session from before has ended");
        let tried = server.browser().sign_in_with("acme", email, "known to the thief").await;
        assert_eq!(tried.status, 422, "{email}: the password from before is void");
        assert_eq!(admin.read(&format!("{USERS}/{id}")).await["email_verified"], true);
    }

    // A verified address loses nothing by a sign-in link.
    let mut ada = server.browser();
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    let link = make_sign_in_link(&admin, &user_id(&admin, "ada@acme.test").await).await;
    let mut second = server.browser();
    assert_eq!(use_sign_in_link(&mut second, &link).await.status, 303);
    assert_eq!(account(&mut ada).await, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_changes_the_password_with_the_old_one_or_soon_after_signing_in() {
    let server = TestServer::start().await;
    let old = server.password("ada@acme.test").to_owned();
    let (mut browser, mut elsewhere) = (server.browser(), server.browser());
    for one in [&mut browser, &mut elsewhere] {
        assert_eq!(one.sign_in("acme", "ada@acme.test").await.status, 303);
    }
    assert_eq!(server.get(CHANGE).send().await.status, 303, "nobody is signed in");
    let page = browser.get(CHANGE).await;
    assert!(!page.body.contains("Current password"), "just signed in: {page:?}");
    assert_eq!(change(&mut browser, "", "short").await.status, 422);

    server.clock.advance(Duration::from_secs(600));
    let page = browser.get(CHANGE).await;
    assert!(page.body.contains("Current password"), "{page:?}");
    for (what, wrong) in [("wrong", "wrong horse battery"), ("nothing", ""), ("the new one", NEW)] {
        let refused = change(&mut browser, wrong, NEW).await;
        assert_eq!(refused.status, 422, "{what}");
        assert!(refused.body.contains("The current password is wrong."), "{what}: {refused:?}");
    }
    let forged = browser.post(CHANGE, &[("csrf", "x"), ("password", &old), ("new_password", NEW)]).await;
    assert_eq!(forged.status, 403);
    assert_eq!((account(&mut browser).await, account(&mut elsewhere).await), (200, 200));

    let done = change(&mut browser, &old, NEW).await;
    assert_eq!((done.status, done.header("location")), (303, "/o/acme/account"), "{done:?}");
    assert!(browser.get("/o/acme/account").await.body.contains("Your password is changed."));
    assert_eq!(account(&mut elsewhere).await, 303, "other sessions have ended");
    assert_eq!(server.browser().sign_in("acme", "ada@acme.test").await.status, 422, "the old one");
    assert_eq!(elsewhere.sign_in_with("acme", "ada@acme.test", NEW).await.status, 303, "the new one");
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let row = actions(&admin).await.into_iter().find(|(action, _)| action == "user.password_changed");
    assert_eq!(row.map(|(_, ended)| ended).as_deref(), Some("1"), "one session ended");

    // Shortly after a sign-in, the old one is not needed.
    assert_eq!(change(&mut elsewhere, "", "another set of words").await.status, 303);
    assert_eq!(account(&mut browser).await, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_a_password_sets_one_only_soon_after_signing_in() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let user = make_user(&admin, "linked@acme.test").await;
    let mut browser = server.browser();
    let link = make_sign_in_link(&admin, &user).await;
    assert_eq!(use_sign_in_link(&mut browser, &link).await.status, 303);
    server.clock.advance(Duration::from_secs(600));
    let page = browser.get(CHANGE).await;
    assert!(page.body.contains("This account has no password"), "{page:?}");
    let csrf = browser.get("/o/acme/account").await.input("csrf");
    let fields = [("csrf", &*csrf), ("password", ""), ("new_password", NEW)];
    assert_eq!(browser.post(CHANGE, &fields).await.status, 422);
    assert_eq!(server.browser().sign_in_with("acme", "linked@acme.test", NEW).await.status, 422);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_is_let_in_again_by_a_link_that_the_audit_trail_names() {
    let server = TestServer::start().await;
    let recover =
        async |email: &str| server::owner_recovery::link(&server.app, email, "user 7 of the machine").await;
    for nobody in ["nobody@sarsen.test", "ada@acme.test", "admin@acme.test"] {
        let refused = recover(nobody).await.expect_err("no owner").to_string();
        assert_eq!(refused, "platform owner with this e-mail address not found", "{nobody}");
    }
    let made = recover(" OWNER@sarsen.test").await.expect("a link");
    let mut browser = server.browser();
    let page = open_link(&mut browser, &path_of(&made.url)).await;
    let done = set(&mut browser, &page, NEW).await;
    assert_eq!((done.status, done.header("location")), (303, "/console"), "{done:?}");
    assert_eq!(browser.get("/console").await.status, 200);
    assert_eq!(server.browser().sign_in("platform", "owner@sarsen.test").await.status, 422);

    let token =
        tokens_of(&server, &mut browser, &Ask::by("console", CONSOLE).with("scope", "org:platform")).await;
    let owner = Admin { server: &server, token: token.text("access_token") };
    let trail = owner.read("/api/organizations/platform/audit").await;
    let rows = trail["items"].as_array().expect("entries");
    let row = rows.iter().find(|row| text(row, "action") == "owner.recovered").expect("a row");
    let said = ["actor", "target_name", "details"].map(|name| text(row, name));
    assert_eq!(said, ["system", "owner@sarsen.test", "asked by user 7 of the machine"], "{row}");

    let late = recover("owner@sarsen.test").await.expect("a link");
    server.clock.advance(Duration::from_secs(3600));
    assert_eq!(open_link(&mut browser, &path_of(&late.url)).await.status, 404, "an hour is over");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_owner_is_let_in_again() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform org:platform").await;
    let made = owner.make("/api/platform/owners", json!({ "email": "second@sarsen.test" })).await;
    let link = path_of(text(&made, "url"));
    assert_eq!(accept_as_new(&mut server.browser(), &link, NEW).await.status, 303);
    let mut second = server.browser();
    second.sign_in_with("platform", "second@sarsen.test", NEW).await;
    let ask = Ask::by("console", CONSOLE).with("scope", "org:platform");
    let rogue =
        Admin { server: &server, token: tokens_of(&server, &mut second, &ask).await.text("access_token") };
    let users = "/api/organizations/platform/users";
    let suspension = format!("{users}/{}/suspension", text(&claims(&owner.token), "sub"));
    rogue.change("PUT", &suspension, json!({ "reason": "mine now" })).await;
    let suspended = server.browser().sign_in("platform", "owner@sarsen.test").await;
    assert_eq!(suspended.status, 422, "{suspended:?}");

    let made = server::owner_recovery::link(&server.app, "owner@sarsen.test", "user 7 of the machine").await;
    // The password may be why the owner was suspended: it is not let in again, and a rogue may suspend the owner again.
    let old = server.browser().sign_in("platform", "owner@sarsen.test").await;
    assert_eq!(old.status, 422, "{old:?}");
    rogue.change("PUT", &suspension, json!({ "reason": "still mine" })).await;
    let mut browser = server.browser();
    let page = open_link(&mut browser, &path_of(&made.expect("a link").url)).await;
    let done = set(&mut browser, &page, "other words in a row").await;
    assert_eq!((done.status, done.header("location")), (303, "/console"), "{done:?}");
    let owner =
        Admin { server: &server, token: tokens_of(&server, &mut browser, &ask).await.text("access_token") };
    let trail = owner.read("/api/organizations/platform/audit?action=user.activated").await;
    assert_eq!(text(&trail["items"][0], "target_name"), "owner@sarsen.test", "{trail}");
    let trail = owner.read("/api/organizations/platform/audit?action=owner.recovered").await;
    assert_eq!(text(&trail["items"][0], "actor"), "system", "{trail}");
    let old = server.browser().sign_in("platform", "owner@sarsen.test").await;
    assert_eq!(old.status, 422, "{old:?}");
    server.stop().await;
}
