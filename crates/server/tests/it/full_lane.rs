//! When too many passwords wait to be hashed: who is turned away, how each page says so, and who still gets in.

use crate::device::{codes_for, signed_in};
use crate::support::{Admin, metric, open_link, open_sign_up, path_of};
use serde_json::json;
use server::testing::{Answer, TestBrowser, TestServer, at_once};

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
    let page = open_link(&mut browser, &path_of(&link)).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let fields = [
        ("csrf", &*csrf),
        ("link", &id),
        ("email", "olga@sarsen.test"),
        ("name", "Olga"),
        ("password", PASSWORD),
    ];
    let mut lane = server.fill_lane().await;
    lane.fill_to_the_brim().await;
    let refused = browser.post("/setup", &fields).await;
    assert_turned_away(&refused);
    assert_eq!((refused.input("link"), refused.input("email")), (id.clone(), "olga@sarsen.test".to_owned()));
    lane.open().await;
    assert_eq!(browser.post("/setup", &fields).await.status, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_is_known_for_an_account_until_all_of_its_sessions_end() {
    let server = start().await;
    let mut browser = signed_in(&server, "ada@acme.test").await;
    let mut other = signed_in(&server, "ada@acme.test").await;
    let mut both = signed_in(&server, "ada@acme.test").await;
    assert_eq!(both.sign_in("acme", "grace@acme.test").await.status, 303);
    let csrf = browser.get("/activate").await.input("csrf");
    let all_others = [("csrf", &*csrf), ("end", "others")];
    assert_eq!(browser.post("/o/acme/account/sessions", &all_others).await.status, 303);

    let lane = server.fill_lane().await;
    assert_turned_away(&browser.sign_in("acme", "grace@acme.test").await);
    assert_turned_away(&other.sign_in("acme", "ada@acme.test").await);
    assert_turned_away(&both.sign_in("acme", "ada@acme.test").await);
    let before = asked(&server).await;
    let (let_in, ()) = tokio::join!(
        async {
            [browser.sign_in("acme", "ada@acme.test").await, both.sign_in("acme", "grace@acme.test").await]
        },
        async {
            one_more_asked(&server, before).await;
            lane.open().await;
        }
    );
    assert_eq!(let_in.map(|answer| answer.status), [303, 303], "her own browser, and another account's");
    server.stop().await;
}

/// A form with a password, from an address. The CSRF token is that of the browser.
async fn send(server: &TestServer, browser: &str, csrf: &str, address: &str, path: &str, email: &str) -> u16 {
    let fields = [("csrf", csrf), ("email", email), ("name", "N"), ("password", PASSWORD)];
    let form = server.post(path, &fields).header("cookie", browser).header("x-forwarded-for", address);
    form.send().await.status
}

/// A new browser's cookies and its CSRF token.
async fn new_browser(server: &TestServer) -> (String, String) {
    let mut browser = server.browser();
    let csrf = browser.get("/activate").await.input("csrf");
    (browser.cookies.header().unwrap_or_default(), csrf)
}

/// A browser in which a new account has signed up, so that it is known for it.
async fn known_browser(server: &TestServer, organization: &str, email: &str) -> (String, String) {
    let mut browser = server.browser();
    let path = format!("/o/{organization}/signup");
    let csrf = browser.get(&path).await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", email), ("name", "N"), ("password", PASSWORD)];
    assert_eq!(browser.post(&path, &fields).await.status, 303);
    (browser.cookies.header().unwrap_or_default(), csrf)
}

/// Seven networks send sign-ups and the sign-ins of accounts that they have made, all the time.
async fn attack(server: &TestServer) {
    let mut attackers = Vec::new();
    for network in 0..7 {
        for connection in 0..15 {
            let organization = if connection % 2 == 0 { "acme" } else { "platform" };
            let own = format!("mallory-{network}-{connection}@evil.test");
            let known = connection >= 12;
            let (browser, csrf) = match known {
                true => known_browser(server, organization, &own).await,
                false => new_browser(server).await,
            };
            attackers.push((
                format!("203.0.113.{network}"),
                organization,
                browser,
                csrf,
                known.then_some(own),
            ));
        }
    }
    let attacks = attackers.iter().map(async |(address, organization, browser, csrf, own)| {
        loop {
            match own {
                Some(own) => {
                    send(server, browser, csrf, address, &format!("/o/{organization}/login"), own).await
                }
                // The address is taken, but the password is hashed first.
                None => {
                    let path = format!("/o/{organization}/signup");
                    send(server, browser, csrf, address, &path, "mallory-0-12@evil.test").await
                }
            };
        }
    });
    let _: Vec<()> = at_once(attacks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seven_networks_keep_out_no_known_browser_and_no_organization_that_they_do_not_attack() {
    const TRIES: usize = 10;
    const AT_ONCE: usize = 2;
    let settings = |settings: &mut server::Settings| {
        settings.hash_threads = Some(2);
        // All of the sign-ups come to the lane.
        settings.sign_ups_per_network_max = 1_000_000;
    };
    let server = TestServer::start_with(settings, |_| {}).await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    owner.make("/api/organizations", json!({ "slug": "quiet", "name": "Quiet" })).await;
    for organization in ["quiet", "platform"] {
        open_sign_up(&server, organization).await;
    }
    let _ = known_browser(&server, "quiet", "nora@quiet.test").await;
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for number in 0..TRIES {
        let organization = if number % 2 == 0 { "acme" } else { "platform" };
        let email = format!("known-{number}@user.test");
        known.push((organization, known_browser(&server, organization, &email).await, email));
        new.push(new_browser(&server).await);
    }
    let users = async {
        // From here on the lane has not had room for at least one attacker.
        while asked(&server).await[1] == 0 {
            tokio::task::yield_now().await;
        }
        let (mut known_in, mut new_in) = (0, 0);
        for turn in 0..TRIES / AT_ONCE {
            let range = turn * AT_ONCE..(turn + 1) * AT_ONCE;
            let known = known[range.clone()].iter().enumerate().map(async |(place, (at, browser, email))| {
                let path = format!("/o/{at}/login");
                send(&server, &browser.0, &browser.1, &format!("198.51.100.{place}"), &path, email).await
            });
            let new = new[range].iter().enumerate().map(async |(place, browser)| {
                let address = format!("198.51.100.{}", 100 + place);
                send(&server, &browser.0, &browser.1, &address, "/o/quiet/login", "nora@quiet.test").await
            });
            let (known, new) = tokio::join!(at_once(known), at_once(new));
            known_in += known.iter().filter(|status| **status == 303).count();
            new_in += new.iter().filter(|status| **status == 303).count();
        }
        (known_in, new_in)
    };
    let (known_in, new_in) = tokio::select! {
        counts = users => counts,
        () = attack(&server) => unreachable!("the attack does not end"),
    };
    println!("known browsers: {known_in} of {TRIES}; new ones elsewhere: {new_in} of {TRIES}");
    assert_eq!(known_in, TRIES, "known browsers");
    assert!(new_in >= 9, "{new_in} of {TRIES} new browsers");
    server.stop().await;
}
