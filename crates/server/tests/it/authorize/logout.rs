//! `/auth/logout`: what signs out at once, what asks first, and where the user goes afterwards.

use super::*;
use serde_json::json;

const BYE: &str = "http://127.0.0.1:9999/bye";

fn logout(parameters: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("/auth/logout?{query}")
}

async fn is_in(browser: &mut TestBrowser<'_>) -> bool {
    browser.get("/o/acme/account").await.status == 200
}

/// Presses the button of the page that asks.
async fn confirm(browser: &mut TestBrowser<'_>, page: &Answer) -> Answer {
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("Sign out?") && is_in(browser).await, "it asks: {page:?}");
    let form = page.form().expect("a form");
    let fields: Vec<(&str, &str)> = form
        .fields
        .iter()
        .filter(|field| !field.is_button)
        .map(|field| (&*field.name, &*field.value))
        .collect();
    browser.post(&form.action, &fields).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_hint_asks_first_and_gets_the_user_back() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let spa = server.client("spa");
    let fields = [("client_id", spa), ("post_logout_redirect_uri", CALLBACK), ("state", "a&b")];
    let page = ada.get(&logout(&fields)).await;
    let done = confirm(&mut ada, &page).await;
    assert_eq!((done.status, done.header("location")), (303, "http://127.0.0.1:9999/callback?state=a%26b"));
    assert!(!is_in(&mut ada).await);

    ada.sign_in("acme", "ada@acme.test").await;
    let page = ada.get(&logout(&[("client_id", spa)])).await;
    let done = confirm(&mut ada, &page).await;
    assert_eq!(done.header("location"), "/o/acme/login");

    // The same by POST. A browser sends no cookies with the POST of another site, so it continues with a GET.
    ada.sign_in("acme", "ada@acme.test").await;
    let posted = ada.post("/auth/logout", &fields).await;
    assert_eq!(posted.status, 303);
    let page = ada.get(posted.header("location")).await;
    assert_eq!(confirm(&mut ada, &page).await.status, 303);
    let long = "x".repeat(8192);
    assert_shown_here(&ada.post("/auth/logout", &[("state", &long)]).await, "too long");
    // The longest request that leads to a question; the form of its confirmation is taken too.
    let length = |fields: &[(&str, &str)]| logout(fields).len() - "/auth/logout?".len();
    let rest = 8192 - length(&[fields[0], fields[1], ("state", ""), ("id_token_hint", "")]);
    let (hint, state) = (&long[..rest / 2], &long[..rest - rest / 2]);
    let mut longest = [fields[0], fields[1], ("state", state), ("id_token_hint", hint)];
    assert_eq!(length(&longest), 8192);
    ada.sign_in("acme", "ada@acme.test").await;
    let page = ada.get(&logout(&longest)).await;
    assert_eq!(confirm(&mut ada, &page).await.status, 303);
    ada.sign_in("acme", "ada@acme.test").await;
    longest[2].1 = &long[..state.len() + 1];
    assert_shown_here(&ada.get(&logout(&longest)).await, "a byte too long to be confirmed");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_parameters_every_session_of_the_browser_ends() {
    let server = TestServer::start().await;
    let mut browser = ada(&server).await;
    let tokens = tokens_of(&server, &mut browser, &Ask::of(&server, "spa")).await;
    browser.sign_in("platform", "owner@sarsen.test").await;
    assert_eq!(browser.get("/console").await.status, 200);
    let page = browser.get("/auth/logout").await;
    assert!(page.status == 200 && page.body.contains("You are signed out"), "{page:?}");
    assert!(!is_in(&mut browser).await);
    assert_eq!(browser.get("/console").await.status, 303);
    let userinfo = server.get("/auth/userinfo").bearer(&tokens.text("access_token")).send().await;
    assert_eq!(userinfo.status, 401);
    assert_eq!(browser.get("/auth/logout?ui_locales=de").await.status, 200, "nobody is signed in");

    // Cookies that mean nothing, with the real one among the first.
    browser.sign_in("acme", "ada@acme.test").await;
    for number in 0..200 {
        browser.cookies.set(&format!("sarsen_7070_o{number}"), "x.y");
    }
    assert_eq!(browser.get("/auth/logout").await.status, 200);
    assert!(!is_in(&mut browser).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_without_a_client_asks_signs_out_and_is_not_followed() {
    let server = TestServer::start().await;
    let mut browser = ada(&server).await;
    browser.sign_in("platform", "owner@sarsen.test").await;
    let done = |page: &Answer| {
        assert!(page.status == 200 && page.body.contains("You are signed out"), "{page:?}");
        assert!(page.header("location").is_empty() && !page.body.contains("9999"), "{page:?}");
    };
    for uri in [CALLBACK, BYE, "https://evil.example/"] {
        let fields = [("post_logout_redirect_uri", uri), ("state", "9999")];
        let posted = browser.post("/auth/logout", &fields).await;
        assert_eq!(posted.status, 303, "{posted:?}");
        let page = browser.get(posted.header("location")).await;
        let both = ["ada@acme.test", "owner@sarsen.test", "href=\"/o/acme/account\""];
        assert!(both.iter().all(|part| page.body.contains(part)), "{page:?}");
        assert!(!page.body.contains("9999") && !page.body.contains("evil"), "{page:?}");
        done(&confirm(&mut browser, &page).await);
        assert!(!is_in(&mut browser).await);
        assert_eq!(browser.get("/console").await.status, 303);
        done(&browser.get(&logout(&fields)).await);
        browser.sign_in("acme", "ada@acme.test").await;
        browser.sign_in("platform", "owner@sarsen.test").await;
    }
    let hidden = [("csrf", "x"), ("post_logout_redirect_uri", CALLBACK)];
    assert_eq!(browser.post("/auth/logout", &hidden).await.status, 403);
    assert!(is_in(&mut browser).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_redirect_survives_a_session_that_has_ended() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let hint = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let csrf = ada.get("/o/acme/account").await.input("csrf");
    ada.post("/o/acme/logout", &[("csrf", &csrf)]).await;
    let fields = [("id_token_hint", &*hint), ("post_logout_redirect_uri", CALLBACK), ("state", "s")];
    let back = ada.get(&logout(&fields)).await;
    assert_eq!((back.status, back.header("location")), (303, "http://127.0.0.1:9999/callback?state=s"));
    let stranger = server.browser().get(&logout(&fields[..2])).await;
    assert_eq!(stranger.header("location"), CALLBACK);
    assert_eq!(ada.get(&logout(&fields[..1])).await.header("location"), "/o/acme/login");

    // Another session of the browser is not ended without a question, and the address survives that too.
    ada.sign_in("acme", "grace@acme.test").await;
    let page = ada.get(&logout(&fields)).await;
    let done = confirm(&mut ada, &page).await;
    assert_eq!(done.header("location"), "http://127.0.0.1:9999/callback?state=s");
    assert!(!is_in(&mut ada).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_uris_count_until_a_client_has_addresses_of_its_own() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let path = format!("/api/organizations/acme/clients/{}", server.client("spa"));
    let mut browser = server.browser();
    let spa = server.client("spa").to_owned();
    let mut target = async |uri: &str| {
        let answer = browser.get(&logout(&[("client_id", &spa), ("post_logout_redirect_uri", uri)])).await;
        (answer.status, answer.header("location").to_owned())
    };
    assert_eq!(target(CALLBACK).await, (303, CALLBACK.to_owned()));
    assert_eq!(target(BYE).await.0, 400);
    admin.change("PATCH", &path, json!({ "post_logout_redirect_uris": [BYE] })).await;
    assert_eq!(target(BYE).await, (303, BYE.to_owned()));
    for other in
        [CALLBACK, "http://127.0.0.1:9999/bye/", "http://127.0.0.1:9999/bye?x=1", "http://127.0.0.1/bye"]
    {
        assert_eq!(target(other).await.0, 400, "{other}");
    }
    admin.change("PATCH", &path, json!({ "post_logout_redirect_uris": [] })).await;
    assert_eq!(target(CALLBACK).await.0, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_belongs_to_the_client_that_is_named() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let hint = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let mixed = [("id_token_hint", &*hint), ("client_id", server.client("web"))];
    assert_shown_here(&ada.get(&logout(&mixed)).await, "another client");
    assert_shown_here(&ada.get(&logout(&[("client_id", "client_x")])).await, "no client");
    assert_shown_here(&ada.get(&logout(&[("id_token_hint", "x.y.z")])).await, "no token");
    // An invalid hint proves nothing, so the client asks.
    let page = ada.get(&logout(&[("id_token_hint", "x.y.z"), ("client_id", server.client("spa"))])).await;
    assert!(page.status == 200 && is_in(&mut ada).await, "{page:?}");
    let same = [("id_token_hint", &*hint), ("client_id", server.client("spa"))];
    assert_eq!(ada.get(&logout(&same)).await.status, 303);
    assert!(!is_in(&mut ada).await);
    server.stop().await;
}
