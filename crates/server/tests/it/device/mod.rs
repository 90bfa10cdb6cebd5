//! The device grant (RFC 8628): the story, and every attack on it (SECURITY, section 3).

mod codes;
mod decision;
mod options;
mod polling;
mod power;

use identity::audit::Actor;
use identity::clients::DEVICE_GRANT;
use identity::organization_decisions;
use identity::organizations::{self, Organization};
use identity::sessions;
use identity::user_suspensions;
use identity::users::{self, User};
use server::testing::{Answer, Request, TestBrowser, TestServer};
use std::collections::BTreeSet;
use store::Tx;

/// A device of the demo's command line asks for codes.
pub(crate) async fn codes(server: &TestServer) -> Answer {
    codes_for(server, server.client("cli"), None).await
}

pub(crate) async fn codes_for(server: &TestServer, client: &str, scope: Option<&str>) -> Answer {
    let fields: Vec<_> =
        [("client_id", client)].into_iter().chain(scope.map(|scope| ("scope", scope))).collect();
    let answer = server.post("/auth/device/code", &fields).send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

pub(crate) async fn poll(server: &TestServer, codes: &Answer) -> Answer {
    poll_as(server, codes, server.client("cli")).await
}

async fn poll_as(server: &TestServer, codes: &Answer, client: &str) -> Answer {
    polling(server, &codes.text("device_code"), client).send().await
}

pub(crate) fn polling<'s>(server: &'s TestServer, device_code: &str, client: &str) -> Request<'s> {
    let fields = [("grant_type", DEVICE_GRANT), ("device_code", device_code), ("client_id", client)];
    server.post("/auth/token", &fields)
}

/// A browser in which a user of acme is signed in.
pub(crate) async fn signed_in<'s>(server: &'s TestServer, email: &str) -> TestBrowser<'s> {
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("acme", email).await.status, 303);
    browser
}

pub(crate) async fn allow(browser: &mut TestBrowser<'_>, codes: &Answer) {
    let done = browser.decide(&codes.text("user_code"), "allow").await;
    assert!(done.body.contains("signed in"), "{done:?}");
}

/// Ada allows it in a browser of her own.
pub(crate) async fn ada_allows(server: &TestServer, codes: &Answer) {
    allow(&mut signed_in(server, "ada@acme.test").await, codes).await;
}

/// The whole story, for tests that begin where it ends.
pub(crate) async fn ada_on_a_device(server: &TestServer) -> Answer {
    let codes = codes(server).await;
    ada_allows(server, &codes).await;
    let tokens = poll(server, &codes).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    tokens
}

/// Signs the browser out of acme.
pub(crate) async fn sign_out(browser: &mut TestBrowser<'_>) {
    let page = browser.get("/o/acme/logout").await;
    let csrf = page.input("csrf");
    assert_eq!(browser.post("/o/acme/logout", &[("csrf", &csrf)]).await.status, 303);
}

/// What the program itself does in the organization acme.
pub(crate) async fn in_acme<F>(server: &TestServer, command: F)
where
    F: Fn(&mut Tx<'_>, &Organization, &Actor) -> identity::Result<()> + Send + 'static,
{
    let actor = server.app.system();
    let done = server.app.store.write("test", move |tx| {
        let acme = organizations::find(tx.snapshot(), "acme")?;
        command(tx, &acme, &actor)
    });
    done.await.expect("done");
}

pub(crate) fn ada(tx: &mut Tx<'_>, acme: &Organization) -> identity::Result<User> {
    Ok(users::find(tx.snapshot(), &acme.id, "ada@acme.test")?.expect("Ada"))
}

pub(crate) async fn suspend_ada(server: &TestServer) {
    in_acme(server, |tx, acme, actor| {
        let user = ada(tx, acme)?;
        user_suspensions::suspend(tx, &user, None, actor).map(|_| ())
    })
    .await;
}

pub(crate) async fn end_sessions_of_ada(server: &TestServer) {
    in_acme(server, |tx, acme, actor| {
        let user = ada(tx, acme)?;
        sessions::end_all_for(tx, &user, actor).map(|_| ())
    })
    .await;
}

pub(crate) async fn suspend_acme(server: &TestServer) {
    in_acme(server, |tx, acme, actor| organization_decisions::suspend(tx, acme, None, actor).map(|_| ()))
        .await;
}

/// Status and error of a refusal, which is an RFC error object and nothing else, and which nobody keeps.
pub(crate) fn refusal(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    let fields: BTreeSet<&str> =
        body.as_object().into_iter().flat_map(|body| body.keys()).map(|name| &**name).collect();
    assert_eq!(fields, BTreeSet::from(["error", "error_description"]), "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    // RFC 6749 section 5.2: no quotation mark, no backslash, nothing but ASCII.
    let plain = |letter: char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
    assert!(answer.text("error_description").chars().all(plain), "{answer:?}");
    answer.error()
}

pub(crate) fn error(status: u16, name: &str) -> (u16, String) {
    (status, name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_signed_in_by_its_user_in_a_browser() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    assert_eq!(codes.header("cache-control"), "no-store");
    assert_eq!(codes.json()["interval"], 5);
    assert_eq!(codes.json()["expires_in"], 900);
    assert_eq!(codes.text("verification_uri"), "http://127.0.0.1:7070/activate");
    let user_code = codes.text("user_code");
    assert_eq!(
        codes.text("verification_uri_complete"),
        format!("http://127.0.0.1:7070/activate?user_code={user_code}")
    );
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"));

    let mut ada = server.browser();
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    let done = ada.decide(&user_code, "allow").await;
    assert!(done.body.contains("signed in"), "{done:?}");

    let tokens = poll(&server, &codes).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    assert_eq!(tokens.header("cache-control"), "no-store");
    assert_eq!(tokens.text("token_type"), "Bearer");
    assert_eq!(tokens.text("scope"), "profile email");
    let subscription = server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await;
    assert_eq!((subscription.status, subscription.text("plan")), (200, "pro".to_owned()), "{subscription:?}");
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "invalid_grant"), "a code is used once");
    server.stop().await;
}

/// Somebody signs in a terminal of those who administer, with the password once more at the approval.
pub(crate) async fn administers(server: &TestServer, email: &str, scope: &str) -> Answer {
    let codes = codes_for(server, "cli", Some(scope)).await;
    let mut browser = server.browser();
    browser.sign_in("platform", email).await;
    let code = codes.text("user_code");
    let page = browser.type_code(&code).await;
    let (csrf, session, password) = (page.input("csrf"), page.input("session"), server.password(email));
    let fields = [
        ("csrf", &*csrf),
        ("session", &session),
        ("user_code", &code),
        ("decision", "allow"),
        ("password", password),
    ];
    let done = browser.post("/activate", &fields).await;
    assert!(done.body.contains("signed in"), "{done:?}");
    let tokens = poll_as(server, &codes, "cli").await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    tokens
}
