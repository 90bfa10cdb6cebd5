//! Requests that are posted: a GET with the same parameters follows, and nothing is stored.

use super::{ada, assert_shown_here, post_consent, refusal};
use crate::support::*;
use server::testing::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_request_goes_on_with_a_get() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa").with("prompt", "consent").with("state", "a b+c&d=é\"<");
    let form = server.post("/auth/authorize", &ask.fields()).header("sec-fetch-site", "cross-site");
    let form = form.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
    let posted = form.send().await;
    assert_eq!(posted.status, 303, "a client's page sends the user here: {posted:?}");
    let address = posted.header("location").to_owned();
    let carried = address.strip_prefix("/auth/authorize?").expect("the same endpoint");
    let carried: Vec<(String, String)> = form_urlencoded::parse(carried.as_bytes())
        .into_owned()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let sent: Vec<(String, String)> = form_urlencoded::parse(ask.query().as_bytes())
        .into_owned()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    assert_eq!(carried, sent, "all of it, and nothing else");
    let page = ada.get(&address).await;
    assert_eq!(page.status, 200, "{page:?}");
    let answer = post_consent(&mut ada, &page, &[("decision", "allow")]).await;
    assert!(answer.redirect_param("code").is_some(), "{answer:?}");
    assert_eq!(answer.redirect_param("state").as_deref(), Some("a b+c&d=é\"<"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_request_is_refused_as_one_by_get() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa");
    assert_shown_here(&server.post(&ask.path(), &[]).send().await, "parameters in the address of a POST");
    let empty = server.post("/auth/authorize", &[]).send().await;
    assert_shown_here(&ada.get(empty.header("location")).await, "no parameters");
    // References to requests that an earlier release stored are unknown too.
    for reference in ["urn:ietf:params:oauth:request_uri:x", "https://evil.example/"] {
        let nested = server.post("/auth/authorize", &ask.clone().with("request_uri", reference).fields());
        let nested = nested.send().await;
        assert_eq!(refusal(&ada.get(nested.header("location")).await), "request_uri_not_supported");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_request_that_no_address_can_carry_is_refused() {
    let server = TestServer::start().await;
    let ask = Ask::of(&server, "spa");
    let room = 7680 - ask.clone().with("nonce", "").query().len();
    let post = |ask: Ask| {
        let server = &server;
        async move { server.post("/auth/authorize", &ask.fields()).send().await }
    };
    let fits = post(ask.clone().with("nonce", &"x".repeat(room))).await;
    assert!(fits.header("location").starts_with("/auth/authorize?"), "{fits:?}");
    // Encoded once more, each of these bytes has five.
    for long in ["x".repeat(room + 1), "\"".repeat(room / 3)] {
        let refused = post(ask.clone().with("nonce", &long)).await;
        assert_eq!(refusal(&refused), "invalid_request", "to the client");
        let said = refused.redirect_param("error_description").unwrap_or_default();
        assert!(said.contains("7680"), "{said}");
        let foreign = ask.clone().with("redirect_uri", "https://evil.example/");
        assert_shown_here(&post(foreign.with("nonce", &"x".repeat(8000))).await, "to nobody");
        // A note of ours is no part of the request, but of its address.
        let noted = post(ask.clone().with("nonce", "short").with("sarsen_asked", &long)).await;
        assert_eq!(refusal(&noted), "invalid_request");
    }
    server.stop().await;
}
