//! A user looks where they are signed in, and ends what they do not want, on the account page.

use crate::device::{ada_on_a_device, error, refusal, sign_out, signed_in};
use crate::instances::{at, instances, stop};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer, at_once};
use std::time::{Duration, Instant};

const ACCOUNT: &str = "/o/acme/account";
const SESSIONS: &str = "/o/acme/account/sessions";

/// The ids of the other sessions on the account page, newest first.
fn others(page: &Answer) -> Vec<String> {
    let values = page.body.split("name=\"end\" value=\"").skip(1);
    let values = values.filter_map(|rest| rest.split('"').next()).filter(|value| *value != "others");
    values.map(str::to_owned).collect()
}

/// Presses a button of the account page: of a session, or of all others.
async fn end(browser: &mut TestBrowser<'_>, which: &str) -> Answer {
    let csrf = browser.get("/activate").await.input("csrf");
    browser.post(SESSIONS, &[("csrf", &csrf), ("end", which)]).await
}

async fn is_in(browser: &mut TestBrowser<'_>) -> bool {
    browser.get(ACCOUNT).await.status == 200
}

async fn reads(server: &TestServer, tokens: &Answer) -> u16 {
    server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await.status
}

async fn refresh(server: &TestServer, client: &str, tokens: &Answer) -> Answer {
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*tokens.text("refresh_token")),
        ("client_id", server.client(client)),
    ];
    server.post("/auth/token", &fields).send().await
}

/// Newest first: what was done to acme's sessions, and to how many.
async fn trail(server: &TestServer) -> Vec<String> {
    let admin = Admin::sign_in(server, "admin@acme.test", "org:acme").await;
    let entries = admin.read("/api/organizations/acme/audit").await;
    let entries = entries["items"].as_array().into_iter().flatten();
    let ends = entries.filter(|entry| text(entry, "action").ends_with("ended"));
    ends.map(|entry| format!("{} {}", text(entry, "action"), text(entry, "details"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_and_a_browser_are_ended_from_another_browser() {
    let server = TestServer::start().await;
    let device = ada_on_a_device(&server).await;
    server.clock.advance(Duration::from_secs(60));
    let mut lost = signed_in(&server, "ada@acme.test").await;
    let offline = Ask::of(&server, "spa").with("scope", "openid offline_access");
    let in_lost = tokens_of(&server, &mut lost, &offline).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let in_own = tokens_of(&server, &mut ada, &offline).await;
    server.clock.advance(Duration::from_secs(120));

    let page = ada.get(ACCOUNT).await;
    assert_eq!(page.body.matches("This browser").count(), 1, "{page:?}");
    assert!(page.body.contains("<bdi>127.0.0.1</bdi> · signed in 2 minutes ago"), "{page:?}");
    let ids = others(&page);
    assert_eq!(ids.len(), 3, "the browser that allowed the device is one of them: {page:?}");
    let lost_id = &ids[0];
    let line = page.body.split("<li").find(|line| line.contains("Acme command line")).expect("the device");
    let device_id = ids.iter().find(|id| line.contains(*id)).expect("the device's id");

    assert_eq!((reads(&server, &device).await, reads(&server, &in_lost).await), (200, 200));
    let ended = end(&mut ada, device_id).await;
    assert_eq!((ended.status, ended.header("location")), (303, ACCOUNT));
    let page = ada.get(ACCOUNT).await;
    assert!(page.body.contains("role=\"status\">You are signed out there.</p>"), "{page:?}");
    assert!(!ada.get(ACCOUNT).await.body.contains("You are signed out"), "said once");
    assert_eq!(others(&page).len(), 2, "{page:?}");
    assert_eq!((reads(&server, &device).await, reads(&server, &in_lost).await), (401, 200));
    assert_eq!(refusal(&refresh(&server, "cli", &device).await), error(400, "invalid_grant"));

    assert!(is_in(&mut lost).await);
    assert_eq!(end(&mut ada, lost_id).await.header("location"), ACCOUNT);
    assert!(!is_in(&mut lost).await);
    assert_eq!(reads(&server, &in_lost).await, 401);
    assert_eq!(refusal(&refresh(&server, "spa", &in_lost).await), error(400, "invalid_grant"));
    let silent = lost.get(&Ask::of(&server, "spa").with("prompt", "none").path()).await;
    assert_eq!(silent.redirect_param("error").as_deref(), Some("login_required"));

    // Again is fine, and counts for nothing.
    assert_eq!(end(&mut ada, lost_id).await.status, 303);
    assert!(is_in(&mut ada).await);
    assert_eq!(reads(&server, &in_own).await, 200);
    assert_eq!(trail(&server).await, ["session.ended "; 2]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_is_in_the_audit_trail() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    sign_out(&mut ada).await;
    assert!(!is_in(&mut ada).await);
    assert_eq!(trail(&server).await, ["session.ended "]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everywhere_else_is_everywhere_but_here() {
    let server = TestServer::start().await;
    let device = ada_on_a_device(&server).await;
    let mut elsewhere = signed_in(&server, "ada@acme.test").await;
    let mut grace = signed_in(&server, "grace@acme.test").await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let own = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await;
    assert!(ada.get(ACCOUNT).await.body.contains("Sign out everywhere else"));
    assert_eq!(end(&mut ada, "others").await.header("location"), ACCOUNT);
    let page = ada.get(ACCOUNT).await;
    assert!(page.body.contains("role=\"status\">You are signed out everywhere else.</p>"), "{page:?}");
    assert!(others(&page).is_empty() && !page.body.contains("Sign out everywhere else"), "{page:?}");
    assert_eq!((reads(&server, &device).await, reads(&server, &own).await), (401, 200));
    assert!(!is_in(&mut elsewhere).await);
    assert!(is_in(&mut grace).await, "nobody else's");
    assert_eq!(end(&mut ada, "others").await.status, 303, "there is nothing to end");
    assert_eq!(trail(&server).await, ["user.sessions_ended 3"]);

    // The button of this browser's own line; and its id where the others' stand.
    let own_id = others(&signed_in(&server, "ada@acme.test").await.get(ACCOUNT).await).remove(0);
    let left = end(&mut ada, &own_id).await;
    assert_eq!(left.header("location"), "/o/acme/login");
    let page = ada.get("/o/acme/login").await;
    assert!(page.body.contains("role=\"status\">You are signed out.</p>"), "{page:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_ends_the_sessions_of_others() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut second = signed_in(&server, "ada@acme.test").await;
    let of_ada = others(&second.get(ACCOUNT).await).remove(0);
    let csrf = ada.get(ACCOUNT).await.input("csrf");

    // Another user, an account of another organization, nobody.
    let mut grace = signed_in(&server, "grace@acme.test").await;
    assert_eq!(end(&mut grace, &of_ada).await.status, 303, "as if it had ended before");
    let mut admin = server.browser();
    admin.sign_in("platform", "admin@acme.test").await;
    let admins = admin.get("/o/platform/account").await.input("csrf");
    for which in [&*of_ada, "others"] {
        let fields = [("csrf", &*admins), ("end", which)];
        assert_eq!(admin.post("/o/platform/account/sessions", &fields).await.status, 303);
        let answer = admin.post(SESSIONS, &fields).await;
        assert!(answer.header("location").starts_with("/o/acme/login?"), "{answer:?}");
    }
    let mut nobody = server.browser();
    let answer = end(&mut nobody, &of_ada).await;
    assert!(answer.header("location").starts_with("/o/acme/login?"), "{answer:?}");

    // A form from elsewhere.
    for csrf in ["", "x", &*admins] {
        for which in [&*of_ada, "others"] {
            assert_eq!(second.post(SESSIONS, &[("csrf", csrf), ("end", which)]).await.status, 403);
        }
    }
    assert_eq!(second.post(SESSIONS, &[("end", "others")]).await.status, 403);
    assert_eq!(second.get(SESSIONS).await.status, 405, "a link does nothing");
    for nonsense in ["", "x", "session_", "user_01k3zq7v9mf2ht8x4w6c", "*", "<b>"] {
        let answer = ada.post(SESSIONS, &[("csrf", &csrf), ("end", nonsense)]).await;
        assert!(answer.status == 400 && !answer.body.contains("<b>"), "{nonsense}: {answer:?}");
    }
    assert_eq!(ada.post(SESSIONS, &[("csrf", &csrf)]).await.status, 400, "nothing is named");
    for browser in [&mut ada, &mut second] {
        assert!(is_in(browser).await);
    }

    // A session that has ended has no say any more.
    let kept = second.cookies.clone();
    sign_out(&mut second).await;
    second.cookies = kept;
    assert!(end(&mut second, "others").await.header("location").starts_with("/o/acme/login?"));
    assert!(is_in(&mut ada).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_end_each_other_one_is_left() {
    let instances = instances().await;
    let mut browsers = Vec::new();
    for number in 0..6 {
        browsers.push(signed_in(at(&instances, number), "ada@acme.test").await);
    }
    let mut buttons = Vec::new();
    for (number, browser) in browsers.iter_mut().enumerate() {
        let csrf = browser.get("/activate").await.input("csrf");
        let cookies = browser.cookies.header().expect("a session");
        let form = at(&instances, number).post(SESSIONS, &[("csrf", &csrf), ("end", "others")]);
        buttons.push(form.header("cookie", &cookies).send());
    }
    let pressed = at_once(buttons).await;
    assert!(pressed.iter().all(|answer| answer.status == 303), "{pressed:?}");
    let mut left = 0;
    for browser in &mut browsers {
        left += usize::from(is_in(browser).await);
    }
    assert_eq!(left, 1, "{pressed:?}");
    let ended = trail(at(&instances, 0)).await;
    assert_eq!(ended, ["user.sessions_ended 5"]);
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_instance_hears_of_it() {
    let instances = instances().await;
    let device = ada_on_a_device(at(&instances, 0)).await;
    let mut elsewhere = signed_in(at(&instances, 1), "ada@acme.test").await;
    let offline = Ask::of(at(&instances, 1), "spa").with("scope", "openid offline_access");
    let in_browser = tokens_of(at(&instances, 1), &mut elsewhere, &offline).await;
    for (instance, tokens) in instances.iter().flat_map(|one| [(one, &device), (one, &in_browser)]) {
        assert_eq!(reads(instance, tokens).await, 200, "every instance remembers it now");
    }
    let mut ada = signed_in(at(&instances, 2), "ada@acme.test").await;
    assert_eq!(end(&mut ada, "others").await.header("location"), ACCOUNT);
    for tokens in [&device, &in_browser] {
        assert_eq!(reads(at(&instances, 2), tokens).await, 401, "at once where it was ended");
        for instance in &instances {
            let began = Instant::now();
            while reads(instance, tokens).await != 401 {
                assert!(began.elapsed() < Duration::from_secs(5), "a session that was ended is still good");
                tokio::task::yield_now().await;
            }
        }
    }
    for instance in &instances {
        assert_eq!(refusal(&refresh(instance, "cli", &device).await), error(400, "invalid_grant"));
    }
    assert!(!is_in(&mut elsewhere).await);
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_reads_the_sessions_of_a_user_in_pages() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = admin.read("/api/organizations/acme/users?email=ada@acme.test").await;
    for _ in 0..3 {
        signed_in(&server, "ada@acme.test").await;
        server.clock.advance(Duration::from_secs(1));
    }
    let list = format!("/api/organizations/acme/users/{}/sessions", text(&users["items"][0], "id"));
    let whole = admin.read(&list).await;
    let all: Vec<&str> =
        whole["items"].as_array().expect("items").iter().map(|item| text(item, "id")).collect();
    assert!(all.len() == 3 && all.is_sorted_by(|one, next| one > next) && whole["next"].is_null(), "{whole}");
    let first = admin.read(&format!("{list}?limit=2")).await;
    let second = admin.read(&format!("{list}?limit=2&cursor={}", text(&first, "next"))).await;
    assert_eq!((&first["items"][0]["id"], &first["items"][1]["id"]), (&json!(all[0]), &json!(all[1])));
    assert_eq!((&second["items"][0]["id"], &second["next"]), (&json!(all[2]), &Value::Null));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_ends_one_session_of_a_user() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = admin.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let mut kept = signed_in(&server, "ada@acme.test").await;
    server.clock.advance(Duration::from_secs(1));
    let mut lost = signed_in(&server, "ada@acme.test").await;
    let list = format!("/api/organizations/acme/users/{}/sessions", text(&users["items"][0], "id"));
    let newest = text(&admin.read(&list).await["items"][0], "id").to_owned();

    let ended = admin.change("DELETE", &format!("{list}/{newest}"), Value::Null).await;
    assert_eq!(ended.status, 204, "{ended:?}");
    assert!(!is_in(&mut lost).await && is_in(&mut kept).await);
    assert_eq!(trail(&server).await[0], "session.ended ");

    // Ended before; of another user; no id of a session.
    let mut grace = signed_in(&server, "grace@acme.test").await;
    let of_grace = others(&signed_in(&server, "grace@acme.test").await.get(ACCOUNT).await).remove(0);
    for id in [&*newest, &*of_grace, "session_x"] {
        let answer = admin.call("DELETE", &format!("{list}/{id}"), &Value::Null).await;
        assert_eq!((answer.status, answer.text("code")), (404, "not_found".to_owned()), "{id}: {answer:?}");
    }
    assert!(is_in(&mut grace).await);
    server.stop().await;
}
