//! Pages: what each form takes and refuses, and where it leads.

use super::{Call, People, Recording, get, is_recorded, post, recorded_server};
use crate::support::{Ask, path_of, text};
use browser::Cookies;
use outgoing::Relay;
use serde_json::json;
use server::Settings;
use server::testing::TestServer;

const PASSWORD: &str = "correct horse battery";

#[tokio::test(flavor = "multi_thread")]
async fn page_flows() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    sign_in(&server, to).await;
    sign_up(&server, to).await;
    account(&server, to).await;
    links(&people, to).await;
    demo(&server, to).await;
    insta::assert_snapshot!("page_flows", to.finish());
    server.stop().await;
}

async fn sign_in(server: &TestServer, to: &mut Recording) {
    to.section("Sign-in");
    for (path, email) in [("/o/acme/login", "ada@acme.test"), ("/login", "owner@sarsen.test")] {
        let mut browser = Cookies::default();
        let page = to.browse(server, &mut browser, "the page", get(path)).await;
        let csrf = page.input("csrf");
        let form = |email: &str, password: &str| {
            post(path).form(&[("csrf", &*csrf), ("email", email), ("password", password)])
        };
        to.browse(server, &mut browser, "a wrong password", form(email, "wrong")).await;
        to.browse(server, &mut browser, "nothing typed", form("", "")).await;
        to.browse(server, &mut browser, "a forged form", post(path).form(&[("email", email)])).await;
        to.browse(server, &mut browser, "signed in", form(email, server.password(email))).await;
        to.browse(server, &mut browser, "the page, signed in", get(path)).await;
    }
    let mut browser = Cookies::default();
    let json = post("/o/acme/login").body("application/json", "{}");
    to.browse(server, &mut browser, "no form", json).await;
    let large = post("/o/acme/login").body("application/x-www-form-urlencoded", vec![b'a'; 64 * 1024 + 1]);
    to.browse(server, &mut browser, "too large", large).await;
    to.browse(server, &mut browser, "with a way back", get("/o/acme/login?next=%2Factivate")).await;
    to.browse(server, &mut browser, "with a way elsewhere", get("/o/acme/login?next=//evil.example")).await;
    to.browse(server, &mut browser, "no organization", get("/o/nobody/login")).await;
    to.browse(server, &mut browser, "the console, signed out", get("/console")).await;
    let mut owner = server.browser();
    owner.sign_in("platform", "owner@sarsen.test").await;
    to.browse(server, &mut owner.cookies, "the console", get("/console")).await;
}

async fn sign_up(server: &TestServer, to: &mut Recording) {
    to.section("Sign-up");
    let path = "/o/acme/signup";
    let mut browser = Cookies::default();
    let page = to.browse(server, &mut browser, "the page", get(path)).await;
    let csrf = page.input("csrf");
    let form = |email: &str, password: &str| {
        post(path).form(&[("csrf", &*csrf), ("email", email), ("name", "New"), ("password", password)])
    };
    to.browse(server, &mut browser, "an address that is none", form("new", PASSWORD)).await;
    to.browse(server, &mut browser, "a password that is too short", form("new@acme.test", "short")).await;
    to.browse(server, &mut browser, "an address that is taken", form("ada@acme.test", PASSWORD)).await;
    to.browse(server, &mut browser, "signed up", form("new@acme.test", PASSWORD)).await;
    to.browse(server, &mut browser, "closed", get("/o/platform/signup")).await;
    to.browse(server, &mut browser, "closed", post("/o/platform/signup").form(&[("csrf", &csrf)])).await;
}

async fn account(server: &TestServer, to: &mut Recording) {
    to.section("Account");
    let mut ada = server.browser();
    to.browse(server, &mut Cookies::default(), "signed out", get("/o/acme/account")).await;
    ada.sign_in("acme", "ada@acme.test").await;
    let ask = Ask::of(server, "spa").with("prompt", "consent").with("scope", "openid email offline_access");
    let page = ada.get(&ask.path()).await;
    let own = ["csrf", "next", "session"].map(|name| (name, page.input(name)));
    let mut fields: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, &**value)).collect();
    fields.push(("decision", "allow"));
    ada.post("/consent", &fields).await;
    let page = to.browse(server, &mut ada.cookies, "the page", get("/o/acme/account")).await;
    let csrf = page.input("csrf");
    let with = |path: &str, fields: &[(&str, &str)]| -> Call {
        post(path).form(&[&[("csrf", &*csrf)], fields].concat())
    };
    let consents = "/o/acme/account/consents";
    to.browse(
        server,
        &mut ada.cookies,
        "consent withdrawn",
        with(consents, &[("withdraw", server.client("spa"))]),
    )
    .await;
    to.browse(server, &mut ada.cookies, "no consent", with(consents, &[("withdraw", "x")])).await;
    to.browse(server, &mut ada.cookies, "a forged form", post(consents).form(&[])).await;
    let sessions = "/o/acme/account/sessions";
    to.browse(server, &mut ada.cookies, "other sessions end", with(sessions, &[("end", "others")])).await;
    to.browse(server, &mut ada.cookies, "no session", with(sessions, &[("end", "x")])).await;
    to.browse(server, &mut ada.cookies, "a forged form", post(sessions).form(&[("end", "others")])).await;
    let path = "/o/acme/account/password";
    to.browse(server, &mut ada.cookies, "the page of the password", get(path)).await;
    let change = |new: &str| with(path, &[("new_password", new)]);
    to.browse(server, &mut ada.cookies, "too short", change("short")).await;
    to.browse(server, &mut ada.cookies, "changed", change(PASSWORD)).await;
    to.browse(server, &mut ada.cookies, "the way out", get("/o/acme/logout")).await;
    to.browse(server, &mut ada.cookies, "a forged form", post("/o/acme/logout").form(&[])).await;
    to.browse(server, &mut ada.cookies, "signed out", with("/o/acme/logout", &[])).await;
}

async fn links(people: &People<'_>, to: &mut Recording) {
    to.section("Links");
    let server = people.server;
    for path in ["/o/acme/link", "/password", "/invitation", "/setup"] {
        to.browse(server, &mut Cookies::default(), "no link in this browser", get(path)).await;
        to.browse(server, &mut Cookies::default(), "a link that is none", get(format!("{path}?token=x")))
            .await;
        to.browse(server, &mut Cookies::default(), "a forged form", post(path).form(&[])).await;
    }
    let admin = people.as_admin();
    let body = json!({ "email": "linked@acme.test", "password_link": true });
    let made = admin.make("/api/organizations/acme/users", body).await;
    let link = path_of(text(&made["password_link"], "url"));
    let mut browser = Cookies::default();
    let opened = to.browse(server, &mut browser, "a link that sets a password", get(&link)).await;
    let page = to.browse(server, &mut browser, "its page", get(opened.header("location"))).await;
    let form = |password: &str| {
        post("/password").form(&[
            ("csrf", &*page.input("csrf")),
            ("link", &*page.input("link")),
            ("password", password),
        ])
    };
    to.browse(server, &mut browser, "too short", form("short")).await;
    to.browse(server, &mut browser, "set", form(PASSWORD)).await;

    let link = admin.invite("invited@acme.test", "member").await;
    let mut browser = Cookies::default();
    to.browse(server, &mut browser, "an invitation", get(&link)).await;
    let page = to.browse(server, &mut browser, "its page", get("/invitation")).await;
    let own = [("csrf", page.input("csrf")), ("invitation", page.input("invitation"))];
    let form = |name: &str, password: &str| {
        let mut fields: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, &**value)).collect();
        fields.extend([("name", name), ("password", password)]);
        post("/invitation").form(&fields)
    };
    to.browse(server, &mut browser, "no name", form("", PASSWORD)).await;
    to.browse(server, &mut browser, "accepted", form("Invited", PASSWORD)).await;
    to.browse(server, &mut browser, "accepted again", get(&link)).await;

    let ada = admin.read("/api/organizations/acme/users?email=grace@acme.test").await;
    let user = text(&ada["items"][0], "id").to_owned();
    let token = server.app.secret_key.derive(&["dev sign-in", user.as_str()]);
    let link = format!("/dev/sign-in?user={user}&token={token}");
    to.browse(server, &mut Cookies::default(), "only the server of `sarsen dev`", get(link)).await;
}

async fn demo(server: &TestServer, to: &mut Recording) {
    to.section("The demo");
    let mut browser = Cookies::default();
    to.browse(server, &mut browser, "the first page", get("/")).await;
    to.browse(server, &mut browser, "a product", get("/demo/sketch")).await;
    to.browse(server, &mut browser, "no product", get("/demo/nothing")).await;
    to.browse(server, &mut browser, "its stream, signed out", get("/demo/sketch/live")).await;
    to.browse(server, &mut browser, "its callback, unasked", get("/demo/sketch/callback?code=x")).await;
    to.browse(server, &mut browser, "its sign-in", get("/demo/sketch/login")).await;
    to.browse(server, &mut browser, "its sign-out", get("/demo/sketch/logout")).await;
    to.browse(server, &mut browser, "no mailbox here", get("/dev/mail")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_start() {
    if !is_recorded() {
        return;
    }
    let change = |settings: &mut Settings| {
        settings.dev_sign_in = true;
        settings.mail = Some(Relay::kept());
    };
    let server = recorded_server(change, false).await;
    let to = &mut Recording::bare();
    to.send(&server, "nobody owns it yet", get("/login")).await;
    to.send(&server, "the first page", get("/")).await;
    let link = server::first_start::link(&server.app).await.expect("asks").expect("no owner yet");
    let mut browser = Cookies::default();
    to.browse(&server, &mut browser, "the link", get(path_of(&link))).await;
    let page = to.browse(&server, &mut browser, "its page", get("/setup")).await;
    let own = [("csrf", page.input("csrf")), ("link", page.input("link"))];
    let form = |email: &str, password: &str| {
        let mut fields: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, &**value)).collect();
        fields.extend([("email", email), ("name", "Olga"), ("password", password)]);
        post("/setup").form(&fields)
    };
    to.browse(&server, &mut browser, "no address", form("olga", PASSWORD)).await;
    to.browse(&server, &mut browser, "the first owner", form("olga@sarsen.test", PASSWORD)).await;
    to.browse(&server, &mut browser, "the link is used", get(path_of(&link))).await;
    to.browse(&server, &mut browser, "the console", get("/console")).await;
    to.send(&server, "a link of `sarsen dev` that is none", get("/dev/sign-in?user=x&token=x")).await;
    for path in ["/dev/mail", "/dev/mail.json?to=ada@acme.test", "/dev/mail/1", "/dev/mail/1/html"] {
        to.send(&server, "no mail yet", get(path)).await;
    }
    insta::assert_snapshot!("first_start", to.finish());
    server.stop().await;
}
