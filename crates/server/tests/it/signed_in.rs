//! What being signed in means to a person at a browser: signing out says that it is done.

use crate::device::{sign_out, signed_in};
use crate::support::*;
use server::testing::{Answer, TestBrowser, TestServer};

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

    // Where the account page sends whoever is signed out, too.
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
        let mut browser = server.browser();
        browser.cookies = vec![("sarsen_7070__told".to_owned(), value.to_owned())];
        let page = browser.get("/o/acme/login").await;
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
