//! Forms that one browser sends twice: a second click, or an answer that was lost. The second one ends where the first did.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer, at_once};
use std::time::Duration;

const PASSWORD: &str = "correct horse battery";

/// Sends a form with the cookies that a browser had before the first answer.
struct Clicks<'s> {
    server: &'s TestServer,
    path: &'static str,
    cookies: String,
}

impl<'s> Clicks<'s> {
    fn of(server: &'s TestServer, browser: &TestBrowser<'_>, path: &'static str) -> Clicks<'s> {
        Clicks { server, path, cookies: browser.cookies.header().expect("cookies") }
    }

    async fn send(&self, fields: &[(&str, &str)]) -> Answer {
        self.server.post(self.path, fields).header("cookie", &self.cookies).send().await
    }
}

fn goes_to(answer: &Answer, location: &str) {
    assert_eq!((answer.status, answer.header("location")), (303, location), "{answer:?}");
}

/// The page that the session of an answer opens.
async fn signed_in(server: &TestServer, answer: &Answer, page: &str) -> u16 {
    let mut browser = server.browser();
    browser.cookies.take_from(answer.headers.iter().map(|(name, value)| (name.as_str(), value)));
    browser.get(page).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_sign_up_of_the_same_browser_signs_in() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    let csrf = browser.get("/o/acme/signup").await.input("csrf");
    let clicks = Clicks::of(&server, &browser, "/o/acme/signup");
    let fields = |password| {
        [("csrf", &*csrf), ("email", "New.User@acme.test"), ("name", "Grace"), ("password", password)]
    };
    for _ in 0..2 {
        let answer = clicks.send(&fields(PASSWORD)).await;
        goes_to(&answer, "/o/acme/account");
        assert_eq!(signed_in(&server, &answer, "/o/acme/account").await, 200);
    }
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let found = admin.read("/api/organizations/acme/users?email=new.user@acme.test").await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "one account: {found}");

    let taken = |answer: &Answer| {
        assert!(
            answer.status == 422 && answer.body.contains("There is an account with this e-mail"),
            "{answer:?}"
        );
    };
    taken(&clicks.send(&fields("another good password")).await);
    let mut other = server.browser();
    let csrf_of_other = other.get("/o/acme/signup").await.input("csrf");
    let [_, rest @ ..] = fields(PASSWORD);
    let of_other = [&[("csrf", &*csrf_of_other)], &rest[..]].concat();
    taken(&other.post("/o/acme/signup", &of_other).await);
    server.clock.advance(Duration::from_secs(60));
    taken(&clicks.send(&fields(PASSWORD)).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_on_sign_up_at_once_all_sign_in() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    let csrf = browser.get("/o/acme/signup").await.input("csrf");
    let clicks = Clicks::of(&server, &browser, "/o/acme/signup");
    let fields = [("csrf", &*csrf), ("email", "new.user@acme.test"), ("name", ""), ("password", PASSWORD)];
    for answer in at_once((0..3).map(|_| clicks.send(&fields))).await {
        goes_to(&answer, "/o/acme/account");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_that_is_accepted_twice_leads_to_the_console_twice() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let link = owner.invite("grace@navy.test", "admin").await;
    let mut grace = server.browser();
    let page = open_invitation(&mut grace, &link).await;
    let (csrf, id) = (page.input("csrf"), page.input("invitation"));
    let clicks = Clicks::of(&server, &grace, "/invitation");
    let fields =
        |password| [("csrf", &*csrf), ("invitation", &*id), ("name", "Grace"), ("password", password)];
    for _ in 0..2 {
        let answer = clicks.send(&fields(PASSWORD)).await;
        goes_to(&answer, "/console");
        assert_eq!(signed_in(&server, &answer, "/console").await, 200);
    }
    assert_eq!(clicks.send(&fields("another good password")).await.status, 404);
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(clicks.send(&fields(PASSWORD)).await.status, 404, "a minute is over");

    // The same with an account that exists: its session accepts.
    let link = owner.invite("owner@sarsen.test", "admin").await;
    let mut known = server.browser();
    known.sign_in("platform", "owner@sarsen.test").await;
    let page = open_invitation(&mut known, &link).await;
    let (csrf, id) = (page.input("csrf"), page.input("invitation"));
    let clicks = Clicks::of(&server, &known, "/invitation");
    for _ in 0..2 {
        goes_to(&clicks.send(&[("csrf", &*csrf), ("invitation", &*id)]).await, "/console");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_form_that_is_sent_twice_signs_the_owner_in_twice() {
    let server = TestServer::start_empty().await;
    let link = path_of(&server::first_start::link(&server.app).await.expect("asks").expect("no owner yet"));
    let mut browser = server.browser();
    let page = open_link(&mut browser, &link).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let clicks = Clicks::of(&server, &browser, "/setup");
    let fields = |email, password| {
        [("csrf", &*csrf), ("link", &*id), ("email", email), ("name", "Olga"), ("password", password)]
    };
    for _ in 0..2 {
        let answer = clicks.send(&fields("olga@sarsen.test", PASSWORD)).await;
        goes_to(&answer, "/console");
        assert_eq!(signed_in(&server, &answer, "/console").await, 200);
    }
    assert_eq!(clicks.send(&fields("olga@sarsen.test", "another good password")).await.status, 404);
    assert_eq!(clicks.send(&fields("paul@sarsen.test", PASSWORD)).await.status, 404, "one owner");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(clicks.send(&fields("olga@sarsen.test", PASSWORD)).await.status, 404, "a minute is over");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_password_that_is_sent_twice_is_one_change() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    // So late the old password is asked for.
    server.clock.advance(Duration::from_secs(3600));
    let csrf = ada.get("/o/acme/account/password").await.input("csrf");
    let clicks = Clicks::of(&server, &ada, "/o/acme/account/password");
    let old = server.password("ada@acme.test");
    let fields = [("csrf", &*csrf), ("password", old), ("new_password", PASSWORD)];
    for _ in 0..2 {
        goes_to(&clicks.send(&fields).await, "/o/acme/account");
    }
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let changes = admin.read("/api/organizations/acme/audit?action=user.password_changed").await;
    assert_eq!(changes["items"].as_array().map(Vec::len), Some(1), "{changes}");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(clicks.send(&fields).await.status, 422, "a minute is over");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_link_that_is_used_twice_leads_to_the_account_twice() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let made = admin.make("/api/organizations/acme/users", json!({ "email": "new@acme.test" })).await;
    let user = format!("/api/organizations/acme/users/{}", text(&made, "id"));
    let link = path_of(text(&admin.make(&format!("{user}/password-link"), Value::Null).await, "url"));
    let mut browser = server.browser();
    let page = open_link(&mut browser, &link).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let clicks = Clicks::of(&server, &browser, "/password");
    for _ in 0..2 {
        let answer = clicks.send(&[("csrf", &*csrf), ("link", &*id), ("password", PASSWORD)]).await;
        goes_to(&answer, "/o/acme/account");
    }
    server.stop().await;
}
