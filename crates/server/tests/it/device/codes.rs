//! Asking for codes, typing them, and guessing them.

use super::{ada_allows, allow, codes, error, poll, refusal, signed_in};
use serde_json::json;
use server::testing::{Rows, TestServer, at_once};
use std::collections::BTreeSet;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn codes_are_given_for_a_form_and_for_json() {
    let server = TestServer::start().await;
    let sent =
        json!({ "client_id": server.client("cli"), "org": "acme", "service": "cli", "scope": "email fly" });
    let codes = server.request("POST", "/auth/device/code").json(&sent).send().await;
    assert_eq!(codes.status, 200, "{codes:?}");
    let fields: Vec<String> = codes.json().as_object().expect("an object").keys().cloned().collect();
    let all = "device_code expires_in interval user_code verification_uri verification_uri_complete";
    assert_eq!(fields.join(" "), all);
    let user_code = codes.text("user_code");
    let is_letter = |letter: u8| b"BCDFGHJKLMNPQRSTVWXZ".contains(&letter);
    assert!(user_code.len() == 9 && user_code.as_bytes()[4] == b'-', "{user_code}");
    assert!(user_code.replace('-', "").bytes().all(is_letter), "{user_code}");

    ada_allows(&server, &codes).await;
    assert_eq!(poll(&server, &codes).await.text("scope"), "email", "what is unknown is left out");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_ask_for_codes_is_told_why() {
    type Fields<'a> = &'a [(&'a str, &'a str)];
    let server = TestServer::start().await;
    let (cli, spa, web) = (server.client("cli"), server.client("spa"), server.client("web"));
    let cases: [(Fields<'_>, u16, &str); 11] = [
        (&[], 401, "invalid_client"),
        (&[("client_id", "nobody")], 401, "invalid_client"),
        (&[("client_id", "client_01h455vb4pex5vsknk084sn02q")], 401, "invalid_client"),
        (&[("client_id", cli), ("client_secret", "x")], 401, "invalid_client"),
        (&[("client_id", spa)], 400, "unauthorized_client"),
        (&[("client_id", web)], 401, "invalid_client"),
        (&[("client_id", web), ("client_secret", server.secret("web"))], 400, "unauthorized_client"),
        (&[("client_id", cli), ("org", "other")], 400, "invalid_request"),
        (&[("client_id", cli), ("service", "sketch")], 400, "invalid_request"),
        (&[("client_id", cli), ("scope", "fly platform org:acme")], 400, "invalid_scope"),
        (&[("client_id", cli), ("client_id", cli)], 400, "invalid_request"),
    ];
    let mut rows = Rows::new();
    for (fields, status, name) in cases {
        let row = async {
            let answer = server.post("/auth/device/code", fields).send().await;
            assert_eq!(refusal(&answer), error(status, name), "{fields:?}");
        };
        rows.row(format!("{fields:?}"), row).await;
    }
    let get = server.get("/auth/device/code").send().await;
    assert_eq!((refusal(&get), get.header("allow")), (error(405, "invalid_request"), "POST"));
    server.stop().await;
}

/// A form with a code from this address, in a browser that has never been here; the CSRF token is good. A right code
/// leads to the page about it (303).
async fn tries(server: &TestServer, address: &str, code: &str) -> u16 {
    let (browser, csrf) = new_browser(server).await;
    let form = server.post("/activate", &[("csrf", &*csrf), ("user_code", code)]);
    form.header("cookie", &browser).header("x-forwarded-for", address).send().await.status
}

/// The cookie of a new browser and its CSRF token.
async fn new_browser(server: &TestServer) -> (String, String) {
    let page = server.get("/activate").send().await;
    let cookie = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    (cookie, page.input("csrf"))
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_user_codes_ends_soon_for_a_browser() {
    let server = TestServer::start().await;
    let code = codes(&server).await.text("user_code");
    let mut browser = server.browser();
    for attempt in 0..10 {
        let page = browser.type_code("BBBB-BBBB").await;
        assert_eq!(page.status, 422, "attempt {attempt}");
    }
    let full = browser.type_code(&code).await;
    assert_eq!(full.status, 429);
    assert!(full.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1), "{full:?}");
    assert!(full.body.contains("Too many attempts. Please wait"), "{full:?}");
    let csrf = full.input("csrf");
    let decision = [("csrf", &*csrf), ("user_code", &code), ("decision", "allow")];
    assert_eq!(browser.post("/activate", &decision).await.status, 429, "the decision counts as well");
    assert_eq!(tries(&server, "127.0.0.1", &code).await, 303, "others go on");
    server.clock.advance(Duration::from_secs(60));
    let to_sign_in = browser.type_code(&code).await;
    assert_eq!(to_sign_in.status, 303, "{to_sign_in:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_with_a_code_counts_for_nothing_and_reveals_nothing() {
    let server = TestServer::start().await;
    let code = codes(&server).await.text("user_code");
    for round in 0..40 {
        let image = server.get("/activate?user_code=BBBB-BBBB").header("x-forwarded-for", "198.51.100.1");
        let image = image.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "no-cors");
        assert_eq!(image.send().await.status, 200, "{round}");
    }
    assert_eq!(tries(&server, "198.51.100.1", &code).await, 303);
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let right = ada.get(&format!("/activate?user_code={code}")).await;
    let wrong = ada.get("/activate?user_code=BBBB-BBBB").await;
    assert_eq!((right.status, wrong.status), (200, 200));
    let spelled = |code: &str| code.replace('-', "").chars().map(String::from).collect::<Vec<_>>().join(" ");
    let plain = |page: &str, code: &str| page.replace(&spelled(code), "SPELLED").replace(code, "CODE");
    assert_eq!(plain(&right.body, &code), plain(&wrong.body, "BBBB-BBBB"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_our_token_counts_for_nothing() {
    let server = TestServer::start().await;
    let code = codes(&server).await.text("user_code");
    let (browser, csrf) = new_browser(&server).await;
    let form = |csrf: &str| {
        let form = server.post("/activate", &[("csrf", csrf), ("user_code", "BBBB-BBBB")]);
        form.header("cookie", &browser).header("x-forwarded-for", "198.51.100.1")
    };
    for _ in 0..40 {
        assert_eq!(form("wrong").send().await.status, 403);
        let foreign = form(&csrf).header("sec-fetch-site", "cross-site");
        assert_eq!(foreign.send().await.status, 403, "the token is good, the site is not");
        let foreign = form(&csrf).header("origin", "https://evil.example");
        assert_eq!(foreign.send().await.status, 403, "an old browser");
    }
    assert_eq!(tries(&server, "198.51.100.1", &code).await, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_user_codes_ends_soon_for_an_address() {
    let server = TestServer::start().await;
    let code = codes(&server).await.text("user_code");
    // Each attempt is one of a new browser: it throws its cookies away. Nor does it help to try them all at once.
    let answers = at_once((0..60).map(|_| tries(&server, "198.51.100.1", "BBBB-BBBB"))).await;
    assert_eq!(answers.iter().filter(|status| **status == 422).count(), 30, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 429).count(), 30, "{answers:?}");
    assert_eq!(tries(&server, "198.51.100.1", &code).await, 429);
    assert_eq!(tries(&server, "198.51.100.2", &code).await, 303);
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(tries(&server, "198.51.100.1", &code).await, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_very_many_guess_a_code_is_entered_after_sign_in() {
    let server = TestServer::start_with(|settings| settings.wrong_codes_max = 100, |_| {}).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = codes(&server).await.text("user_code");
    for network in 0..5 {
        let address = format!("203.0.113.{network}");
        let answers = at_once((0..20).map(|_| tries(&server, &address, "BBBB-BBBB"))).await;
        assert!(answers.iter().all(|status| *status == 422), "{answers:?}");
    }
    let mut grace = server.browser();
    let page = grace.type_code(&code).await;
    assert_eq!((page.status, page.header("retry-after")), (429, "60"), "{page:?}");
    assert!(page.body.contains("Sign in first"), "{page:?}");
    let csrf = page.input("csrf");
    let wrong = grace.post("/activate", &[("csrf", &*csrf), ("organization", "no slug")]).await;
    assert_eq!(wrong.status, 422);
    let to_sign_in = grace.post("/activate", &[("csrf", &*csrf), ("organization", "acme")]).await;
    assert_eq!(to_sign_in.header("location"), "/o/acme/login?next=%2Factivate");
    assert_eq!(grace.sign_in("acme", "grace@acme.test").await.status, 303);
    assert!(grace.type_code(&code).await.body.contains("Is this your device?"));
    let done = ada.decide(&code, "allow").await;
    assert!(done.body.contains("signed in"), "who was signed in before notices nothing: {done:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_good_codes_at_once_from_one_address_wait_a_second_at_most() {
    let server = TestServer::start().await;
    let codes = at_once((0..60).map(|_| codes(&server))).await;
    let typed = codes.iter().map(|codes| codes.text("user_code")).collect::<Vec<_>>();
    let answers = at_once(typed.iter().map(async |code| {
        let (browser, csrf) = new_browser(&server).await;
        let fields = [("csrf", &*csrf), ("user_code", code)];
        let asked = || {
            let form = server.post("/activate", &fields).header("cookie", &browser);
            form.header("x-forwarded-for", "198.51.100.9").send()
        };
        let mut answer = asked().await;
        while answer.status == 429 {
            assert_eq!(answer.header("retry-after"), "1", "{answer:?}");
            answer = asked().await;
        }
        answer.status
    }));
    assert!(answers.await.iter().all(|status| *status == 303), "each leads to the page about it");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_expired_and_used_codes_look_the_same() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let expired = codes(&server).await;
    server.clock.advance(Duration::from_secs(900));
    let (denied, allowed, redeemed) = (codes(&server).await, codes(&server).await, codes(&server).await);
    ada.decide(&denied.text("user_code"), "deny").await;
    allow(&mut ada, &allowed).await;
    allow(&mut ada, &redeemed).await;
    assert_eq!(poll(&server, &redeemed).await.status, 200);
    let used = [&expired, &denied, &allowed, &redeemed].map(|codes| codes.text("user_code"));
    let mut pages = BTreeSet::new();
    for code in used.iter().map(String::as_str).chain(["BBBB-BBBB", "nonsense"]) {
        let page = ada.type_code(code).await;
        assert_eq!(page.status, 422);
        assert!(page.body.contains("This code is wrong or has expired."), "{page:?}");
        pages.insert(page.body.replace(code, "CODE"));
    }
    assert_eq!(pages.len(), 1, "{pages:#?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_code_is_understood_as_people_type_it() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut codes = codes(&server).await;
    while !codes.text("user_code").contains(['B', 'G', 'S', 'Z']) {
        codes = self::codes(&server).await;
    }
    let code = codes.text("user_code");
    let typed = [
        code.to_lowercase(),
        code.replace('-', ""),
        code.replace('-', " "),
        code.replace('-', "–"),
        code.replace('-', "\u{2212}"),
        format!("  {} ", code.replace('-', "\u{a0}")),
        format!("{code}\t"),
        code.chars().map(|letter| format!("{letter}.")).collect(),
        // What looks alike on some screens.
        code.replace('B', "8").replace('G', "6").replace('S', "5").replace('Z', "2"),
    ];
    let mut rows = Rows::new();
    for typed in typed {
        let row = async {
            let csrf = ada.get("/activate").await.input("csrf");
            let found = ada.post("/activate", &[("csrf", &csrf), ("user_code", &typed)]).await;
            assert_eq!(found.status, 303, "{typed:?}");
            let page = ada.get(found.header("location")).await;
            assert_eq!((page.status, page.input("user_code")), (200, code.clone()), "{typed:?}");
        };
        rows.row(format!("{typed:?}"), row).await;
    }
    server.stop().await;
}
