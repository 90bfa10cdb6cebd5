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
    let rest = 8192 - length(&[fields[0], fields[1], ("state", "")]);
    let mut longest = [fields[0], fields[1], ("state", &long[..rest])];
    assert_eq!(length(&longest), 8192);
    ada.sign_in("acme", "ada@acme.test").await;
    let page = ada.get(&logout(&longest)).await;
    let done = confirm(&mut ada, &page).await;
    assert_eq!(done.redirect_param("state").map(|state| state.len()), Some(rest));
    ada.sign_in("acme", "ada@acme.test").await;
    longest[2].1 = &long[..rest + 1];
    assert_shown_here(&ada.get(&logout(&longest)).await, "a byte too long to be confirmed");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_parameters_it_asks_before_every_session_of_the_browser_ends() {
    let server = TestServer::start().await;
    let mut browser = ada(&server).await;
    let tokens = tokens_of(&server, &mut browser, &Ask::of(&server, "spa")).await;
    browser.sign_in("platform", "owner@sarsen.test").await;
    for (path, question) in [
        ("/auth/logout", "Sign out?"),
        ("/auth/logout?", "Sign out?"),
        ("/auth/logout?ui_locales=de", "Abmelden?"),
        ("/auth/logout?state=x", "Sign out?"),
    ] {
        let page = browser.get(path).await;
        assert!(page.body.contains(question) && page.body.contains("owner@sarsen.test"), "{path}: {page:?}");
        assert!(is_in(&mut browser).await && browser.get("/console").await.status == 200, "{path}");
    }
    let page = browser.get("/auth/logout").await;
    let page = confirm(&mut browser, &page).await;
    assert!(page.status == 200 && page.body.contains("You are signed out"), "{page:?}");
    assert!(!is_in(&mut browser).await);
    assert_eq!(browser.get("/console").await.status, 303);
    let userinfo = server.get("/auth/userinfo").bearer(&tokens.text("access_token")).send().await;
    assert_eq!(userinfo.status, 401);
    let nobody = browser.get("/auth/logout?ui_locales=de").await;
    assert!(nobody.status == 200 && nobody.body.contains("Sie sind abgemeldet"), "{nobody:?}");
    assert!(nobody.form().is_none() && nobody.header("set-cookie").is_empty(), "{nobody:?}");

    // Cookies that mean nothing, with the real one among the first.
    browser.sign_in("acme", "ada@acme.test").await;
    for number in 0..200 {
        browser.cookies.set(&format!("sarsen_7070_o{number}"), "x.y");
    }
    let page = browser.get("/auth/logout").await;
    confirm(&mut browser, &page).await;
    assert!(!is_in(&mut browser).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_navigation_of_the_tab_signs_out_without_a_question() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let hint = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let good = [("id_token_hint", &*hint), ("post_logout_redirect_uri", CALLBACK)];
    let cookie = ada.cookies.header().expect("a session");
    let from =
        |site, mode, dest| vec![("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
    let prefetch = |name, value| {
        let mut headers = from("cross-site", "navigate", "document");
        headers.push((name, value));
        headers
    };
    for headers in [
        from("cross-site", "no-cors", "image"),
        from("same-site", "no-cors", "image"),
        from("same-origin", "no-cors", "image"),
        from("cross-site", "navigate", "iframe"),
        from("same-origin", "cors", "empty"),
        from("none", "no-cors", "empty"),
        prefetch("sec-purpose", "prefetch"),
        prefetch("sec-purpose", "prefetch;prerender"),
        prefetch("purpose", "prefetch"),
    ] {
        for path in ["/auth/logout".to_owned(), logout(&good[..1]), logout(&good)] {
            let request = server.get(&path).header("cookie", &cookie);
            let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
            let asked = request.send().await;
            assert_eq!((asked.status, asked.header("location")), (200, ""), "{headers:?} {path}: {asked:?}");
            assert!(asked.body.contains("Sign out?"), "{headers:?} {path}: {asked:?}");
            assert!(asked.header("set-cookie").is_empty() && is_in(&mut ada).await, "{headers:?} {path}");
        }
    }
    // A preview of a link is a HEAD.
    for path in ["/auth/logout".to_owned(), logout(&good[..1]), logout(&good)] {
        let seen = server.request("HEAD", &path).header("cookie", &cookie).send().await;
        assert_eq!((seen.status, seen.header("location"), &*seen.body), (200, "", ""), "{path}: {seen:?}");
        assert!(seen.header("set-cookie").is_empty() && is_in(&mut ada).await, "{path}");
    }
    // The question that a frame would have got leads back to the client too.
    let page = ada.get(&logout(&good)).await;
    assert_eq!((page.status, page.header("location")), (303, CALLBACK), "without these headers: {page:?}");
    assert!(!is_in(&mut ada).await);

    ada.sign_in("acme", "ada@acme.test").await;
    let hint = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let request = server.get(&logout(&[("id_token_hint", &hint)]));
    let request = request.header("cookie", &ada.cookies.header().expect("a session"));
    let headers = from("cross-site", "navigate", "document");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    assert_eq!(request.send().await.header("location"), "/o/acme/login");
    assert!(!is_in(&mut ada).await, "a link of the product");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_a_frame_got_leads_back_to_the_client() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let hint = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let path = logout(&[("id_token_hint", &hint), ("post_logout_redirect_uri", CALLBACK), ("state", "s")]);
    let request = server.get(&path).header("cookie", &ada.cookies.header().expect("a session"));
    let page = request.header("sec-fetch-site", "same-origin").header("sec-fetch-mode", "cors").send().await;
    let done = confirm(&mut ada, &page).await;
    assert_eq!(done.header("location"), "http://127.0.0.1:9999/callback?state=s");
    assert!(!is_in(&mut ada).await);
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
        let nobody = browser.get(&logout(&fields)).await;
        done(&nobody);
        assert!(nobody.header("set-cookie").is_empty(), "nothing changes: {nobody:?}");
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
    let spa = server.client("spa");
    let back = ("post_logout_redirect_uri", CALLBACK);
    for (fields, fault) in [
        (vec![("id_token_hint", &*hint), ("client_id", server.client("web")), back], "client_id is not"),
        (vec![("client_id", "client_x"), back], "client is not known"),
        (vec![("id_token_hint", "x.y.z"), back], "id_token_hint is not"),
        (vec![("id_token_hint", "x.y.z"), ("client_id", spa), back], "id_token_hint is not"),
        (vec![("client_id", spa), ("post_logout_redirect_uri", BYE)], "post_logout_redirect_uri is not"),
    ] {
        let refused = server.browser().get(&logout(&fields)).await;
        assert_shown_here(&refused, fault);
        assert!(refused.body.contains(fault), "{refused:?}");
        let page = ada.get(&logout(&fields)).await;
        assert!(page.body.contains(fault), "{fault}: {page:?}");
        let done = confirm(&mut ada, &page).await;
        assert!(!done.header("location").contains("9999"), "{fault}: stays here: {done:?}");
        assert!(!is_in(&mut ada).await, "{fault}");
        ada.sign_in("acme", "ada@acme.test").await;
    }
    let hint = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let same = [("id_token_hint", &*hint), ("client_id", server.client("spa"))];
    assert_eq!(ada.get(&logout(&same)).await.status, 303);
    assert!(!is_in(&mut ada).await);
    server.stop().await;
}
