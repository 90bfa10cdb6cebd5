//! Requests that are posted: kept for a while, few of them, and gone on with by a GET.

use super::{ada, assert_shown_here, post_consent, refusal};
use crate::support::*;
use server::testing::TestServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn posted_requests_are_bounded_in_length_and_number() {
    let server = TestServer::start_with(|settings| settings.posted_requests_max = 2, |_| {}).await;
    let ask = Ask::of(&server, "spa");
    let long = "x".repeat(9000);
    let refused = server.post("/auth/authorize", &ask.clone().with("nonce", &long).fields()).send().await;
    assert!(refused.status == 400 && refused.body.contains("too long"), "{refused:?}");
    for _ in 0..3 {
        let image = server.post("/auth/authorize", &ask.fields()).header("sec-fetch-site", "cross-site");
        let image = image.header("sec-fetch-mode", "no-cors").header("sec-fetch-dest", "empty").send().await;
        assert_eq!(image.status, 403, "a request of another site's page: {image:?}");
    }
    for network in 0..2 {
        let form = server.post("/auth/authorize", &ask.fields()).header("sec-fetch-site", "cross-site");
        let form = form.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
        let form = form.header("x-forwarded-for", &format!("203.0.113.{network}")).send().await;
        assert_eq!(form.status, 303, "a client's page sends the user here: {form:?}");
    }
    let full = server.post("/auth/authorize", &ask.fields()).send().await;
    assert_eq!((full.status, full.header("retry-after")), (429, "60"), "{full:?}");
    let other = server.post("/auth/authorize", &Ask::of(&server, "web").fields()).send().await;
    assert_eq!(other.status, 303, "another client's requests are its own");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_request_goes_on_with_a_get() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa").with("prompt", "consent");
    let posted = server.post("/auth/authorize", &ask.fields()).send().await;
    assert_eq!(posted.status, 303, "{posted:?}");
    let address = posted.header("location").to_owned();
    assert!(address.starts_with("/auth/authorize?client_id=") && !address.contains("the-state"), "{address}");
    let page = ada.get(&address).await;
    assert_eq!(page.status, 200, "{page:?}");
    let answer = post_consent(&mut ada, &page, &[("decision", "allow")]).await;
    assert!(answer.redirect_param("code").is_some(), "{answer:?}");
    assert_eq!(answer.redirect_param("state").as_deref(), Some("the-state"));

    // Only what was stored counts, for the client that stored it.
    server.clock.advance(Duration::from_secs(1));
    let mixed = ada.get(&format!("{address}&redirect_uri=https%3A%2F%2Fevil.example&scope=openid")).await;
    assert_eq!(mixed.status, 200, "{mixed:?}");
    assert!(mixed.input("next").contains("127.0.0.1"), "{mixed:?}");
    assert_shown_here(
        &ada.get(&address.replace(server.client("spa"), server.client("web"))).await,
        "foreign",
    );
    assert_shown_here(&ada.get(&address[..address.len() - 3]).await, "cut");
    let in_query = server.post(&ask.path(), &[]).send().await;
    assert_shown_here(&in_query, "parameters in the address of a POST");
    server.clock.advance(Duration::from_secs(1801));
    let late = ada.get(&address).await;
    assert_eq!((late.status, late.header("location")), (404, ""), "{late:?}");
    let nested = server
        .post("/auth/authorize", &ask.with("request_uri", "urn:ietf:params:oauth:request_uri:x").fields());
    let nested = nested.send().await;
    assert_eq!(refusal(&ada.get(nested.header("location")).await), "request_uri_not_supported");
    server.stop().await;
}
