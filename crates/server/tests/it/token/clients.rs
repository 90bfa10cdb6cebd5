//! Who asks: how a client sends its request, proves itself, and gets the grants that it has.

use super::{basic, reads, token};
use crate::device::{error, refusal, suspend_acme};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use identity::clients;
use serde_json::json;
use server::testing::{Rows, TestServer};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn only_the_body_of_a_post_is_read() {
    let server = TestServer::start().await;
    let get = server.get("/auth/token?grant_type=client_credentials").send().await;
    assert_eq!((refusal(&get), get.header("allow")), (error(405, "invalid_request"), "POST"));
    let machine = [("client_id", server.client("machine")), ("client_secret", server.secret("machine"))];
    let whole = [machine[0], machine[1], ("grant_type", "client_credentials")];
    assert_eq!(token(&server, &whole).send().await.status, 200);
    for (query, fields) in [("grant_type=client_credentials", &machine[..]), ("scope=email", &whole)] {
        let in_query = server.post(&format!("/auth/token?{query}"), fields).send().await;
        assert_eq!(refusal(&in_query), error(400, "invalid_request"), "{query}");
    }

    let bodies: [(&str, &[u8]); 19] = [
        ("application/x-www-form-urlencoded", b""),
        ("application/x-www-form-urlencoded", b"grant_type=%"),
        ("application/x-www-form-urlencoded", b"grant_type=%f"),
        ("application/x-www-form-urlencoded", b"grant_type=%zz"),
        ("application/x-www-form-urlencoded", b"grant_type=%ff"),
        ("application/x-www-form-urlencoded", b"grant_type=\xff"),
        ("application/x-www-form-urlencoded", b"grant_type=refresh_token&grant_type=refresh_token"),
        ("application/x-www-form-urlencoded", b"grant_type=&grant_type="),
        ("application/x-www-form-urlencoded", b"a\"\\\xc3\xa4=1&a\"\\\xc3\xa4=2"),
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", b"[]"),
        ("application/json", b"\"\xc3\xa4 \\\" \\\\\""),
        ("application/json", b"{\"grant_type\":1}"),
        ("application/json", b"{\"grant_type\":[\"refresh_token\"]}"),
        ("application/json", b"{\"grant_type\":\"\xff\"}"),
        ("application/json", b"{\"grant_type\":\"a\",\"grant_type\":\"a\"}"),
        ("multipart/form-data; boundary=x", b"--x--"),
        ("text/plain", b"grant_type=client_credentials"),
    ];
    let mut rows = Rows::new();
    for (media_type, body) in bodies {
        let row = async {
            let answer = server.request("POST", "/auth/token").body(media_type, body.to_vec()).send().await;
            assert_eq!(
                refusal(&answer),
                error(400, "invalid_request"),
                "{media_type} {}",
                body.escape_ascii()
            );
        };
        rows.row(format!("{media_type} {}", body.escape_ascii()), row).await;
    }
    let long = "x".repeat(8193);
    let answer = token(&server, &[("grant_type", "refresh_token"), ("refresh_token", &long)]).send().await;
    assert_eq!(refusal(&answer), error(400, "invalid_request"));
    let json = json!({
        "grant_type": "client_credentials", "client_id": machine[0].1, "client_secret": machine[1].1,
    });
    assert_eq!(server.request("POST", "/auth/token").json(&json).send().await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_grants_that_exist_and_that_a_client_has_are_given() {
    let server = TestServer::start().await;
    let (cli, spa) = (server.client("cli"), server.client("spa"));
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("client_id", cli)], "invalid_request"),
        (&[("grant_type", ""), ("client_id", cli)], "invalid_request"),
        (&[("grant_type", "implicit"), ("client_id", cli)], "unsupported_grant_type"),
        (
            &[
                ("grant_type", "password"),
                ("username", "ada@acme.test"),
                ("password", "x"),
                ("client_id", cli),
            ],
            "unsupported_grant_type",
        ),
        (&[("grant_type", "Refresh_Token"), ("client_id", cli)], "unsupported_grant_type"),
        (&[("grant_type", "client_credentials"), ("client_id", cli)], "unauthorized_client"),
        (&[("grant_type", "authorization_code"), ("code", "x"), ("client_id", cli)], "unauthorized_client"),
        (
            &[("grant_type", clients::DEVICE_GRANT), ("device_code", "x"), ("client_id", spa)],
            "unauthorized_client",
        ),
        (&[("grant_type", "refresh_token"), ("client_id", cli)], "invalid_request"),
    ];
    let mut rows = Rows::new();
    for (fields, name) in cases {
        let row = async {
            assert_eq!(refusal(&token(&server, fields).send().await), error(400, name), "{fields:?}");
        };
        rows.row(format!("{fields:?}"), row).await;
    }
    let unknown = token(&server, &[("grant_type", "password")]).send().await;
    insta::assert_snapshot!(unknown.body, @r#"{"error":"unsupported_grant_type","error_description":"Known grant types are authorization_code, refresh_token, client_credentials, urn:ietf:params:oauth:grant-type:device_code."}"#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_proves_who_it_is_by_one_method() {
    let server = TestServer::start().await;
    let (id, secret) = (server.client("machine"), server.secret("machine"));
    let grant = ("grant_type", "client_credentials");
    let by_basic = |credentials: &str| token(&server, &[grant]).header("authorization", credentials);
    assert_eq!(by_basic(&basic(id, secret)).send().await.status, 200);
    assert_eq!(by_basic(&basic(&id.replace('_', "%5F"), secret)).send().await.status, 200, "form-decoded");
    assert_eq!(by_basic(&basic(id, secret).replace("Basic", "bASIC")).send().await.status, 200);

    let other = server.secret("web");
    let wrong = [
        basic(id, "wrong"),
        basic(id, ""),
        basic(id, other),
        basic("nobody", secret),
        basic("", ""),
        basic(server.client("cli"), secret),
        format!("Basic {}", STANDARD.encode("no colon")),
        "Basic !!!".to_owned(),
        "Basic".to_owned(),
        format!("Bearer {secret}"),
    ];
    let mut bodies = BTreeSet::new();
    let mut rows = Rows::new();
    for credentials in wrong {
        let row = async {
            let answer = by_basic(&credentials).send().await;
            assert_eq!(refusal(&answer), error(401, "invalid_client"), "{credentials}");
            assert!(answer.header("www-authenticate").starts_with("Basic "), "{answer:?}");
            bodies.insert(answer.body);
        };
        rows.row(&credentials, row).await;
    }
    for (id, secret) in
        [(id, "wrong"), (id, ""), (id, other), ("nobody", secret), (server.client("cli"), "x")]
    {
        let answer = token(&server, &[grant, ("client_id", id), ("client_secret", secret)]).send().await;
        assert_eq!(refusal(&answer), error(401, "invalid_client"), "{id} {secret}");
        bodies.insert(answer.body);
    }
    assert_eq!(bodies.len(), 1, "nobody learns which half was wrong: {bodies:?}");
    assert_eq!(refusal(&token(&server, &[grant]).send().await), error(401, "invalid_client"));

    let twice = by_basic(&basic(id, secret));
    let both = token(&server, &[grant, ("client_id", id), ("client_secret", secret)]);
    let both = both.header("authorization", &basic(id, secret)).send().await;
    assert_eq!(refusal(&both), error(400, "invalid_request"), "two methods at once");
    let other = token(&server, &[grant, ("client_id", server.client("web"))]);
    let other = other.header("authorization", &basic(id, secret)).send().await;
    assert_eq!(refusal(&other), error(400, "invalid_request"), "two clients at once");
    let twice = twice.header("authorization", &basic("nobody", "x")).send().await;
    assert_eq!(refusal(&twice), error(400, "invalid_request"), "two headers at once");
    let same = token(&server, &[grant, ("client_id", id)]).header("authorization", &basic(id, secret));
    assert_eq!(same.send().await.status, 200, "the same client, named twice");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_acts_for_itself_and_for_nobody_else() {
    let server = TestServer::start().await;
    let credentials = basic(server.client("machine"), server.secret("machine"));
    let ask = |fields: &[(&str, &str)]| {
        let all: Vec<_> = [("grant_type", "client_credentials")].iter().chain(fields).copied().collect();
        token(&server, &all).header("authorization", &credentials)
    };
    let tokens = ask(&[]).send().await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let fields: Vec<String> = tokens.json().as_object().expect("an object").keys().cloned().collect();
    assert_eq!(
        fields,
        ["access_token", "expires_in", "token_type"],
        "no refresh token, no ID token, no scope"
    );
    assert_eq!(refusal(&ask(&[("scope", "openid")]).send().await), error(400, "invalid_scope"));
    assert_eq!(reads(&server, &tokens).await, 403, "it is no user");
    suspend_acme(&server).await;
    assert_eq!(refusal(&ask(&[]).send().await).1, "invalid_client");
    assert_eq!(reads(&server, &tokens).await, 401);
    server.stop().await;
}
