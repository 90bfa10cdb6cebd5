//! OAuth 2.0 and OpenID Connect: authorization requests, tokens, devices, introspection, revocation, userinfo, logout.

use super::{Call, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::support::{Admin, Ask, CALLBACK, VERIFIER, code, until_both_keys_sign};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use server::testing::{Answer, TestServer};
use std::time::Duration;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
const TOKEN: &str = "/auth/token";

/// A client that names itself with its secret.
fn basic(server: &TestServer, client: &str, call: Call) -> Call {
    let pair = format!("{}:{}", server.client(client), server.secret(client));
    call.by(client, "").secretly("authorization", &format!("Basic {}", STANDARD.encode(pair)))
}

/// An essential `acr` that nobody can reach.
const TWO_FACTORS: &str = r#"{"id_token":{"acr":{"essential":true,"value":"2"}}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn authorization() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    until_both_keys_sign(&server).await;
    let to = &mut Recording::of(&server);
    let ask = Ask::of(&server, "spa");
    let mut ada = server.browser();

    to.section("Requests");
    to.browse(&server, &mut ada.cookies, "nobody is signed in", get(ask.path())).await;
    let silent = ask.clone().with("prompt", "none");
    to.browse(&server, &mut ada.cookies, "and none is asked", get(silent.path())).await;
    ada.sign_in("acme", "ada@acme.test").await;
    let long = "x".repeat(8193);
    for (what, ask) in [
        ("a code", ask.clone()),
        ("without PKCE", ask.clone().without("code_challenge")),
        ("a method of PKCE that is not supported", ask.clone().with("code_challenge_method", "plain")),
        ("a response type that is none", ask.clone().with("response_type", "token")),
        ("a response mode that is none", ask.clone().with("response_mode", "fragment")),
        ("posted", ask.clone().with("response_mode", "form_post")),
        ("a refusal, posted", ask.clone().with("response_mode", "form_post").with("response_type", "token")),
        ("no scope that is known", ask.clone().with("scope", "nothing")),
        ("a request object", ask.clone().with("request", "x")),
        ("a request by reference", ask.clone().with("request_uri", "https://a.example/r")),
        ("a registration", ask.clone().with("registration", "{}")),
        ("a resource that is none", ask.clone().with("resource", "https://a.example/")),
        ("an age that is none", ask.clone().with("max_age", "x")),
        ("a wish for two factors", ask.clone().with("acr_values", "2")),
        ("two factors or nothing", ask.clone().with("claims", TWO_FACTORS)),
        ("another user is meant", silent.clone().with("id_token_hint", "x")),
        ("another client's way", Ask::by(server.client("cli"), CALLBACK)),
        ("an unknown client", Ask::by("client_x", CALLBACK)),
        ("no client", ask.clone().without("client_id")),
        ("an unknown address", ask.clone().with("redirect_uri", "https://evil.example/")),
        ("a state that is too long", ask.clone().with("state", &long)),
        ("to sign in again", ask.clone().with("prompt", "login")),
        ("to choose an account", ask.clone().with("prompt", "select_account")),
        ("to create an account", ask.clone().with("prompt", "create")),
        ("with consent", ask.clone().with("prompt", "consent")),
        ("the console", Ask::by("console", crate::support::CONSOLE).with("scope", "platform")),
    ] {
        to.browse(&server, &mut ada.cookies, what, get(ask.path())).await;
    }
    let twice = format!("{}&state=again", ask.path());
    to.browse(&server, &mut ada.cookies, "a parameter twice", get(twice)).await;
    to.browse(&server, &mut ada.cookies, "by POST", post("/auth/authorize").form(&ask.fields())).await;

    to.section("Consent");
    let asked = ask.clone().with("prompt", "consent").with("scope", "openid email offline_access");
    for decision in ["deny", "allow", "maybe"] {
        let page = server.get(&asked.path()).header("cookie", &ada.cookies.header().unwrap_or_default());
        let page = page.send().await;
        let own = ["csrf", "next", "session"].map(|name| (name, page.input(name)));
        let mut fields: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, &**value)).collect();
        fields.push(("decision", decision));
        to.browse(&server, &mut ada.cookies, decision, post("/consent").form(&fields)).await;
    }
    to.browse(&server, &mut ada.cookies, "a forged form", post("/consent").form(&[("decision", "allow")]))
        .await;
    insta::assert_snapshot!("authorization", to.finish());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    until_both_keys_sign(&server).await;
    let to = &mut Recording::of(&server);
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let ask = Ask::of(&server, "spa").with("scope", "openid profile email offline_access");
    let spa = server.client("spa");
    let redeeming = |code: &str| {
        post(TOKEN).form(&[
            ("grant_type", "authorization_code"),
            ("client_id", spa),
            ("redirect_uri", CALLBACK),
            ("code", code),
            ("code_verifier", VERIFIER),
        ])
    };

    to.section("Codes");
    let good = code(&mut ada, &ask).await;
    let wrong = [
        ("grant_type", "authorization_code"),
        ("client_id", spa),
        ("redirect_uri", CALLBACK),
        ("code", &*good),
        ("code_verifier", "x"),
    ];
    to.send(&server, "another verifier", post(TOKEN).form(&wrong)).await;
    let good = code(&mut ada, &ask).await;
    let given = to.send(&server, "tokens", redeeming(&good)).await;
    to.send(&server, "a code that is none", redeeming("x")).await;
    let of_web = code(&mut ada, &Ask::of(&server, "web")).await;
    to.send(&server, "a code of another client", redeeming(&of_web)).await;
    let of_web = code(&mut ada, &Ask::of(&server, "web")).await;
    let web = [
        ("grant_type", "authorization_code"),
        ("redirect_uri", CALLBACK),
        ("code", &*of_web),
        ("code_verifier", VERIFIER),
    ];
    to.send(&server, "of a client with a secret", basic(&server, "web", post(TOKEN).form(&web))).await;

    to.section("Refresh tokens");
    let refreshing = |token: &str, more: &[(&str, &str)]| {
        let fields = [("grant_type", "refresh_token"), ("client_id", spa), ("refresh_token", token)];
        post(TOKEN).form(&[&fields, more].concat())
    };
    let old = given.text("refresh_token");
    let next = to.send(&server, "refreshed", refreshing(&old, &[])).await;
    to.send(&server, "the same again", refreshing(&old, &[])).await;
    let fewer = refreshing(&next.text("refresh_token"), &[("scope", "openid")]);
    let last = to.send(&server, "with fewer scopes", fewer).await;
    let more = refreshing(&last.text("refresh_token"), &[("scope", "openid org:acme")]);
    to.send(&server, "with more scopes", more).await;
    to.send(&server, "a token that is none", refreshing("x", &[])).await;
    let elsewhere = refreshing(&last.text("refresh_token"), &[("resource", "https://a.example/")]);
    to.send(&server, "for a resource that is none", elsewhere).await;

    to.section("Machines");
    let machine = [("grant_type", "client_credentials")];
    let program = to.send(&server, "a token", basic(&server, "machine", post(TOKEN).form(&machine))).await;
    let scoped = [machine[0], ("scope", "nothing")];
    to.send(&server, "no scope that it has", basic(&server, "machine", post(TOKEN).form(&scoped))).await;
    to.send(&server, "a client of people", basic(&server, "web", post(TOKEN).form(&machine))).await;
    let in_json = json!({ "grant_type": "client_credentials", "client_id": server.client("machine"), "client_secret": server.secret("machine") });
    to.send(&server, "in JSON", post(TOKEN).json(&in_json)).await;

    to.section("What is wrong with a request");
    for (what, fields) in [
        ("no grant type", &[("client_id", spa)][..]),
        ("a grant type that is none", &[("client_id", spa), ("grant_type", "password")]),
        ("no client", &machine),
        ("an unknown client", &[("client_id", "client_x"), ("grant_type", "refresh_token")]),
        ("a field twice", &[("client_id", spa), ("client_id", spa), ("grant_type", "refresh_token")]),
        ("a NUL", &[("client_id", spa), ("grant_type", "refresh_token"), ("refresh_token", "\0")]),
    ] {
        to.send(&server, what, post(TOKEN).form(fields)).await;
    }
    let wrong = post(TOKEN).form(&machine).header("authorization", "Basic YTpi");
    to.send(&server, "a wrong secret", wrong).await;
    to.send(&server, "no encoding", post(TOKEN).body("application/x-www-form-urlencoded", "a=%ff")).await;
    to.send(&server, "no JSON", post(TOKEN).body("application/json", "{")).await;
    to.send(&server, "JSON of other types", post(TOKEN).body("application/json", "{\"grant_type\":1}")).await;
    to.send(&server, "a media type that is none", post(TOKEN).body("text/plain", "a=b")).await;
    to.send(&server, "in the address", post("/auth/token?grant_type=refresh_token").form(&machine)).await;
    to.send(
        &server,
        "too large",
        post(TOKEN).body("application/x-www-form-urlencoded", vec![b'a'; 64 * 1024 + 1]),
    )
    .await;
    let many = vec!["p=x"; 65].join("&");
    to.send(&server, "too many parameters", post(TOKEN).body("application/x-www-form-urlencoded", many))
        .await;

    to.section("Userinfo, introspection, revocation");
    let access = last.text("access_token");
    to.send(&server, "userinfo", get("/auth/userinfo").by("ada", &given.text("access_token"))).await;
    let form = post("/auth/userinfo").form(&[("access_token", &given.text("access_token"))]);
    to.send(&server, "by POST", form.clone()).await;
    to.send(&server, "twice", form.by("ada", "x")).await;
    to.send(&server, "nobody", get("/auth/userinfo")).await;
    to.send(&server, "a token that is none", get("/auth/userinfo").by("x", "x")).await;
    to.send(&server, "a program", get("/auth/userinfo").by("machine", &program.text("access_token"))).await;
    let profile = crate::support::tokens(&server, "ada@acme.test", "profile").await.text("access_token");
    to.send(&server, "without openid", get("/auth/userinfo").by("ada", &profile)).await;
    let asking = |client: &str, token: &str| {
        basic(&server, client, post("/auth/introspect").form(&[("token", token)]))
    };
    to.send(&server, "an access token", asking("web", &access)).await;
    to.send(&server, "a token of another service", asking("machine", &access)).await;
    to.send(&server, "its own", asking("machine", &program.text("access_token"))).await;
    to.send(&server, "a token that is none", asking("web", "x")).await;
    to.send(&server, "no token", asking("web", "")).await;
    let public = post("/auth/introspect").form(&[("token", &*access), ("client_id", spa)]);
    to.send(&server, "a public client", public).await;
    let revoking = |token: &str| post("/auth/revoke").form(&[("client_id", spa), ("token", token)]);
    to.send(&server, "a token that is none", revoking("x")).await;
    to.send(&server, "revoked", revoking(&last.text("refresh_token"))).await;
    to.send(&server, "no token", revoking("")).await;
    to.send(&server, "no client", post("/auth/revoke").form(&[("token", "x")])).await;
    to.send(&server, "a refresh token of a grant that ended", refreshing(&last.text("refresh_token"), &[]))
        .await;
    to.send(&server, "an access token of a grant that ended", get("/api/user").by("ada", &access)).await;
    insta::assert_snapshot!("tokens", to.finish());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    until_both_keys_sign(&server).await;
    let to = &mut Recording::of(&server);
    let cli = server.client("cli").to_owned();
    let device = "/auth/device/code";
    let polling = |codes: &Answer| {
        let fields =
            [("grant_type", DEVICE_GRANT), ("client_id", &*cli), ("device_code", &codes.text("device_code"))];
        post(TOKEN).form(&fields)
    };
    to.section("Codes");
    let begun = to.send(&server, "begun", post(device).form(&[("client_id", &cli)])).await;
    for (what, fields) in [
        ("an unknown client", &[("client_id", "client_x")][..]),
        ("no client", &[]),
        ("a client that may not", &[("client_id", server.client("spa"))]),
        ("no scope that is known", &[("client_id", &cli), ("scope", "nothing")]),
        ("a resource that is none", &[("client_id", &cli), ("resource", "https://a.example/")]),
    ] {
        to.send(&server, what, post(device).form(fields)).await;
    }
    to.section("Polls");
    to.send(&server, "not decided yet", polling(&begun)).await;
    to.send(&server, "too soon", polling(&begun)).await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let page = to.browse(&server, &mut ada.cookies, "the page", get("/activate")).await;
    let typed = [("csrf", &*page.input("csrf")), ("user_code", &begun.text("user_code"))];
    let typed =
        to.browse(&server, &mut ada.cookies, "the code is typed", post("/activate").form(&typed)).await;
    let page = to.browse(&server, &mut ada.cookies, "its page", get(typed.header("location"))).await;
    let own = ["csrf", "session", "user_code"].map(|name| (name, page.input(name)));
    let mut fields: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, &**value)).collect();
    fields.push(("decision", "allow"));
    to.browse(&server, &mut ada.cookies, "it is allowed", post("/activate").form(&fields)).await;
    server.clock.advance(Duration::from_secs(30));
    to.send(&server, "tokens", polling(&begun)).await;
    to.send(&server, "the code was used", polling(&begun)).await;
    let denied = to.send(&server, "another", post(device).form(&[("client_id", &cli)])).await;
    ada.decide(&denied.text("user_code"), "deny").await;
    to.send(&server, "denied", polling(&denied)).await;
    let late = to.send(&server, "another", post(device).form(&[("client_id", &cli)])).await;
    server.clock.advance(Duration::from_secs(3600));
    to.send(&server, "expired", polling(&late)).await;
    let none = post(TOKEN).form(&[("grant_type", DEVICE_GRANT), ("client_id", &cli), ("device_code", "x")]);
    to.send(&server, "a code that is none", none).await;
    let wrong = [("csrf", &*page.input("csrf")), ("user_code", "BCDF-GHJK")];
    to.browse(&server, &mut ada.cookies, "an unknown code is typed", post("/activate").form(&wrong)).await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    admin.change("PATCH", "/api/organizations/acme", json!({ "device_flow": "off" })).await;
    to.send(&server, "turned off", post(device).form(&[("client_id", &cli)])).await;
    insta::assert_snapshot!("devices", to.finish());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logout() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let spa = format!("/api/organizations/acme/clients/{}", server.client("spa"));
    people.as_admin().change("PATCH", &spa, json!({ "post_logout_redirect_uris": [CALLBACK] })).await;
    let mut ada = server.browser();
    to.browse(&server, &mut ada.cookies, "nobody is signed in", get("/auth/logout")).await;
    ada.sign_in("acme", "ada@acme.test").await;
    let given = crate::support::tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await;
    to.browse(&server, &mut ada.cookies, "it asks", get("/auth/logout")).await;
    to.browse(&server, &mut ada.cookies, "HEAD does nothing", call("HEAD", "/auth/logout")).await;
    to.browse(&server, &mut ada.cookies, "a hint that is none", get("/auth/logout?id_token_hint=x")).await;
    let client = format!(
        "/auth/logout?client_id={}&post_logout_redirect_uri={CALLBACK}&state=s",
        server.client("spa")
    );
    to.browse(&server, &mut ada.cookies, "a client asks", get(&client)).await;
    let evil = format!(
        "/auth/logout?client_id={}&post_logout_redirect_uri=https://evil.example/",
        server.client("spa")
    );
    to.browse(&server, &mut ada.cookies, "to an address that is not registered", get(evil)).await;
    let fields = [("client_id", server.client("spa"))];
    to.browse(&server, &mut ada.cookies, "by POST", post("/auth/logout").form(&fields)).await;
    let hint = format!(
        "/auth/logout?id_token_hint={}&post_logout_redirect_uri={CALLBACK}&state=s",
        given.text("id_token")
    );
    let navigation = get(hint)
        .header("sec-fetch-site", "cross-site")
        .header("sec-fetch-mode", "navigate")
        .header("sec-fetch-dest", "document");
    to.browse(&server, &mut ada.cookies, "at once, with a hint", navigation).await;
    to.browse(&server, &mut ada.cookies, "signed out", get("/o/acme/account")).await;
    insta::assert_snapshot!("logout", to.finish());
    server.stop().await;
}
