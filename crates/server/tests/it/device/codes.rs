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

/// Whether this code is known to `/activate`: then it leads to the sign-in.
async fn tries(server: &TestServer, address: &str, code: &str) -> u16 {
    let page = server.get(&format!("/activate?user_code={code}")).header("x-forwarded-for", address);
    page.send().await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_user_codes_ends_soon_for_a_browser() {
    let server = TestServer::start().await;
    let code = codes(&server).await.text("user_code");
    let mut browser = server.browser();
    browser.get("/activate").await;
    for attempt in 0..10 {
        let page = browser.get("/activate?user_code=BBBB-BBBB").await;
        assert_eq!(page.status, 422, "attempt {attempt}");
    }
    let full = browser.get(&format!("/activate?user_code={code}")).await;
    assert_eq!(full.status, 429);
    assert!(full.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1), "{full:?}");
    assert!(full.body.contains("Too many attempts. Please wait"), "{full:?}");
    let csrf = full.input("csrf");
    let decision = [("csrf", &*csrf), ("user_code", &code), ("decision", "allow")];
    assert_eq!(browser.post("/activate", &decision).await.status, 429, "the form counts as well");
    assert_eq!(tries(&server, "127.0.0.1", &code).await, 303, "others go on");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(browser.get(&format!("/activate?user_code={code}")).await.status, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_user_codes_ends_soon_for_an_address_and_for_all() {
    let server = TestServer::start().await;
    let code = codes(&server).await.text("user_code");
    // Each attempt is one of a new browser: it throws its cookies away. Nor does it help to try them all at once.
    let answers = at_once((0..60).map(|_| tries(&server, "198.51.100.1", "BBBB-BBBB"))).await;
    assert_eq!(answers.iter().filter(|status| **status == 422).count(), 30, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 429).count(), 30, "{answers:?}");
    assert_eq!(tries(&server, "198.51.100.1", &code).await, 429);
    assert_eq!(tries(&server, "198.51.100.2", &code).await, 303);
    let addresses: Vec<String> = (0..970).map(|attempt| format!("203.0.113.{}", attempt / 30)).collect();
    for addresses in addresses.chunks(97) {
        let answers = at_once(addresses.iter().map(|address| tries(&server, address, "BBBB-BBBB"))).await;
        assert!(answers.iter().all(|status| *status == 422), "{answers:?}");
    }
    assert_eq!(tries(&server, "198.51.100.3", &code).await, 429, "a thousand are enough for all");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(tries(&server, "198.51.100.1", &code).await, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_good_codes_at_once_from_one_address_wait_a_second_at_most() {
    let server = TestServer::start().await;
    let codes = at_once((0..60).map(|_| codes(&server))).await;
    let typed = codes.iter().map(|codes| codes.text("user_code")).collect::<Vec<_>>();
    let answers = at_once(typed.iter().map(async |code| {
        let path = format!("/activate?user_code={code}");
        let asked = || server.get(&path).header("x-forwarded-for", "198.51.100.9").send();
        let mut answer = asked().await;
        while answer.status == 429 {
            assert_eq!(answer.header("retry-after"), "1", "{answer:?}");
            answer = asked().await;
        }
        answer.status
    }));
    assert!(answers.await.iter().all(|status| *status == 303), "each leads to the sign-in");
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
        let page = ada.get(&format!("/activate?user_code={code}")).await;
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
