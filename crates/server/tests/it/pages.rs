//! What people see, as it comes over the wire: one snapshot a page. A change of a page shows as a diff of these.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestServer};
use std::time::Duration;

/// Status and page, one tag a line, without what differs from run to run.
fn shown(answer: &Answer) -> String {
    let csrf = answer.input("csrf");
    let mut body = answer.body.replace("><", ">\n<");
    if !csrf.is_empty() {
        body = body.replace(&csrf, "[csrf]");
    }
    format!("{}\n\n{}\n", answer.status, without_versions(&masked_notes(&masked_ids(&body))))
}

/// The addresses of stylesheet and logo without the hash of their content.
fn without_versions(text: &str) -> String {
    let mut pieces = text.split("?v=");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.trim_start_matches(|letter| letter != '"'))
}

/// The same without a user code, written or spelled.
fn without_code(answer: &Answer, code: &str) -> String {
    let letters: Vec<String> = code.chars().filter(|letter| *letter != '-').map(String::from).collect();
    let text = shown(answer).replace(code, "[code]").replace(&letters.join(" "), "[c o d e]");
    ["typed%253D", "link%253D"].into_iter().fold(text, |text, tag| match text.split_once(tag) {
        Some((before, after)) => format!("{before}{tag}[tag]{}", after.get(43..).unwrap_or_default()),
        None => text,
    })
}

/// TypeIDs, like `client_01h…`, without their random half.
fn masked_ids(text: &str) -> String {
    let is_id = |letter: char| letter.is_ascii_digit() || letter.is_ascii_lowercase();
    let mut masked = String::new();
    for word in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        let id = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let of_a_prefix = masked.ends_with('_') && id.len() == 26 && id.chars().all(is_id);
        masked.push_str(if of_a_prefix { "[id]" } else { id });
        masked.push_str(&word[id.len()..]);
    }
    masked
}

/// Our own notes in addresses, without moment and tag.
fn masked_notes(text: &str) -> String {
    let mut pieces = text.split("sarsen_asked");
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(['=', '%', '3', 'D', '2', '5']);
        let rest = rest
            .trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "._-[]".contains(letter));
        masked.push_str("sarsen_asked=[note]");
        masked.push_str(rest);
    }
    masked
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_and_up() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    insta::assert_snapshot!("sign_in", shown(&browser.get("/o/acme/login").await));
    insta::assert_snapshot!("sign_in_platform", shown(&browser.get("/login").await));
    let asked = browser.get(&Ask::of(&server, "spa").path()).await;
    insta::assert_snapshot!("sign_in_for_a_client", shown(&browser.get(asked.header("location")).await));
    let wrong = browser.sign_in_with("acme", "\"><script>alert(1)</script>", "wrong").await;
    insta::assert_snapshot!("sign_in_wrong", shown(&wrong));
    insta::assert_snapshot!("sign_up", shown(&browser.get("/o/acme/signup").await));
    let csrf = browser.get("/o/acme/signup").await.input("csrf");
    let fields =
        [("csrf", &*csrf), ("email", "ada@acme.test"), ("name", "Ada II"), ("password", "correct horse")];
    insta::assert_snapshot!("sign_up_taken", shown(&browser.post("/o/acme/signup", &fields).await));
    let carried = browser.get("/o/acme/login?email=ada%40acme.test&next=%2Fo%2Facme%2Faccount").await;
    insta::assert_snapshot!("sign_in_with_email", shown(&carried));
    browser.sign_in("acme", "ada@acme.test").await;
    insta::assert_snapshot!("account", shown(&browser.get("/o/acme/account").await));
    server.clock.advance(Duration::from_secs(600));
    insta::assert_snapshot!("change_password", shown(&browser.get("/o/acme/account/password").await));
    browser.sign_in("acme", "ada@acme.test").await;
    let fields = [("client_id", server.client("cli"))];
    let begun = server.post("/auth/device/code", &fields).send().await;
    browser.decide(&begun.text("user_code"), "allow").await;
    let redeemed = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("device_code", &*begun.text("device_code")),
        ("client_id", server.client("cli")),
    ];
    assert_eq!(server.post("/auth/token", &redeemed).send().await.status, 200);
    let account = browser.get("/o/acme/account").await;
    assert!(
        account.body.contains("<bdi>Acme command line</bdi>"),
        "a device goes by its whole name: {account:?}"
    );
    let fields = [("csrf", &*account.input("csrf")), ("end", "others")];
    assert_eq!(browser.post("/o/acme/account/sessions", &fields).await.status, 303);
    let codes = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    browser.decide(&codes.text("user_code"), "allow").await;
    let redeemed = [redeemed[0], ("device_code", &*codes.text("device_code")), redeemed[2]];
    assert_eq!(server.post("/auth/token", &redeemed).send().await.status, 200);
    insta::assert_snapshot!("account_and_a_device", shown(&browser.get("/o/acme/account").await));
    let again = browser.get("/o/acme/login?prompt=login").await;
    insta::assert_snapshot!("sign_in_again", shown(&again));
    let asked = browser.get("/o/acme/logout").await;
    insta::assert_snapshot!("sign_out", shown(&asked));
    let left = browser.post("/o/acme/logout", &[("csrf", &asked.input("csrf"))]).await;
    insta::assert_snapshot!("signed_out", shown(&browser.get(left.header("location")).await));
    browser.sign_in("acme", "ada@acme.test").await;
    browser.sign_in("platform", "owner@sarsen.test").await;
    let asked = browser.get("/auth/logout?post_logout_redirect_uri=https://evil.example/").await;
    insta::assert_snapshot!("sign_out_everywhere", shown(&asked));
    let asked = browser.get("/auth/logout?id_token_hint=x").await;
    insta::assert_snapshot!("sign_out_with_a_fault", shown(&asked));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowing_a_device() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    insta::assert_snapshot!("activate", shown(&ada.get("/activate").await));
    insta::assert_snapshot!("activate_wrong", shown(&ada.type_code("BCDF-GHJK").await));
    insta::assert_snapshot!("activate_link", shown(&ada.get("/activate?user_code=BCDF-GHJK").await));
    ada.sign_in("acme", "ada@acme.test").await;
    for decision in ["allow", "deny"] {
        let fields = [("client_id", server.client("cli"))];
        let request = server.post("/auth/device/code", &fields).header("user-agent", "acme/1.0 <on a mac>");
        let code = request.send().await.text("user_code");
        let page = ada.open_code(&code).await;
        let without = |answer: &Answer| without_code(answer, &code);
        if decision == "allow" {
            insta::assert_snapshot!("activate_confirm", without(&page));
        }
        insta::assert_snapshot!(format!("activate_{decision}"), without(&ada.decide(&code, decision).await));
    }
    let mut owner = server.browser();
    owner.sign_in("platform", "owner@sarsen.test").await;
    let codes = [("client_id", "cli"), ("scope", "platform org:*")];
    let code = server.post("/auth/device/code", &codes).send().await.text("user_code");
    let page = owner.type_code(&code).await;
    insta::assert_snapshot!("activate_confirm_platform", without_code(&page, &code));
    let unproved = owner.decide(&code, "allow").await;
    insta::assert_snapshot!("activate_confirm_platform_wrong", without_code(&unproved, &code));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowing_a_client() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let ask = Ask::of(&server, "spa").with("prompt", "consent").with("scope", "openid email offline_access");
    insta::assert_snapshot!("consent", shown(&ada.get(&ask.path()).await));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepting_an_invitation() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let link = admin.invite("owner@sarsen.test", "admin").await;
    let mut browser = server.browser();
    insta::assert_snapshot!("invitation", shown(&open_invitation(&mut browser, &link).await));
    let taken = accept_as_new(&mut browser, &link, "correct horse battery").await;
    insta::assert_snapshot!("invitation_taken", shown(&taken));
    browser.sign_in("platform", "admin@acme.test").await;
    insta::assert_snapshot!("invitation_other_user", shown(&browser.get("/invitation").await));
    browser.sign_in("platform", "owner@sarsen.test").await;
    insta::assert_snapshot!("invitation_accept", shown(&browser.get("/invitation").await));
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let made = platform.make("/api/platform/owners", json!({ "email": "second@sarsen.test" })).await;
    let page = open_invitation(&mut server.browser(), &path_of(text(&made, "url"))).await;
    insta::assert_snapshot!("invitation_platform_owner", shown(&page));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn administering() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = "/api/organizations/acme/users";
    let made = admin.make(users, json!({ "email": "new@acme.test" })).await;
    let link = admin.make(&format!("{users}/{}/sign-in-link", text(&made, "id")), Value::Null).await;
    let path = text(&link, "url").strip_prefix(ISSUER).expect("an address of ours");
    insta::assert_snapshot!("one_time_link", shown(&open_link(&mut server.browser(), path).await));
    let link = admin.make(&format!("{users}/{}/password-link", text(&made, "id")), Value::Null).await;
    let mut new = server.browser();
    new.get(&path_of(text(&link, "url"))).await;
    insta::assert_snapshot!("set_password", shown(&new.get("/password").await));
    let mut owner = server.browser();
    owner.sign_in("platform", "owner@sarsen.test").await;
    let platform = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    platform.make("/api/organizations", json!({ "slug": "initech", "name": "Initech" })).await;
    insta::assert_snapshot!("console", shown(&owner.get("/console").await));
    let mut other = server.browser();
    other.sign_in("platform", "admin@acme.test").await;
    insta::assert_snapshot!("console_of_an_administrator", shown(&other.get("/console").await));
    for (organization, contact) in [("acme", "help@acme.test, or Ada in room 12"), ("platform", "Olga & co.")]
    {
        let owner = if organization == "acme" { "admin@acme.test" } else { "owner@sarsen.test" };
        let owner = Admin::sign_in(&server, owner, &format!("org:{organization}")).await;
        let path = format!("/api/organizations/{organization}/branding");
        owner.change("PUT", &path, json!({ "contact": contact })).await;
    }
    insta::assert_snapshot!("sign_in_contact", shown(&server.browser().get("/o/acme/login").await));
    insta::assert_snapshot!("no_sign_up_contact", shown(&server.get("/o/platform/signup").send().await));
    insta::assert_snapshot!("no_link_contact", shown(&server.get("/o/acme/link?token=x").send().await));
    server.stop().await;

    let empty = TestServer::start_empty().await;
    let url = server::first_start::link(&empty.app).await.expect("asks").expect("no owner yet");
    insta::assert_snapshot!("set_up", shown(&open_link(&mut empty.browser(), &path_of(&url)).await));
    empty.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_wrong() {
    let server = TestServer::start().await;
    let wrong = Ask::of(&server, "spa").with("redirect_uri", "https://evil.example/");
    insta::assert_snapshot!("wrong_redirect_uri", shown(&server.get(&wrong.path()).send().await));
    let unknown = Ask::by("client_x", CALLBACK);
    insta::assert_snapshot!("wrong_client", shown(&server.get(&unknown.path()).send().await));
    insta::assert_snapshot!(
        "wrong_sign_out",
        shown(&server.get("/auth/logout?id_token_hint=x").send().await)
    );
    insta::assert_snapshot!("signed_out_everywhere", shown(&server.get("/auth/logout").send().await));
    insta::assert_snapshot!("forged", shown(&server.post("/consent", &[]).send().await));
    insta::assert_snapshot!("no_page", shown(&server.get("/no/such/page").send().await));
    insta::assert_snapshot!("no_organization", shown(&server.get("/o/nobody/login").send().await));
    insta::assert_snapshot!("no_sign_up", shown(&server.get("/o/platform/signup").send().await));
    insta::assert_snapshot!("no_link", shown(&server.get("/o/acme/link?token=x").send().await));
    insta::assert_snapshot!("no_invitation", shown(&server.get("/invitation?token=x").send().await));
    insta::assert_snapshot!("no_kept_invitation", shown(&server.get("/invitation").send().await));
    insta::assert_snapshot!("no_password_link", shown(&server.get("/password?token=x").send().await));
    insta::assert_snapshot!("no_kept_password_link", shown(&server.get("/password").send().await));
    insta::assert_snapshot!("no_set_up", shown(&server.get("/setup?token=x").send().await));
    insta::assert_snapshot!("no_kept_set_up", shown(&server.get("/setup").send().await));
    insta::assert_snapshot!("no_kept_sign_in_link", shown(&server.get("/o/acme/link").send().await));
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    platform.change("PUT", "/api/platform/organizations/acme/suspension", json!({})).await;
    insta::assert_snapshot!("suspended", shown(&server.get("/o/acme/login").send().await));
    server.stop().await;
}
