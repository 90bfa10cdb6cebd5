//! Guessing passwords: of one account from many networks, of many accounts from one, and what the tenant learns of it.

use crate::device::signed_in;
use crate::support::{Admin, metric, text};
use serde_json::Value;
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

const PASSWORD: &str = "correct horse battery";

/// A sign-in in a browser that has never been here.
async fn sign_in(server: &TestServer, address: &str, email: &str, password: &str) -> Answer {
    let page = server.get("/o/acme/login").send().await;
    let cookie = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let fields = [("csrf", &*page.input("csrf")), ("email", email), ("password", password)];
    let form = server.post("/o/acme/login", &fields).header("cookie", &cookie);
    form.header("x-forwarded-for", address).send().await
}

/// Wrong passwords for an account, each from a network of its own, until one is refused unchecked; how many were checked.
async fn guess(server: &TestServer, email: &str) -> (usize, Answer) {
    for number in 0..100 {
        let address = format!("203.0.113.{number}");
        let answer = sign_in(server, &address, email, &format!("guess {number}")).await;
        if answer.status != 422 {
            return (number, answer);
        }
    }
    panic!("a hundred guesses were checked");
}

async fn failed(admin: &Admin<'_>) -> Vec<Value> {
    let trail = admin.read("/api/organizations/acme/audit").await;
    let entries = trail["items"].as_array().expect("entries").iter().cloned();
    entries.filter(|entry| text(entry, "action") == "user.sign_in_failed").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_guessed_ten_times_and_then_ever_more_slowly() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    // A hash counts a moment after its answer.
    while metric(&server, "sarsen_hash_done_total").await < 1 {
        tokio::task::yield_now().await;
    }
    let (checked, refused) = guess(&server, "ada@acme.test").await;
    let (checked_nobody, refused_nobody) = guess(&server, "nobody@acme.test").await;
    assert_eq!((checked, checked_nobody), (10, 10));
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"), "{refused:?}");
    assert!(refused.body.contains("Too many wrong passwords"), "{refused:?}");
    let plain =
        |page: &Answer, email: &str| page.body.replace(email, "EMAIL").replace(&page.input("csrf"), "");
    assert_eq!(plain(&refused, "ada@acme.test"), plain(&refused_nobody, "nobody@acme.test"));
    while metric(&server, "sarsen_hash_done_total").await < 1 + 20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(metric(&server, "sarsen_hash_done_total").await, 1 + 20, "refused ones cost no hash");
    assert_eq!(metric(&server, "sarsen_passwords_throttled_total").await, 2);

    let right = server.password("ada@acme.test");
    assert_eq!(sign_in(&server, "198.51.100.1", "ada@acme.test", right).await.status, 429);
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303, "a known browser is not locked out");
    assert_eq!(ada.sign_in("acme", "grace@acme.test").await.status, 303, "nor is another account");
    // Another network that asked may have drawn the next attempt.
    server.clock.advance(Duration::from_secs(60));
    for seconds in [1, 2, 4] {
        server.clock.advance(Duration::from_secs(seconds));
        assert_eq!(sign_in(&server, "198.51.100.1", "ada@acme.test", "wrong").await.status, 422);
        let next = sign_in(&server, "198.51.100.1", "ada@acme.test", right).await;
        assert_eq!((next.status, next.header("retry-after")), (429, &*(2 * seconds).to_string()), "{next:?}");
    }
    server.clock.advance(Duration::from_secs(8));
    assert_eq!(sign_in(&server, "198.51.100.1", "ada@acme.test", right).await.status, 303);
    assert_eq!(sign_in(&server, "198.51.100.1", "ada@acme.test", "wrong").await.status, 422, "cleared");
    server.stop().await;
}

/// A new browser gets in beside two networks that guess all the time, and are always there first.
#[tokio::test(flavor = "multi_thread")]
async fn the_attempts_at_an_account_are_shared_among_those_who_ask() {
    let server = TestServer::start().await;
    guess(&server, "ada@acme.test").await;
    let right = server.password("ada@acme.test");
    let attackers = ["203.0.113.201", "203.0.113.202"];
    let mut checked = 0;
    for round in 0..20 {
        for address in attackers {
            assert_eq!(sign_in(&server, address, "ada@acme.test", "guess").await.status, 429, "{round}");
        }
        let asked = sign_in(&server, "198.51.100.1", "ada@acme.test", right).await;
        assert_eq!(asked.status, 429, "{round}: {asked:?}");
        let wait = asked.header("retry-after").parse().expect("seconds");
        server.clock.advance(Duration::from_secs(wait));
        for address in attackers {
            checked += u32::from(sign_in(&server, address, "ada@acme.test", "guess").await.status == 422);
        }
        if sign_in(&server, "198.51.100.1", "ada@acme.test", right).await.status == 303 {
            assert!(checked <= round, "at most one attempt in each round");
            server.stop().await;
            return;
        }
    }
    panic!("not once in 20 rounds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_tries_many_accounts_is_slowed_down() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    for number in 0..60 {
        let answer = sign_in(&server, "127.0.0.1", &format!("{number}@acme.test"), "guess").await;
        assert_eq!(answer.status, 422, "{number}");
    }
    let right = server.password("grace@acme.test");
    assert_eq!(sign_in(&server, "127.0.0.1", "grace@acme.test", right).await.status, 429);
    assert_eq!(sign_in(&server, "198.51.100.1", "grace@acme.test", right).await.status, 303);
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303, "a known browser in that network");
    server.clock.advance(Duration::from_secs(10));
    assert_eq!(sign_in(&server, "127.0.0.1", "grace@acme.test", right).await.status, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_trail_has_one_row_a_minute_with_count_and_networks() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    guess(&server, "ada@acme.test").await;
    for number in 0..30 {
        let address = format!("198.51.100.{number}");
        assert_eq!(sign_in(&server, &address, "ada@acme.test", "guess").await.status, 429);
    }
    server.tidy().await.expect("tidies");
    assert_eq!(failed(&admin).await.len(), 1, "the minute is not over");
    server.clock.advance(Duration::from_secs(60));
    server.tidy().await.expect("tidies");
    server.tidy().await.expect("tidies");
    let rows = failed(&admin).await;
    let details: Vec<&str> = rows.iter().map(|row| text(row, "details")).collect();
    assert_eq!(details.len(), 2, "{details:?}");
    assert_eq!(details[1], "1 failed, from 203.0.113.0");
    let expected = "9 failed, 31 refused without a check, from 203.0.113.1, 203.0.113.2, ";
    assert!(details[0].starts_with(expected), "{details:?}");
    assert!(details[0].ends_with(" and others"), "{details:?}");
    assert_eq!(details[0].matches("203.0.113.").count() + details[0].matches("198.51.100.").count(), 20);
    server.stop().await;
}

/// The rows of a user, with the number of failures that they report.
async fn failures(server: &TestServer) -> (usize, u32) {
    let rows = failed(&Admin::sign_in(server, "admin@acme.test", "org:acme").await).await;
    let counts = rows.iter().map(|row| {
        let (count, _) = text(row, "details").split_once(" failed").expect("a count");
        count.parse::<u32>().expect("a number")
    });
    (rows.len(), counts.sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_writes_the_failures_of_the_last_minute() {
    let server = TestServer::start().await;
    for number in 0..5 {
        let address = format!("203.0.113.{number}");
        assert_eq!(sign_in(&server, &address, "ada@acme.test", "guess").await.status, 422);
    }
    let server = server.restart().await;
    assert_eq!(failures(&server).await, (2, 5));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_user_gets_no_row() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for number in 0..5 {
        let address = format!("203.0.113.{number}");
        assert_eq!(sign_in(&server, &address, "ada@acme.test", "guess").await.status, 422);
    }
    let found = admin.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let id = text(&found["items"][0], "id").to_owned();
    let path = format!("/api/organizations/acme/users/{id}");
    let deleted = admin.request("DELETE", &path).send().await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    server.tidy().await.expect("tidies");
    server.clock.advance(Duration::from_secs(60));
    server.tidy().await.expect("tidies");
    let server = server.restart().await;
    let rows = failed(&Admin::sign_in(&server, "admin@acme.test", "org:acme").await).await;
    let details: Vec<&str> = rows.iter().map(|row| text(row, "details")).collect();
    assert_eq!(details, [""], "the row from before the deletion, erased");
    server.stop().await;
}

async fn sign_up(browser: &mut TestBrowser<'_>, email: &str, name: &str, password: &str) -> Answer {
    let csrf = browser.get("/o/acme/signup").await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", email), ("name", name), ("password", password)];
    browser.post("/o/acme/signup", &fields).await
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_that_are_guessed_first_cannot_be_set() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    for (password, why) in [
        ("password", "attackers try first"),
        ("12345678", "attackers try first"),
        ("        ", "attackers try first"),
        ("aaaaaaaa", "attackers try first"),
        ("hedy.lamarr@acme.test", "a name or address of the account"),
        ("HedyLamarr1914", "a name or address of the account"),
    ] {
        let refused = sign_up(&mut browser, "hedy.lamarr@acme.test", "Hedy Lamarr", password).await;
        assert_eq!(refused.status, 422, "{password:?}");
        assert!(refused.body.contains(why), "{password:?}: {refused:?}");
    }
    assert_eq!(sign_up(&mut browser, "hedy.lamarr@acme.test", "Hedy Lamarr", PASSWORD).await.status, 303);
    server.stop().await;
}

/// A sign-up in a browser that has never been here.
async fn sign_up_from(server: &TestServer, address: &str, email: &str) -> Answer {
    let page = server.get("/o/acme/signup").send().await;
    let cookie = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let fields = [("csrf", &*page.input("csrf")), ("name", "New"), ("email", email), ("password", PASSWORD)];
    let form = server.post("/o/acme/signup", &fields).header("cookie", &cookie);
    form.header("x-forwarded-for", address).send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_creates_as_many_accounts_as_it_may_and_others_go_on() {
    let server = TestServer::start_with(|settings| settings.sign_ups_per_network_max = 3, |_| {}).await;
    let (one, other) = ("203.0.113.9", "203.0.113.10");
    for email in ["first@new.test", "second@new.test"] {
        assert_eq!(sign_up_from(&server, one, email).await.status, 303, "{email}");
    }
    let taken = sign_up_from(&server, one, "ada@acme.test").await;
    assert_eq!(taken.status, 422, "who asks whether an address has an account spends as much: {taken:?}");
    let hashed = metric(&server, "sarsen_lane_wait_seconds_count{lane=\"hash\"}").await;
    for email in ["third@new.test", "ada@acme.test"] {
        let refused = sign_up_from(&server, one, email).await;
        assert_eq!((refused.status, refused.header("retry-after")), (429, "1200"), "{refused:?}");
        assert!(refused.body.contains("Many accounts were created from your network."), "{refused:?}");
        assert!(refused.body.contains("try again in 20 minutes"), "{refused:?}");
        assert_eq!(refused.input("email"), email, "the form is there again");
    }
    let after = metric(&server, "sarsen_lane_wait_seconds_count{lane=\"hash\"}").await;
    assert_eq!(after, hashed, "no password was hashed for them");
    assert_eq!(metric(&server, "sarsen_sign_ups_refused_total").await, 2);
    assert_eq!(sign_up_from(&server, other, "fourth@new.test").await.status, 303);
    server.clock.advance(Duration::from_secs(1200));
    assert_eq!(sign_up_from(&server, one, "third@new.test").await.status, 303);
    assert_eq!(sign_up_from(&server, one, "fifth@new.test").await.status, 429);

    // The networks of a site count together, for twice as many.
    let mut made = 0;
    for number in 0..8 {
        let address = format!("2001:db8:7:{number}::1");
        made +=
            usize::from(sign_up_from(&server, &address, &format!("{number}@six.test")).await.status == 303);
    }
    assert_eq!(made, 6);
    server.stop().await;
}
