//! When too many passwords wait to be hashed: who is turned away, how each page says so, and who still gets in.

use crate::device::codes_for;
use crate::support::{metric, path_of};
use server::testing::{Answer, TestBrowser, TestServer};

const PASSWORD: &str = "correct horse battery";

async fn start() -> TestServer {
    TestServer::start_with(|settings| settings.hash_threads = Some(1), |_| {}).await
}

/// What a form answers when the lane is full.
fn assert_turned_away(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(
        answer.header("retry-after").parse::<u32>().is_ok_and(|wait| (1..=10).contains(&wait)),
        "{answer:?}"
    );
    assert!(answer.body.contains("Many people are signing in at this moment."), "{answer:?}");
    assert_ne!(answer.input("csrf"), "", "the form is there again");
}

/// Tells when a password that was sent meanwhile waits in the lane, or was refused.
async fn one_more_asked(server: &TestServer, before: [u64; 2]) {
    while asked(server).await == before {
        tokio::task::yield_now().await;
    }
}

/// How many wait in the lane, and how many it has refused.
async fn asked(server: &TestServer) -> [u64; 2] {
    [metric(server, "sarsen_hash_waiting").await, metric(server, "sarsen_hash_refused_total").await]
}

fn cookie(browser: &TestBrowser<'_>, name: &str) -> String {
    let found = browser.cookies.get(name);
    found.unwrap_or_else(|| panic!("{name} in {:?}", browser.cookies)).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_in_which_somebody_has_signed_in_gets_through_a_storm_of_strangers() {
    let server = start().await;
    let mut known = server.browser();
    assert_eq!(known.sign_in("acme", "ada@acme.test").await.status, 303);
    let mut stranger = server.browser();
    let lane = server.fill_lane().await;
    assert_turned_away(&stranger.sign_in("acme", "ada@acme.test").await);
    // The tag of another browser says nothing of this one.
    stranger.cookies.set("sarsen_7070__known", &cookie(&known, "sarsen_7070__known"));
    assert_turned_away(&stranger.sign_in("acme", "ada@acme.test").await);
    let before = asked(&server).await;
    let (let_in, ()) = tokio::join!(known.sign_in("acme", "ada@acme.test"), async {
        one_more_asked(&server, before).await;
        lane.open().await;
    });
    assert_eq!(let_in.status, 303, "{let_in:?}");
    assert_eq!(stranger.sign_in("acme", "ada@acme.test").await.status, 303, "as before");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_with_a_password_says_when_to_try_again() {
    let server = start().await;
    let mut owner = server.browser();
    assert_eq!(owner.sign_in("platform", "owner@sarsen.test").await.status, 303);
    let codes = codes_for(&server, "cli", Some("platform")).await;
    let code = codes.text("user_code");
    let page = owner.type_code(&code).await;
    let mut lane = server.fill_lane().await;
    lane.fill_to_the_brim().await;

    assert_turned_away(&owner.sign_in("platform", "owner@sarsen.test").await);
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    let decision = [
        ("csrf", &*csrf),
        ("session", &session),
        ("user_code", &code),
        ("decision", "allow"),
        ("password", server.password("owner@sarsen.test")),
    ];
    let refused = owner.post("/activate", &decision).await;
    assert_turned_away(&refused);
    let mut newcomer = server.browser();
    let csrf_of_newcomer = newcomer.get("/o/acme/signup").await.input("csrf");
    let account =
        [("csrf", &*csrf_of_newcomer), ("email", "new@acme.test"), ("name", ""), ("password", PASSWORD)];
    assert_turned_away(&newcomer.post("/o/acme/signup", &account).await);

    lane.open().await;
    let done = owner.post("/activate", &decision).await;
    assert!(done.body.contains("signed in"), "nothing is lost: {done:?}");
    assert_eq!(newcomer.post("/o/acme/signup", &account).await.status, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_link_is_still_good_after_a_full_lane() {
    let server = TestServer::start_empty().await;
    let link = server::first_start::link(&server.app).await.expect("asks").expect("no owner yet");
    let mut browser = server.browser();
    let page = browser.get(&path_of(&link)).await;
    let (csrf, token) = (page.input("csrf"), page.input("token"));
    let fields = [
        ("csrf", &*csrf),
        ("token", &token),
        ("email", "olga@sarsen.test"),
        ("name", "Olga"),
        ("password", PASSWORD),
    ];
    let mut lane = server.fill_lane().await;
    lane.fill_to_the_brim().await;
    let refused = browser.post("/setup", &fields).await;
    assert_turned_away(&refused);
    assert_eq!(
        (refused.input("token"), refused.input("email")),
        (token.clone(), "olga@sarsen.test".to_owned())
    );
    lane.open().await;
    assert_eq!(browser.post("/setup", &fields).await.status, 303);
    server.stop().await;
}
