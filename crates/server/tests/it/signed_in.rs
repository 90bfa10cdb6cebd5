//! What being signed in means to a person at a browser: signing out says that it is done, and the form is for who is
//! not signed in or is asked again.

use crate::device::{sign_out, signed_in};
use crate::support::*;
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

/// What a page says politely.
fn said(page: &Answer) -> &str {
    let notice = page.body.split("role=\"status\">").nth(1).unwrap_or_default();
    notice.split("</p>").next().unwrap_or_default()
}

/// Sends the form of the page that asks before it signs out, and goes where it leads.
async fn sign_out_to(browser: &mut TestBrowser<'_>, next: &str) -> Answer {
    let csrf = browser.get("/o/acme/logout").await.input("csrf");
    let left = browser.post("/o/acme/logout", &[("csrf", &csrf), ("next", next)]).await;
    assert_eq!(left.status, 303, "{left:?}");
    browser.get(left.header("location")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_says_once_that_it_is_done() {
    let server = TestServer::start().await;
    assert_eq!(said(&server.browser().get("/o/acme/login").await), "", "nobody has signed out");
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let page = sign_out_to(&mut ada, "").await;
    assert_eq!((page.status, said(&page)), (200, "You are signed out."));
    assert!(page.body.contains("<title>You are signed out. Sign in · Acme</title>"), "{page:?}");
    assert_eq!(said(&ada.get("/o/acme/login").await), "", "once");

    // The account page sends a user who is signed out there, too.
    ada.sign_in("acme", "ada@acme.test").await;
    let account = sign_out_to(&mut ada, "/o/acme/account").await;
    assert_eq!(account.status, 303, "{account:?}");
    assert_eq!(said(&ada.get(account.header("location")).await), "You are signed out.");

    // A product that has no address to go back to.
    ada.sign_in("acme", "ada@acme.test").await;
    let hint = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let left = ada.get(&format!("/auth/logout?id_token_hint={hint}")).await;
    assert_eq!(said(&ada.get(left.header("location")).await), "You are signed out.");

    let mut owner = server.browser();
    owner.sign_in("platform", "owner@sarsen.test").await;
    let csrf = owner.get("/console").await.input("csrf");
    let left = owner.post("/o/platform/logout", &[("csrf", &csrf)]).await;
    assert_eq!(left.header("location"), "/login");
    assert_eq!(said(&owner.get("/login").await), "You are signed out.");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_a_sign_out_makes_a_page_say_so() {
    let server = TestServer::start().await;
    for query in ["?signed_out=1", "?info=You+won", "?told=signed_out", "?_told=signed_out.acme", "?error=x"]
    {
        let page = server.get(&format!("/o/acme/login{query}")).send().await;
        assert_eq!((page.status, said(&page)), (200, ""), "{query}");
        assert!(!page.body.contains("You won"), "{query}");
    }
    for value in ["You won", "<b>.acme", "signed_out", "signed_out.globex", ".acme", ""] {
        let cookie = format!("sarsen_7070__told={value}");
        let page = server.get("/o/acme/login").header("cookie", &cookie).send().await;
        assert_eq!((page.status, said(&page)), (200, ""), "{value}");
        assert!(!page.body.contains("You won") && !page.body.contains("<b>"), "{value}");
    }
    // A sign-out at one organization is none at another; and a wrong password has something else to say.
    let mut ada = signed_in(&server, "ada@acme.test").await;
    sign_out(&mut ada).await;
    assert_eq!(said(&ada.get("/login").await), "");
    let csrf = ada.get("/activate").await.input("csrf");
    let wrong = [("csrf", &*csrf), ("email", "ada@acme.test"), ("password", "wrong")];
    assert_eq!(said(&ada.post("/o/acme/login", &wrong).await), "");
    server.stop().await;
}

/// Where a page sends on to; nowhere when it shows something.
async fn leads(browser: &mut TestBrowser<'_>, path: &str) -> Option<String> {
    let answer = browser.get(path).await;
    assert!([200, 303].contains(&answer.status), "{path}: {answer:?}");
    Some(answer.header("location").to_owned()).filter(|location| !location.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_signed_in_goes_on_from_the_form_at_once() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut owner = server.browser();
    owner.sign_in("platform", "owner@sarsen.test").await;
    assert_eq!(leads(&mut ada, "/o/acme/login").await.as_deref(), Some("/o/acme/account"));
    for path in ["/login", "/o/platform/login"] {
        assert_eq!(leads(&mut owner, path).await.as_deref(), Some("/console"), "{path}");
    }
    let to = "/activate?user_code=BCDF-GHJK";
    let with = |next: &str| format!("/o/acme/login?next={}", next.replace('?', "%3F").replace('=', "%3D"));
    assert_eq!(leads(&mut ada, &with(to)).await.as_deref(), Some(to));
    for evil in ["https://evil.example/", "//evil.example", "/\\evil.example", "/auth/logout"] {
        assert_eq!(leads(&mut ada, &with(evil)).await.as_deref(), Some("/o/acme/account"), "{evil}");
    }
    // A request that only wanted somebody to be signed in goes on where it was.
    let ask = Ask::of(&server, "spa");
    let asked = server.get(&ask.path()).send().await;
    let next = leads(&mut ada, asked.header("location")).await.expect("goes on");
    assert!(ada.get(&next).await.redirect_param("code").is_some(), "{next}");

    assert_eq!(leads(&mut ada, "/login").await, None, "an account of acme is none of the platform");
    assert_eq!(leads(&mut server.browser(), "/o/acme/login?prompt=login").await, None);
    assert_eq!(leads(&mut ada, "/o/acme/login?prompt=dance").await.as_deref(), Some("/o/acme/account"));
    sign_out(&mut ada).await;
    assert_eq!(leads(&mut ada, "/o/acme/login").await, None, "nobody is signed in");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_signed_in_is_asked_again_when_a_product_wants_it() {
    let server = TestServer::start().await;
    let ask = Ask::of(&server, "spa");
    for (ask, email, notice) in [
        (ask.clone().with("prompt", "login"), "ada@acme.test", "enter your password again"),
        (ask.clone().with("max_age", "60"), "ada@acme.test", "enter your password again"),
        (ask.clone().with("prompt", "select_account"), "", "with another account"),
        (ask.clone().with("prompt", "select_account login"), "", "with another account"),
    ] {
        let mut ada = signed_in(&server, "ada@acme.test").await;
        server.clock.advance(Duration::from_secs(61));
        let asked = ada.get(&ask.path()).await;
        let page = ada.get(asked.header("location")).await;
        assert_eq!((page.status, &*page.input("email")), (200, email), "{page:?}");
        assert!(said(&page).contains("You are signed in as <b><bdi>ada@acme.test</bdi></b>."), "{page:?}");
        assert!(said(&page).contains(notice), "{page:?}");
        // The way round by an older form ends here too, and does not go round for ever.
        let next = page.input("next");
        let plain =
            format!("/o/acme/login?next={}", asked.header("location").split("next=").nth(1).expect("next"));
        let back = leads(&mut ada, &plain).await.expect("goes on");
        assert_eq!(leads(&mut ada, &back).await.as_deref(), Some(asked.header("location")), "asked again");

        for who in ["ada@acme.test", "grace@acme.test"] {
            let fields = [
                ("csrf", &*page.input("csrf")),
                ("next", &next),
                ("email", who),
                ("password", server.password(who)),
            ];
            let signed_in = ada.post("/o/acme/login", &fields).await;
            assert_eq!(signed_in.header("location"), next, "{signed_in:?}");
            assert!(ada.get(&next).await.redirect_param("code").is_some(), "{who}");
            assert!(ada.get("/o/acme/account").await.body.contains(who), "another account takes its place");
        }
    }
    server.stop().await;
}
