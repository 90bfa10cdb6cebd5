//! How a token is written and where it is sent: in one way each.

use super::{ada, assert_good, assert_refused, with};
use crate::support::challenge;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::ECDSA_P256_SHA256_ASN1_SIGNING;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use server::testing::{Answer, Rows, TestServer};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_one_spelling() {
    let server = TestServer::start().await;
    let (token, _, key) = ada(&server).await;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("three parts") };
    // The last letter of 64 bytes has four bits that no byte needs.
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let last = signature.bytes().last().expect("a letter");
    let position = LETTERS.iter().position(|letter| *letter == last).expect("known");
    assert_eq!(position % 16, 0, "the server's own spelling");
    let mut rows = Rows::new();
    for spare in 1..16 {
        let twin =
            format!("{header}.{payload}.{}{}", &signature[..85], char::from(LETTERS[position + spare]));
        rows.row(&twin, assert_refused(&server, &twin, "bits that no byte needs")).await;
    }
    let raw = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    let der = {
        let pair = key.pair(&ECDSA_P256_SHA256_ASN1_SIGNING);
        pair.sign(&SystemRandom::new(), format!("{header}.{payload}").as_bytes())
            .expect("signs")
            .as_ref()
            .to_vec()
    };
    let zeros = URL_SAFE_NO_PAD.encode([0_u8; 64]);
    let half = URL_SAFE_NO_PAD.encode(&raw[..32]);
    for (what, token) in [
        ("without its signature", format!("{header}.{payload}.")),
        ("without the last dot", format!("{header}.{payload}")),
        ("the payload alone", payload.to_owned()),
        ("nothing", ".".to_owned()),
        ("three nothings", "..".to_owned()),
        ("four parts", format!("{token}.x")),
        ("five parts, like a JWE", format!("{token}.{payload}.{signature}")),
        ("a dot before", format!(".{token}")),
        ("padded", format!("{header}.{payload}.{signature}==")),
        ("a padded payload", format!("{header}.{payload}=.{signature}")),
        ("cut", format!("{header}.{payload}.{}", &signature[..80])),
        ("longer", format!("{header}.{payload}.{signature}AAAA")),
        ("half", format!("{header}.{payload}.{half}")),
        ("zeros (CVE-2022-21449)", format!("{header}.{payload}.{zeros}")),
        ("in DER", format!("{header}.{payload}.{}", URL_SAFE_NO_PAD.encode(der))),
        (
            "in hexadecimal",
            format!(
                "{header}.{payload}.{}",
                raw.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            ),
        ),
        ("a space inside", format!("{header}. {payload}.{signature}")),
        ("a tab inside", format!("{header}.\t{payload}.{signature}")),
        ("quoted", format!("\"{token}\"")),
        ("other letters", format!("{header}.{}.{signature}", payload.to_uppercase())),
        ("JSON", json!({ "protected": header, "payload": payload, "signature": signature }).to_string()),
    ] {
        rows.row(what, assert_refused(&server, &token, what)).await;
    }
    let not_text = b"GET /api/user HTTP/1.1\r\nhost: test\r\nconnection: close\r\nauthorization: Bearer \xff\xfe\r\n\r\n";
    let refused = Answer::parse(&server.raw(not_text).await);
    assert_eq!((refused.status, refused.text("code").as_str()), (401, "invalid_token"), "{refused:?}");
    let standard = (0..200)
        .map(|_| key.over(&format!("{header}.{payload}")))
        .find(|token| token.rsplit('.').next().is_some_and(|signature| signature.contains(['-', '_'])));
    let standard = standard.expect("one of many");
    let (message, signature) = standard.rsplit_once('.').expect("parts");
    assert_good(&server, &standard, "signed again").await;
    let other = signature.replace('-', "+").replace('_', "/");
    assert_refused(&server, &format!("{message}.{other}"), "the other alphabet").await;
    server.stop().await;
}

/// Headers that must be understood, and a payload that is not encoded (RFC 7797).
#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_must_be_understood_is_not() {
    let server = TestServer::start().await;
    let (_, claims, key) = ada(&server).await;
    let mut rows = Rows::new();
    for extra in [
        json!({ "crit": ["exp"], "exp": 1 }),
        json!({ "crit": ["b64"], "b64": true }),
        json!({ "crit": ["b64"], "b64": false }),
        json!({ "crit": [] }),
        json!({ "crit": ["kid"] }),
        json!({ "crit": ["x"] }),
        json!({ "crit": "b64" }),
        json!({ "crit": 1 }),
        json!({ "crit": [1] }),
    ] {
        let header = with(&key.header(), extra.clone());
        let row = async {
            assert_refused(&server, &key.jws(&header, &claims.to_string()), "encoded").await;
            let unencoded = key.over(&format!("{}.{claims}", URL_SAFE_NO_PAD.encode(&header)));
            assert_refused(&server, &unencoded, "not encoded").await;
        };
        rows.row(&extra, row).await;
    }
    let unencoded = with(&key.header(), json!({ "b64": false }));
    let unencoded = key.over(&format!("{}.{claims}", URL_SAFE_NO_PAD.encode(&unencoded)));
    rows.row("b64 alone", assert_refused(&server, &unencoded, "b64")).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_is_one_object_in_which_each_name_stands_once() {
    let server = TestServer::start().await;
    let (_, claims, key) = ada(&server).await;
    let plain = key.header().to_string();
    let mut rows = Rows::new();
    for (name, value) in [("alg", "\"none\""), ("alg", "\"ES256\""), ("kid", "\"x\""), ("typ", "\"at+jwt\"")]
    {
        let first = plain.replacen('{', &format!("{{\"{name}\":{value},"), 1);
        let last = format!("{},\"{name}\":{value}}}", &plain[..plain.len() - 1]);
        for header in [first, last] {
            let token = key.jws(&header, &claims.to_string());
            rows.row(&header, assert_refused(&server, &token, &header)).await;
        }
    }
    for header in ["", "null", "[]", "{}", "{\"alg\":\"ES256\"}", &format!("{plain}x")] {
        rows.row(header, assert_refused(&server, &key.jws(header, &claims.to_string()), header)).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_in_its_header_only() {
    let server = TestServer::start().await;
    let (token, ..) = ada(&server).await;
    let missing = |answer: &server::testing::Answer, path: &str, what: &str| {
        // Userinfo has the errors of OAuth.
        let code = match path {
            "/auth/userinfo" => ("invalid_token", answer.text("error")),
            _ => ("unauthenticated", answer.text("code")),
        };
        assert_eq!((answer.status, &*code.1), (401, code.0), "{what}: {answer:?}");
        let challenge = challenge(path, None);
        assert_eq!(answer.header("www-authenticate"), challenge, "{what}: no error code without a token");
    };
    for path in [
        "/api/subscription",
        "/api/user",
        "/auth/userinfo",
        "/api/organizations/acme",
        "/api/platform/organizations",
    ] {
        missing(&server.get(path).send().await, path, "nothing");
        for query in ["access_token", "token", "bearer", "authorization"] {
            missing(&server.get(&format!("{path}?{query}={token}")).send().await, path, query);
        }
        missing(
            &server.get(path).header("cookie", &format!("access_token={token}")).send().await,
            path,
            "a cookie",
        );
        for scheme in ["Basic", "DPoP", "Token", "JWT"] {
            missing(
                &server.get(path).header("authorization", &format!("{scheme} {token}")).send().await,
                path,
                scheme,
            );
        }
        missing(&server.get(path).header("authorization", &token).send().await, path, "no scheme");
        missing(&server.get(path).header("authorization", "Bearer").send().await, path, "no token");
    }
    for wrong in ["x", "", "Bearer", &format!("Bearer {token}"), &format!("{token},{token}")] {
        let answer = server.get("/api/subscription").bearer(wrong).send().await;
        assert_eq!(answer.status, 401, "{wrong:?}");
        assert_ne!(answer.header("www-authenticate"), "", "{wrong:?}");
    }
    for scheme in ["bearer", "BEARER"] {
        let answer = server
            .get("/api/subscription")
            .header("authorization", &format!("{scheme} {token}"))
            .send()
            .await;
        assert_eq!(answer.status, 200, "a scheme has no case (RFC 9110 section 11.1)");
    }
    // What ends by itself ends on the second, also in the caches.
    assert_good(&server, &token, "young").await;
    server.clock.advance(Duration::from_secs(599));
    assert_good(&server, &token, "old").await;
    server.clock.advance(Duration::from_secs(1));
    assert_refused(&server, &token, "ended").await;
    server.stop().await;
}
