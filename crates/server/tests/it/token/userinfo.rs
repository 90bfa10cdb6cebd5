//! The token of userinfo: in the header or in a form, and in one of them; errors as RFC 6750 has them.

use super::basic;
use crate::support::{challenge, tokens};
use server::testing::{Answer, TestServer};

const PATH: &str = "/auth/userinfo";
const FORM: &str = "application/x-www-form-urlencoded";

/// Status and error of an error object, which has nothing else in it.
fn refusal(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    let fields: Vec<&String> = body.as_object().into_iter().flat_map(|body| body.keys()).collect();
    assert_eq!(fields, ["error", "error_description"], "{answer:?}");
    assert!(answer.header("content-type").starts_with("application/json"), "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    assert!(!answer.body.contains("API key:") && !answer.body.contains("or an API key"), "{answer:?}");
    answer.error()
}

fn is(status: u16, error: &str) -> (u16, String) {
    (status, error.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_stands_in_the_header_or_in_a_form() {
    let server = TestServer::start().await;
    let token = tokens(&server, "ada@acme.test", "openid email").await.text("access_token");
    let good = |answer: &Answer, what: &str| {
        assert_eq!((answer.status, &*answer.text("email")), (200, "ada@acme.test"), "{what}: {answer:?}");
        assert_eq!(answer.header("cache-control"), "no-store");
    };
    good(&server.get(PATH).bearer(&token).send().await, "a header");
    good(&server.post(PATH, &[("access_token", &token)]).send().await, "a form");
    good(&server.post(PATH, &[("x", "y"), ("access_token", &token)]).send().await, "a form with more in it");
    let with_charset = server.request("POST", PATH);
    let with_charset =
        with_charset.body(&format!("{FORM}; charset=UTF-8"), format!("access_token={token}").into_bytes());
    good(&with_charset.send().await, "with a charset");
    for (media_type, body) in
        [(FORM, ""), ("application/json", "{}"), ("application/octet-stream", "x"), ("", "")]
    {
        let request = server.request("POST", PATH).bearer(&token);
        let request = if media_type.is_empty() { request } else { request.body(media_type, body.into()) };
        good(&request.send().await, media_type);
    }
    // A client that authenticates itself there has not sent a second token.
    let web = basic(server.client("web"), server.secret("web"));
    let form = server.post(PATH, &[("access_token", &token)]).header("authorization", &web);
    good(&form.send().await, "Basic beside it");

    let both = "Bearer error=\"invalid_request\"";
    let path = format!("{PATH}?access_token={token}");
    for request in [
        server.post(PATH, &[("access_token", &token)]).bearer(&token),
        server.post(PATH, &[("access_token", &token)]).bearer("x"),
        server.post(PATH, &[("access_token", "x")]).bearer(&token),
        server.post(PATH, &[("access_token", &token)]).header("authorization", "Bearer"),
        server.post(PATH, &[("access_token", &token), ("access_token", &token)]),
        server.get(&path).bearer(&token),
        server.post(&path, &[]).bearer(&token),
        server.request("POST", PATH).body(FORM, b"access_token=%zz".to_vec()),
    ] {
        let answer = request.send().await;
        assert_eq!(refusal(&answer), is(400, "invalid_request"), "{answer:?}");
        assert_eq!(answer.header("www-authenticate"), both);
    }
    // Neither is a place of a token.
    let json = format!("{{\"access_token\":\"{token}\"}}");
    for request in [
        server.get(&path),
        server.post(&path, &[]),
        server.request("POST", PATH).body("application/json", json.into()),
        server.request("GET", PATH).body(FORM, format!("access_token={token}").into_bytes()),
        server.post(PATH, &[("access_token", "")]),
        server.post(PATH, &[("token", &token)]),
    ] {
        let answer = request.send().await;
        assert_eq!(refusal(&answer), is(401, "invalid_token"), "{answer:?}");
        assert_eq!(answer.header("www-authenticate"), challenge(PATH, None), "no error code without a token");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_objects_of_oauth_with_the_challenge_of_bearer_tokens() {
    let server = TestServer::start().await;
    let no_openid = tokens(&server, "ada@acme.test", "email").await.text("access_token");
    let machine = basic(server.client("machine"), server.secret("machine"));
    let machine =
        server.post("/auth/token", &[("grant_type", "client_credentials")]).header("authorization", &machine);
    let machine = machine.send().await.text("access_token");
    let invalid = "Bearer error=\"invalid_token\"";
    let scope = "Bearer error=\"insufficient_scope\", scope=\"openid\"";
    for (token, expected, challenge) in [
        ("x", is(401, "invalid_token"), invalid),
        (&*server.demo.api_key, is(401, "invalid_token"), invalid),
        (&*no_openid, is(403, "insufficient_scope"), scope),
        (&*machine, is(403, "insufficient_scope"), scope),
    ] {
        for request in [server.get(PATH).bearer(token), server.post(PATH, &[("access_token", token)])] {
            let answer = request.header("origin", "https://app.example").send().await;
            assert_eq!(refusal(&answer), expected, "{answer:?}");
            assert_eq!(answer.header("www-authenticate"), challenge);
            assert_eq!(answer.header("access-control-allow-origin"), "*");
        }
    }
    let large = server.request("POST", PATH).body(FORM, vec![b'a'; 1 << 20]).send().await;
    assert_eq!((large.status, &*large.text("error")), (413, "invalid_request"), "{large:?}");
    server.stop().await;
}
