//! What tokens say of how their user authenticated (`auth_time`, `acr`, `amr`), and `azp`: OpenID Connect Core 2, RFC 9068
//! section 2.2.1, RFC 9470 section 6.

use super::{basic, introspect, refreshing};
use crate::device::{self, ada_on_a_device, signed_in};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestServer};
use std::time::Duration;
use store::{Key, Sql, args};

const CLAIMS: [&str; 4] = ["auth_time", "acr", "amr", "azp"];

/// These claims of both tokens of an answer, which are the same in both, and of the access token's introspection.
async fn how(server: &TestServer, reader: &str, tokens: &Answer) -> [Value; 4] {
    let access = tokens.text("access_token");
    let seen = introspect(server, reader, &access).await.json();
    assert_eq!(seen["active"], true, "{seen}");
    let of = |claims: &Value| CLAIMS.map(|name| claims[name].clone());
    let found = of(&claims(&tokens.text("id_token")));
    assert_eq!(of(&claims(&access)), found, "the access token");
    assert_eq!(of(&seen), found, "introspection");
    found
}

/// How long ago the user authenticated, and by what.
fn expected(server: &TestServer, seconds_ago: i64, client: &str, amr: Option<&str>) -> [Value; 4] {
    let at = server.app.now().seconds() - seconds_ago;
    let (acr, amr) = (amr.map(|_| json!("1")), amr.map(|word| json!([word])));
    [json!(at), acr.unwrap_or_default(), amr.unwrap_or_default(), json!(server.client(client))]
}

fn offline(server: &TestServer) -> Ask {
    Ask::of(server, "spa").with("scope", "openid offline_access")
}

/// A sign-in of ada by a link that an administrator makes.
async fn sign_in_by_link(server: &TestServer, browser: &mut server::testing::TestBrowser<'_>) {
    let admin = Admin::sign_in(server, "admin@acme.test", "org:acme").await;
    let users = "/api/organizations/acme/users";
    let found = admin.read(&format!("{users}?email=ada@acme.test")).await;
    let links = format!("{users}/{}/sign-in-link", text(&found["items"][0], "id"));
    let link = path_of(text(&admin.make(&links, Value::Null).await, "url"));
    assert_eq!(use_sign_in_link(browser, &link).await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_say_how_their_user_authenticated_and_refreshed_ones_repeat_it() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    server.clock.advance(Duration::from_secs(60));
    let first = tokens_of(&server, &mut ada, &offline(&server)).await;
    assert_eq!(how(&server, "web", &first).await, expected(&server, 60, "spa", Some("pwd")));

    // By another method, in the same session: from now on that one counts.
    server.clock.advance(Duration::from_secs(60));
    sign_in_by_link(&server, &mut ada).await;
    let second = tokens_of(&server, &mut ada, &offline(&server)).await;
    assert_eq!(how(&server, "web", &second).await, expected(&server, 0, "spa", Some("link")));
    let sid = |tokens: &Answer| claims(&tokens.text("id_token"))["sid"].clone();
    assert_eq!(sid(&second), sid(&first), "the session is the same");

    // A refresh is no authentication (OpenID Connect Core 12.2): each grant keeps its own.
    let refreshed = refreshing(&server, "spa", &first.text("refresh_token")).send().await;
    assert_eq!(how(&server, "web", &refreshed).await, expected(&server, 120, "spa", Some("pwd")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_has_the_authentication_of_the_browser_that_allowed_it() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let before = server.app.now();
    server.clock.advance(Duration::from_secs(60));
    let codes = device::codes_for(&server, server.client("cli"), Some("openid offline_access")).await;
    device::allow(&mut ada, &codes).await;
    sign_in_by_link(&server, &mut ada).await;
    let tokens = device::poll(&server, &codes).await;
    server.clock.advance(Duration::from_secs(60));
    let refreshed = refreshing(&server, "cli", &tokens.text("refresh_token")).send().await;
    for tokens in [&tokens, &refreshed] {
        let ago = server.app.now().since(before).as_secs() as i64;
        assert_eq!(how(&server, "machine", tokens).await, expected(&server, ago, "cli", Some("pwd")));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_before_have_a_time_and_no_level() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    server.clock.advance(Duration::from_secs(60));
    let kept = tokens_of(&server, &mut ada, &offline(&server)).await;
    // As the previous release has written them.
    let forgotten = server.app.store.write("test", |tx| {
        for table in ["sessions", "grants"] {
            tx.exec(&Sql::dynamic(format!("UPDATE {table} SET authentication = NULL")), args![])?;
            tx.changed(Key::row(table, "id", "all of them"));
        }
        Ok(())
    });
    forgotten.await.map_err(|error: store::Error| error).expect("writes");

    let refreshed = refreshing(&server, "spa", &kept.text("refresh_token")).send().await;
    let in_old_session = tokens_of(&server, &mut ada, &offline(&server)).await;
    for tokens in [&refreshed, &in_old_session] {
        assert_eq!(how(&server, "web", tokens).await, expected(&server, 60, "spa", None));
        let id = claims(&tokens.text("id_token"));
        assert!(id.get("acr").is_none() && id.get("amr").is_none(), "left out, not null: {id}");
    }
    // Signed in again, the session says it, and what was granted before does not.
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    let after = tokens_of(&server, &mut ada, &offline(&server)).await;
    assert_eq!(how(&server, "web", &after).await, expected(&server, 0, "spa", Some("pwd")));
    let refreshed = refreshing(&server, "spa", &refreshed.text("refresh_token")).send().await;
    assert_eq!(how(&server, "web", &refreshed).await, expected(&server, 60, "spa", None));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn introspection_of_a_refresh_token_says_it_too_and_a_program_has_not_authenticated() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let ask = Ask::of(&server, "web").with("scope", "openid offline_access");
    until_both_keys_sign(&server).await;
    let code = code(&mut ada, &ask).await;
    let fields = [
        ("grant_type", "authorization_code"),
        ("redirect_uri", CALLBACK),
        ("code", &*code),
        ("code_verifier", VERIFIER),
    ];
    let web = basic(server.client("web"), server.secret("web"));
    let tokens = server.post("/auth/token", &fields).header("authorization", &web).send().await;
    let seen = introspect(&server, "web", &tokens.text("refresh_token")).await.json();
    let found = ["auth_time", "acr", "amr"].map(|name| seen[name].clone());
    assert_eq!(found, [json!(server.app.now().seconds()), json!("1"), json!(["pwd"])], "{seen}");

    let machine = basic(server.client("machine"), server.secret("machine"));
    let grant = [("grant_type", "client_credentials")];
    let own = server.post("/auth/token", &grant).header("authorization", &machine).send().await;
    let own = own.text("access_token");
    for claims in [claims(&own), introspect(&server, "machine", &own).await.json()] {
        assert_eq!(CLAIMS.map(|name| claims.get(name).is_some()), [false; 4], "{claims}");
    }
    server.stop().await;
}

/// A service may choose that its access tokens have the type of ID tokens, and they have all claims of one.
#[tokio::test(flavor = "multi_thread")]
async fn an_access_token_is_no_hint_of_who_is_signed_in() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let sketch = format!("/api/organizations/acme/services/{}", server.demo.services["web"]);
    admin.change("PATCH", &sketch, json!({ "access_token_typ": "JWT" })).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let tokens = tokens_of(&server, &mut ada, &offline(&server)).await;
    let silent = |hint: &str| offline(&server).with("prompt", "none").with("id_token_hint", hint).path();
    let hinted = ada.get(&silent(&tokens.text("id_token"))).await;
    assert!(hinted.redirect_param("code").is_some(), "{hinted:?}");
    let hint = tokens.text("access_token");
    let refused = ada.get(&silent(&hint)).await;
    assert_eq!(refused.redirect_param("error").as_deref(), Some("login_required"), "{refused:?}");
    let logout = ada.get(&format!("/auth/logout?id_token_hint={hint}")).await;
    assert_ne!(logout.status, 303, "{logout:?}");
    assert_eq!(ada.get("/o/acme/account").await.status, 200, "still signed in");
    // One that a device got is not either.
    let device = ada_on_a_device(&server).await.text("access_token");
    let refused = ada.get(&silent(&device)).await;
    assert_eq!(refused.redirect_param("error").as_deref(), Some("login_required"), "{refused:?}");
    server.stop().await;
}

/// A terminal that administers asks for a proof at its approval: the last authentication, of the browser's session too.
#[tokio::test(flavor = "multi_thread")]
async fn the_proof_at_an_approval_is_the_authentication_of_terminal_and_browser() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("platform", "admin@acme.test").await.status, 303);
    server.clock.advance(Duration::from_secs(60));
    let codes = device::codes_for(&server, "cli", Some("org:acme")).await;
    let code = codes.text("user_code");
    let page = browser.type_code(&code).await;
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    let fields = [("csrf", &*csrf), ("session", &session), ("user_code", &code), ("decision", "allow")];
    let proof = |password| [&fields[..], &[("password", password)]].concat();
    let wrong = browser.post("/activate", &proof("a wrong password")).await;
    assert_eq!(wrong.status, 422, "{wrong:?}");
    let ask = Ask::by("console", CONSOLE).with("scope", "org:acme");
    let at = |tokens: &Answer| claims(&tokens.text("access_token"))["auth_time"].clone();
    let now = server.app.now().seconds();
    assert_eq!(at(&tokens_of(&server, &mut browser, &ask).await), now - 60, "a wrong one is none");

    let done = browser.post("/activate", &proof(server.password("admin@acme.test"))).await;
    assert!(done.body.contains("signed in"), "{done:?}");
    let polled = device::polling(&server, &codes.text("device_code"), "cli").send().await;
    let of_browser = tokens_of(&server, &mut browser, &ask).await;
    for tokens in [&polled, &of_browser] {
        let claims = claims(&tokens.text("access_token"));
        assert_eq!((&claims["auth_time"], &claims["amr"]), (&json!(now), &json!(["pwd"])), "{claims}");
    }
    server.stop().await;
}
