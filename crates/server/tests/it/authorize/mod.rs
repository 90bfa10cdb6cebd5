//! The authorization endpoint: the story, and every attack on it (RFC 6749 section 4.1, RFC 9700, OpenID Connect).

mod again;
mod browser;
mod codes;
mod consent;
mod form_post;
mod hints;
mod level;
mod logout;
mod posted;
mod request;

use crate::support::*;
use server::testing::{Answer, TestBrowser, TestServer};

/// What a redirect to the client says was wrong; checked to be a whole answer of its kind.
fn refusal(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{answer:?}");
    let location = answer.header("location");
    assert!(location.starts_with(&format!("{CALLBACK}?error=")), "{location}");
    assert_eq!(answer.redirect_param("state").as_deref(), Some("the-state"), "{location}");
    assert_eq!(answer.redirect_param("iss").as_deref(), Some(ISSUER), "{location}");
    assert_eq!(answer.redirect_param("code"), None, "{location}");
    answer.redirect_param("error").unwrap_or_default()
}

/// A page that says what is wrong, and leads nowhere.
fn assert_shown_here(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 400, "{what}: {answer:?}");
    assert!(answer.header("content-type").starts_with("text/html"), "{what}: {answer:?}");
    assert_eq!(answer.header("location"), "", "{what}");
    // What came may be shown as text, but no link, image or form has it.
    let tags = answer.body.split('<').filter_map(|piece| piece.split('>').next());
    assert!(!tags.into_iter().any(|tag| tag.contains("evil.example")), "{what}: {}", answer.body);
}

/// Whether the answer sends the user to sign in, and where he then comes back to.
fn sign_in_first(answer: &Answer) -> Option<String> {
    answer.header("location").starts_with("/o/acme/login?").then(|| answer.redirect_param("next"))?
}

async fn ada(server: &TestServer) -> TestBrowser<'_> {
    let mut ada = server.browser();
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    ada
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_for_a_client_and_the_client_gets_tokens() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let ask = Ask::of(&server, "spa").with("scope", "openid email offline_access");
    let mut ada = server.browser();
    let asked = ada.get(&ask.path()).await;
    assert_eq!(asked.status, 303);
    let next = sign_in_first(&asked).expect("nobody is signed in");
    let page = ada.get(asked.header("location")).await;
    let fields = [
        ("csrf", &*page.input("csrf")),
        ("next", &page.input("next")),
        ("email", "ada@acme.test"),
        ("password", server.password("ada@acme.test")),
    ];
    let signed_in = ada.post("/o/acme/login", &fields).await;
    assert_eq!(
        (signed_in.status, signed_in.header("location")),
        (303, &*next),
        "303: never repeats the POST"
    );

    let answer = ada.get(&next).await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert_eq!(answer.redirect_param("state").as_deref(), Some("the-state"));
    assert_eq!(answer.redirect_param("iss").as_deref(), Some(ISSUER));
    let code = answer.redirect_param("code").expect("a code");
    let tokens = redeem(&server, server.client("spa"), CALLBACK, &code).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    assert_eq!(tokens.text("scope"), "openid email offline_access");
    assert!(!tokens.text("refresh_token").is_empty());
    let id = claims(&tokens.text("id_token"));
    assert_eq!(id["nonce"], "the-nonce");
    assert_eq!(id["auth_time"], 1_800_000_000);
    assert_eq!(id["aud"], server.client("spa"));
    assert_eq!(id["iss"], ISSUER);
    assert_eq!(id["email"], "ada@acme.test");
    assert_eq!(id["sub"], claims(&tokens.text("access_token"))["sub"]);

    // Signed in once is signed in for the other products too.
    let other = ada.get(&Ask::of(&server, "web").path()).await;
    assert!(other.redirect_param("code").is_some(), "{other:?}");
    server.stop().await;
}

/// Opens a request that asks for consent, and decides.
async fn consent(browser: &mut TestBrowser<'_>, ask: &Ask, decision: &str) -> Answer {
    let page = browser.get(&ask.path()).await;
    assert_eq!(page.status, 200, "{page:?}");
    post_consent(browser, &page, &[("decision", decision)]).await
}

/// Sends the form of a consent page, with other values for some of its fields.
async fn post_consent(browser: &mut TestBrowser<'_>, page: &Answer, changed: &[(&str, &str)]) -> Answer {
    let own = ["csrf", "next", "session"].map(|name| (name, page.input(name)));
    let kept = own.iter().filter(|(name, _)| !changed.iter().any(|(other, _)| other == name));
    let mut fields: Vec<(&str, &str)> = kept.map(|(name, value)| (*name, value.as_str())).collect();
    fields.extend(changed);
    browser.post("/consent", &fields).await
}
