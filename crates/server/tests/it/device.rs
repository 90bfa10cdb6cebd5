//! The device grant (RFC 8628): the story, and every attack on it (SECURITY, section 3).

use identity::Time;
use identity::audit::Actor;
use identity::clients::DEVICE_GRANT;
use identity::ids::{CustomerId, OrganizationId, UserId};
use identity::organizations::{self, Organization};
use identity::users::{self, NewUser, User};
use identity::{clients, passwords};
use serde_json::json;
use server::testing::{Answer, Request, TestBrowser, TestServer, at_once};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use store::Tx;

/// A device of the demo's command line asks for codes.
pub(crate) async fn codes(server: &TestServer) -> Answer {
    codes_for(server, server.client("cli"), None).await
}

async fn codes_for(server: &TestServer, client: &str, scope: Option<&str>) -> Answer {
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

fn polling<'s>(server: &'s TestServer, device_code: &str, client: &str) -> Request<'s> {
    let fields = [("grant_type", DEVICE_GRANT), ("device_code", device_code), ("client_id", client)];
    server.post("/auth/token", &fields)
}

/// A poll that asks to be held for ten seconds.
fn held<'s>(server: &'s TestServer, codes: &Answer) -> Request<'s> {
    polling(server, &codes.text("device_code"), server.client("cli")).header("prefer", "wait=10")
}

/// Waits until so many polls are held.
async fn until_held(server: &TestServer, count: usize) {
    let wanted = format!("sarsen_held_polls {count}\n");
    let waiting = async {
        while !server.get("/metrics").send().await.body.contains(&wanted) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the polls are held");
}

/// A browser in which a user of acme is signed in.
pub(crate) async fn signed_in<'s>(server: &'s TestServer, email: &str) -> TestBrowser<'s> {
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("acme", email).await.status, 303);
    browser
}

async fn allow(browser: &mut TestBrowser<'_>, codes: &Answer) {
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

fn ada(tx: &mut Tx<'_>, acme: &Organization) -> identity::Result<User> {
    Ok(users::find(tx.snapshot(), &acme.id, "ada@acme.test")?.expect("Ada"))
}

pub(crate) async fn suspend_ada(server: &TestServer) {
    in_acme(server, |tx, acme, actor| {
        let user = ada(tx, acme)?;
        users::suspend(tx, &user, None, actor).map(|_| ())
    })
    .await;
}

pub(crate) async fn end_sessions_of_ada(server: &TestServer) {
    in_acme(server, |tx, acme, actor| {
        let user = ada(tx, acme)?;
        users::end_sessions(tx, &user, actor).map(|_| ())
    })
    .await;
}

pub(crate) async fn suspend_acme(server: &TestServer) {
    in_acme(server, |tx, acme, actor| organizations::suspend(tx, acme, None, actor).map(|_| ())).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_reaches_a_held_poll_at_once() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    for (decision, status) in [("allow", 200), ("deny", 400)] {
        let codes = codes(&server).await;
        let held = held(&server, &codes).spawn();
        until_held(&server, 1).await;
        ada.decide(&codes.text("user_code"), decision).await;
        let decided_at = Instant::now();
        let answer = held.await.expect("an answer");
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("preference-applied"), "wait=10");
        assert!(decided_at.elapsed() < Duration::from_secs(2));
        if decision == "deny" {
            assert_eq!(refusal(&answer), error(400, "access_denied"));
        }
    }
    server.stop().await;
}

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
    for (fields, status, name) in cases {
        let answer = server.post("/auth/device/code", fields).send().await;
        assert_eq!(refusal(&answer), error(status, name), "{fields:?}");
    }
    let get = server.get("/auth/device/code").send().await;
    assert_eq!((refusal(&get), get.header("allow")), (error(405, "invalid_request"), "POST"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hurries_is_told_to_slow_down_until_one_interval_is_kept() {
    let server = TestServer::start_with(|settings| settings.hold_max = Duration::ZERO, |_| {}).await;
    let codes = codes(&server).await;
    // Seconds since the poll before, and the answer. A second of tolerance; half of the interval is asked for.
    let story = [
        (0.0, "authorization_pending"),  // the first
        (1.4, "slow_down"),              // of 5 s; now 10
        (3.9, "slow_down"),              // now 15
        (6.4, "slow_down"),              // now 20
        (9.0, "authorization_pending"),  // half of 20, with the tolerance; but the interval was not kept
        (8.9, "slow_down"),              // so it still counts; now 25
        (24.0, "authorization_pending"), // kept: forgiven
        (1.5, "authorization_pending"),  // half of 5, with the tolerance
        (1.4, "slow_down"),
    ];
    for (index, (gap, expected)) in story.into_iter().enumerate() {
        server.clock.advance(Duration::from_secs_f64(gap));
        assert_eq!(refusal(&poll(&server, &codes).await), error(400, expected), "poll {index}");
    }

    ada_allows(&server, &codes).await;
    assert_eq!(poll(&server, &codes).await.status, 200, "a decided code is answered however early");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_steady_poller_with_jitter_is_never_told_to_slow_down() {
    let server = TestServer::start_with(|settings| settings.hold_max = Duration::ZERO, |_| {}).await;
    let codes = codes(&server).await;
    for index in 0..120 {
        let answer = poll(&server, &codes).await;
        assert_eq!(refusal(&answer), error(400, "authorization_pending"), "poll {index}");
        let jitter = [0.4, -0.6, 0.0, 0.9, -0.9, -0.2][index % 6];
        server.clock.advance(Duration::from_secs_f64(5.0 + jitter));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_code_has_its_own_error() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let (denied, redeemed, allowed) = (codes(&server).await, codes(&server).await, codes(&server).await);
    ada.decide(&denied.text("user_code"), "deny").await;
    allow(&mut ada, &redeemed).await;
    allow(&mut ada, &allowed).await;
    assert_eq!(poll(&server, &redeemed).await.status, 200);
    let waiting = codes(&server).await;

    let machine = (server.client("machine"), server.secret("machine"));
    let code = waiting.text("device_code");
    let machine = [("client_id", machine.0), ("client_secret", machine.1)];
    let fields: Vec<_> =
        [("grant_type", DEVICE_GRANT), ("device_code", &*code)].into_iter().chain(machine).collect();
    let without_the_grant = server.post("/auth/token", &fields).send().await;
    assert_eq!(refusal(&without_the_grant), error(400, "unauthorized_client"));
    assert_eq!(refusal(&poll_as(&server, &waiting, "nobody").await), error(401, "invalid_client"));
    assert_eq!(refusal(&poll_as(&server, &waiting, "cli").await), error(400, "invalid_grant"), "foreign");
    assert_eq!(refusal(&poll(&server, &denied).await), error(400, "access_denied"));
    assert_eq!(refusal(&poll(&server, &denied).await), error(400, "access_denied"), "and again");
    assert_eq!(refusal(&poll(&server, &redeemed).await), error(400, "invalid_grant"));

    let (id, secret) = code.split_once('.').expect("two halves");
    let other = id.replace(&id[id.len() - 1..], if id.ends_with('0') { "1" } else { "0" });
    let unknown = [
        "x".to_owned(),
        ".".to_owned(),
        format!("{id}."),
        format!("{id}.{secret}x"),
        format!("{id}.{}", &secret[1..]),
        format!("{other}.{secret}"),
        format!("{id}.{}", "x".repeat(4000)),
        waiting.text("user_code"),
    ];
    for code in unknown {
        let answer = polling(&server, &code, server.client("cli")).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_grant"), "{code}");
    }
    let nothing = server.post("/auth/token", &fields[..1]).send().await;
    assert_eq!(refusal(&nothing), error(401, "invalid_client"));
    let no_code = [("grant_type", DEVICE_GRANT), ("client_id", server.client("cli"))];
    assert_eq!(refusal(&server.post("/auth/token", &no_code).send().await), error(400, "invalid_request"));

    server.clock.advance(Duration::from_secs(900));
    assert_eq!(refusal(&poll(&server, &waiting).await), error(400, "expired_token"));
    assert_eq!(refusal(&poll(&server, &allowed).await), error(400, "expired_token"), "allowed, but too late");
    assert_eq!(refusal(&poll(&server, &redeemed).await), error(400, "invalid_grant"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_who_redeem_one_wins() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    for pollers in [2, 100] {
        let codes = codes(&server).await;
        allow(&mut ada, &codes).await;
        let answers = at_once((0..pollers).map(|_| poll(&server, &codes))).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!(won.len(), 1);
        assert!(lost.iter().all(|answer| refusal(answer) == error(400, "invalid_grant")), "{lost:?}");
        let api = server.get("/api/subscription").bearer(&won[0].text("access_token")).send().await;
        assert_eq!(api.status, 200, "{api:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_poll_releases_the_older_one_and_redeems() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    let older = held(&server, &codes).spawn();
    until_held(&server, 1).await;
    server.clock.advance(Duration::from_secs(5));
    let newer = held(&server, &codes).spawn();
    let released_at = Instant::now();
    assert_eq!(refusal(&older.await.expect("an answer")), error(400, "authorization_pending"));
    assert!(released_at.elapsed() < Duration::from_secs(2));
    until_held(&server, 1).await;
    allow(&mut ada, &codes).await;
    assert_eq!(newer.await.expect("an answer").status, 200);
    until_held(&server, 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_polls_held_for_one_address_are_bounded() {
    let server = TestServer::start().await;
    let all = at_once((0..200).map(|_| codes(&server))).await;
    let holding: Vec<_> = all.iter().map(|codes| held(&server, codes).spawn()).collect();
    until_held(&server, 200).await;
    let codes = codes(&server).await;
    let asked_at = Instant::now();
    assert_eq!(refusal(&held(&server, &codes).send().await), error(400, "authorization_pending"));
    assert!(asked_at.elapsed() < Duration::from_secs(5), "one more is answered at once");
    server.clock.advance(Duration::from_secs(5));
    let elsewhere = held(&server, &codes).header("x-forwarded-for", "203.0.113.9").spawn();
    until_held(&server, 201).await;
    server.stop().await;
    for answer in holding.into_iter().chain([elsewhere]) {
        assert_eq!(refusal(&answer.await.expect("an answer")), error(400, "authorization_pending"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_poll_is_answered_when_the_server_stops() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    let held = held(&server, &codes).spawn();
    until_held(&server, 1).await;
    let stopped_at = Instant::now();
    server.stop().await;
    assert_eq!(refusal(&held.await.expect("an answer")), error(400, "authorization_pending"));
    assert!(stopped_at.elapsed() < Duration::from_secs(5));
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
    assert!(full.body.contains("Too many wrong codes"), "{full:?}");
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
    // Each attempt is one of a new browser: it throws its cookies away.
    for _ in 0..30 {
        assert_eq!(tries(&server, "198.51.100.1", "BBBB-BBBB").await, 422);
    }
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
        assert!(page.body.contains("This code is not good (any more)."), "{page:?}");
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
    for typed in typed {
        let csrf = ada.get("/activate").await.input("csrf");
        let found = ada.post("/activate", &[("csrf", &csrf), ("user_code", &typed)]).await;
        assert_eq!(found.status, 303, "{typed:?}");
        let page = ada.get(found.header("location")).await;
        assert_eq!((page.status, page.input("user_code")), (200, code.clone()), "{typed:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_link_approves_nothing() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    let link = codes.text("verification_uri_complete").replace("http://127.0.0.1:7070", "");
    let mut ada = server.browser();
    let to_sign_in = ada.get(&link).await;
    assert_eq!(to_sign_in.status, 303);
    let page = ada.get(to_sign_in.header("location")).await;
    let (csrf, next) = (page.input("csrf"), page.input("next"));
    assert_eq!(next, link);
    let fields = [
        ("csrf", &*csrf),
        ("next", &next),
        ("email", "ada@acme.test"),
        ("password", server.password("ada@acme.test")),
    ];
    let back = ada.post("/o/acme/login", &fields).await;
    assert_eq!((back.status, back.header("location")), (303, &*link));
    for path in [link.clone(), format!("{link}&decision=allow"), format!("{link}&decision=allow&csrf={csrf}")]
    {
        let page = ada.get(&path).await;
        assert_eq!(page.status, 200);
        assert!(
            page.body.contains("Is this your device?") && page.body.contains(&codes.text("user_code")),
            "{page:?}"
        );
        server.clock.advance(Duration::from_secs(5));
        let answer =
            polling(&server, &codes.text("device_code"), server.client("cli")).header("prefer", "wait=0");
        assert_eq!(refusal(&answer.send().await), error(400, "authorization_pending"), "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_not_ours_does_nothing() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut grace = signed_in(&server, "grace@acme.test").await;
    let codes = codes(&server).await;
    let code = codes.text("user_code");
    let page = ada.get(&format!("/activate?user_code={code}")).await;
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    let foreign = grace.get("/activate").await.input("csrf");
    let decision =
        |csrf| [("user_code", &*code), ("session", &*session), ("decision", "allow"), ("csrf", csrf)];
    // A cross-site form comes without cookies (SameSite=Lax), whatever token it knows.
    assert_eq!(server.post("/activate", &decision(&csrf)).send().await.status, 403);
    for wrong in ["", "x", &foreign, &session] {
        let refused = ada.post("/activate", &decision(wrong)).await;
        assert_eq!(refused.status, 403, "{wrong:?}");
        assert!(refused.body.contains("Nothing was done"), "{refused:?}");
    }
    let without = [("user_code", &*code), ("session", &session), ("decision", "allow")];
    assert_eq!(ada.post("/activate", &without).await.status, 403);
    let typed = [("user_code", &*code)];
    assert_eq!(ada.post("/activate", &typed).await.status, 403, "not even a look");
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_who_signs_in_meanwhile_is_asked_anew() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    let code = codes.text("user_code");
    let mut browser = signed_in(&server, "ada@acme.test").await;
    let page = browser.get(&format!("/activate?user_code={code}")).await;
    assert!(page.body.contains("ada@acme.test"));
    let (csrf, session_of_ada) = (page.input("csrf"), page.input("session"));
    browser.sign_in("acme", "grace@acme.test").await;

    let decision =
        |session| [("csrf", &*csrf), ("session", session), ("user_code", &*code), ("decision", "allow")];
    let asked = browser.post("/activate", &decision(&session_of_ada)).await;
    assert_eq!(asked.status, 200);
    assert!(
        asked.body.contains("Is this your device?") && asked.body.contains("grace@acme.test"),
        "{asked:?}"
    );
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"));

    let session_of_grace = asked.input("session");
    browser.post("/activate", &decision(&session_of_grace)).await;
    let tokens = poll(&server, &codes).await;
    let user = server.get("/api/user").bearer(&tokens.text("access_token")).send().await;
    assert_eq!(user.text("email"), "grace@acme.test", "{user:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_who_asks_for_what_from_where_and_when() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let fields = [("client_id", server.client("cli")), ("scope", "openid email offline_access")];
    let codes = server
        .post("/auth/device/code", &fields)
        .header("x-forwarded-for", "6.6.6.6, 203.0.113.9")
        .header("user-agent", "acme/1.0 <script>alert(1)</script>")
        .send()
        .await;
    server.clock.advance(Duration::from_secs(130));
    let page = ada.get(&format!("/activate?user_code={}", codes.text("user_code"))).await;
    assert_eq!(page.status, 200);
    let said = [
        "Acme command line",
        "Acme CLI",
        "<bdi>Acme</bdi>",
        &codes.text("user_code"),
        "data-scope=\"openid\"",
        "data-scope=\"email\"",
        "Stay signed in until you sign it out",
        "203.0.113.9",
        "2 minutes ago",
        "acme/1.0 &lt;script&gt;",
        "ada@acme.test",
        "If somebody sent you the code or a link to this page, deny.",
        "value=\"allow\"",
        "value=\"deny\"",
    ];
    for said in said {
        assert!(page.body.contains(said), "{said}: {}", page.body);
    }
    assert!(!page.body.contains("6.6.6.6"), "what nobody vouches for is not shown");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_ends_with_the_power_of_who_gave_it() {
    enum Loss {
        User,
        Organization,
        Sessions,
        SignOut,
        Client,
    }
    for loss in [Loss::User, Loss::Organization, Loss::Sessions, Loss::SignOut, Loss::Client] {
        let server = TestServer::start().await;
        let mut ada = signed_in(&server, "ada@acme.test").await;
        let codes = codes(&server).await;
        allow(&mut ada, &codes).await;
        let expected = match loss {
            Loss::User => {
                suspend_ada(&server).await;
                error(400, "invalid_grant")
            }
            Loss::Organization => {
                suspend_acme(&server).await;
                error(400, "access_denied")
            }
            Loss::Sessions => {
                end_sessions_of_ada(&server).await;
                error(400, "invalid_grant")
            }
            Loss::SignOut => {
                sign_out(&mut ada).await;
                error(400, "invalid_grant")
            }
            Loss::Client => {
                let id = server.client("cli").to_owned();
                in_acme(&server, move |tx, _, actor| {
                    let client = clients::get(tx.snapshot(), &identity::ids::ClientId::parse(&id)?)?;
                    clients::delete(tx, &client, actor)
                })
                .await;
                error(401, "invalid_client")
            }
        };
        for _ in 0..2 {
            assert_eq!(refusal(&poll(&server, &codes).await), expected);
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_stopped_before_cannot_approve() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    let code = codes.text("user_code");
    let page = ada.get(&format!("/activate?user_code={code}")).await;
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    let fields = [("csrf", &*csrf), ("session", &session), ("user_code", &code), ("decision", "allow")];
    suspend_ada(&server).await;
    assert_eq!(ada.post("/activate", &fields).await.status, 403);
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_organization_gives_no_codes_and_no_tokens() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    suspend_acme(&server).await;
    ada.decide(&codes.text("user_code"), "allow").await;
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "access_denied"));
    let more = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    assert_eq!(refusal(&more), error(400, "unauthorized_client"));
    in_acme(&server, |tx, acme, actor| organizations::activate(tx, acme, actor).map(|_| ())).await;
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"), "nobody approved");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_outlives_the_browser_that_allowed_it_but_not_its_user() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    allow(&mut ada, &codes).await;
    let tokens = poll(&server, &codes).await;
    sign_out(&mut ada).await;
    let read =
        || async { server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await.status };
    assert_eq!(read().await, 200);
    let refresh = async |token: String| {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", &*token),
            ("client_id", server.client("cli")),
        ];
        server.post("/auth/token", &fields).send().await
    };
    let next = refresh(tokens.text("refresh_token")).await;
    assert_eq!(next.status, 200, "{next:?}");
    end_sessions_of_ada(&server).await;
    assert_eq!(read().await, 401, "ending all of a user's sessions ends the device");
    assert_eq!(refusal(&refresh(next.text("refresh_token")).await), error(400, "invalid_grant"));
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

#[tokio::test(flavor = "multi_thread")]
async fn who_administers_types_the_code_soon_and_proves_himself_again() {
    let server = TestServer::start().await;
    let codes = codes_for(&server, "cli", Some("org:acme")).await;
    assert_eq!(codes.json()["expires_in"], 300);
    assert!(codes.json().get("verification_uri_complete").is_none(), "{codes:?}");
    let code = codes.text("user_code");
    let mut admin = server.browser();
    admin.sign_in("platform", "admin@acme.test").await;
    let csrf = admin.get("/activate").await.input("csrf");
    let typed = admin.post("/activate", &[("csrf", &*csrf), ("user_code", &code)]).await;
    let own = typed.header("location").to_owned();
    let mut victim = server.browser();
    victim.sign_in("platform", "owner@sarsen.test").await;
    for link in [&format!("/activate?user_code={code}"), &format!("/activate?user_code={code}&typed=x"), &own]
    {
        let page = victim.get(link).await;
        assert!(page.body.contains("a link is not enough") && !page.body.contains(&code), "{link}: {page:?}");
    }
    let page = admin.type_code(&code).await;
    assert!(
        page.body.contains("type=\"password\"") && page.body.contains("Administer the organization acme"),
        "{page:?}"
    );
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    for wrong in ["", "wrong", server.password("ada@acme.test")] {
        let fields = [
            ("csrf", &*csrf),
            ("session", &session),
            ("user_code", &code),
            ("decision", "allow"),
            ("password", wrong),
        ];
        let refused = admin.post("/activate", &fields).await;
        assert_eq!(refused.status, 422);
        assert!(refused.body.contains("The password is wrong."), "{refused:?}");
    }
    assert_eq!(refusal(&poll_as(&server, &codes, "cli").await), error(400, "authorization_pending"));
    server.clock.advance(Duration::from_secs(300));
    assert_eq!(refusal(&poll_as(&server, &codes, "cli").await), error(400, "expired_token"));

    let tokens = administers(&server, "admin@acme.test", "org:acme platform").await;
    let services = server.get("/api/organizations/acme/services").bearer(&tokens.text("access_token"));
    assert_eq!(services.send().await.status, 200);
    server.stop().await;
}

/// An organization of somebody else's, with a user who has Ada's address there.
async fn evil_twin_of_ada(server: &TestServer) {
    let (now, random) = (server.app.now(), server.app.random());
    let organization = OrganizationId::new(now, random);
    let twin = NewUser {
        id: UserId::new(now, random),
        customer: CustomerId::new(now, random),
        email: "ada@acme.test".to_owned(),
        name: "Ada".to_owned(),
        email_verified: false,
    };
    let hash = passwords::hash("a password of the twin", random).expect("hashes");
    let actor = server.app.system();
    let made = server.app.store.write("test", move |tx| {
        organizations::create(tx, &organization, "evil", "Evil", true, &actor)?;
        let user = users::create(tx, &organization, &twin, &actor)?;
        passwords::put(tx, &user.id, &hash, Time::from_millis(1))
    });
    made.await.expect("made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_organization_approves_nothing() {
    let server = TestServer::start().await;
    evil_twin_of_ada(&server).await;
    let codes = codes(&server).await;
    let mut twin = server.browser();
    let signed_in = twin.sign_in_with("evil", "ada@acme.test", "a password of the twin").await;
    assert_eq!(signed_in.status, 303);
    // Cookies are the browser's to name: the session of one organization goes out as that of another.
    for (name, _) in &mut twin.cookies {
        *name = name.replace("_evil", "_acme");
    }
    twin.decide(&codes.text("user_code"), "allow").await;
    let answer = poll(&server, &codes).await;
    assert_ne!(answer.status, 200, "a user of evil is signed in to a product of acme: {answer:?}");
    refusal(&answer);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_s_auth_time_is_when_its_user_proved_who_he_is() {
    let server = TestServer::start().await;
    crate::support::until_both_keys_sign(&server).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let signed_in_at = server.app.now().seconds();
    server.clock.advance(Duration::from_secs(60));
    let codes = codes_for(&server, server.client("cli"), Some("openid offline_access")).await;
    ada.decide(&codes.text("user_code"), "allow").await;
    let tokens = poll(&server, &codes).await;
    server.clock.advance(Duration::from_secs(60));
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*tokens.text("refresh_token")),
        ("client_id", server.client("cli")),
    ];
    let refreshed = server.post("/auth/token", &fields).send().await;
    for answer in [&tokens, &refreshed] {
        assert_eq!(crate::support::claims(&answer.text("id_token"))["auth_time"], signed_in_at, "{answer:?}");
    }
    server.stop().await;
}
