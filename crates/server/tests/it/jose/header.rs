//! The header of a token decides nothing: neither how it is checked nor with which key.

use super::{Forge, ada, assert_good, assert_refused, with};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::keys::Algorithm;
use serde_json::{Value, json};
use server::testing::{Rows, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn a_header_decides_nothing() {
    let server = TestServer::start().await;
    let (token, claims, key) = ada(&server).await;
    let claims = claims.to_string();
    let header = key.header();
    assert_good(&server, &token, "the server's").await;
    assert_good(&server, &key.jws(&header.to_string(), &claims), "one with the server's key").await;
    let rsa = Forge::of_server(&server, Algorithm::Rs256).await;

    let mut rows = Rows::new();
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let header = with(&header, json!({ "alg": none }));
        let unsigned = format!("{}.{}.", URL_SAFE_NO_PAD.encode(&header), URL_SAFE_NO_PAD.encode(&claims));
        rows.row(format!("{none:?}, unsigned"), assert_refused(&server, &unsigned, none)).await;
        rows.row(format!("{none:?}, signed"), assert_refused(&server, &key.jws(&header, &claims), none))
            .await;
    }
    let point = key.point();
    let spki = [
        &[
            0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce,
            0x3d, 3, 1, 7, 3, 0x42, 0,
        ][..],
        &point,
    ]
    .concat();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&spki));
    let jwks = server.get("/.well-known/jwks.json").send().await;
    let published = jwks.json()["keys"].as_array().cloned().unwrap_or_default();
    let own = published.iter().find(|jwk| jwk["kid"] == *key.kid).expect("published").to_string();
    for (what, secret) in [
        ("the point", &point[..]),
        ("its coordinates", &point[1..]),
        ("SPKI", &spki),
        ("PEM", pem.as_bytes()),
        ("PEM without its last line end", pem.trim().as_bytes()),
        ("the JWK", own.as_bytes()),
        ("the key set", jwks.body.as_bytes()),
        ("nothing", b""),
    ] {
        for (algorithm, name) in [(hmac::HMAC_SHA256, "HS256"), (hmac::HMAC_SHA512, "HS512")] {
            let header = with(&header, json!({ "alg": name }));
            let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(&claims));
            let tag = hmac::sign(&hmac::Key::new(algorithm, secret), message.as_bytes());
            let signed = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
            let row = assert_refused(&server, &signed, "the public key as a secret");
            rows.row(format!("{name} with {what}"), row).await;
        }
    }
    for algorithm in ["RS256", "PS256", "ES384", "EdDSA", "HS256", "es256", "ES256K", "RSA-OAEP"] {
        let token = key.jws(&with(&header, json!({ "alg": algorithm })), &claims);
        rows.row(algorithm, assert_refused(&server, &token, algorithm)).await;
    }
    for (what, wrong) in [
        ("RSA under the name of EC", rsa.jws(&with(&header, json!({ "alg": "RS256" })), &claims)),
        ("RSA that says ES256", rsa.jws(&with(&rsa.header(), json!({ "alg": "ES256" })), &claims)),
        ("RSA that says PS256", rsa.jws(&with(&rsa.header(), json!({ "alg": "PS256" })), &claims)),
        ("EC under the name of RSA", key.jws(&with(&header, json!({ "kid": rsa.kid })), &claims)),
        ("EC that says RS256", key.jws(&with(&header, json!({ "kid": rsa.kid, "alg": "RS256" })), &claims)),
    ] {
        rows.row(what, assert_refused(&server, &wrong, "a key for another algorithm")).await;
    }
    assert_good(&server, &token, "still").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_a_key_is_looked_up_and_nothing_else() {
    let server = TestServer::start().await;
    let (token, claims, key) = ada(&server).await;
    let (header, claims) = (key.header(), claims.to_string());
    let mut rows = Rows::new();
    let long = "x".repeat(4_000);
    for kid in [
        json!(null),
        json!(""),
        json!(1),
        json!([key.kid]),
        json!("key_01h00000000000000000000000"),
        json!("../../../../../../dev/null"),
        json!("/etc/passwd"),
        json!("' OR '1'='1"),
        json!("x' UNION SELECT 'AAAA'; --"),
        json!(format!("{}\0", key.kid)),
        json!(key.kid.to_uppercase()),
        json!(format!(" {}", key.kid)),
        json!("http://127.0.0.1:7070/.well-known/jwks.json"),
        json!(long),
    ] {
        let token = key.jws(&with(&header, json!({ "kid": kid })), &claims);
        let what = kid.to_string().chars().take(60).collect::<String>();
        rows.row(&what, assert_refused(&server, &token, &what)).await;
    }
    let huge = key.jws(&with(&header, json!({ "kid": "x".repeat(1 << 20) })), &claims);
    let answer = server.get("/api/subscription").bearer(&huge).send().await;
    assert!(matches!(answer.status, 0 | 431), "a head of a megabyte is not even read: {}", answer.status);
    let posted =
        [("client_id", server.client("web")), ("client_secret", server.secret("web")), ("token", &huge)];
    assert_eq!(server.post("/auth/introspect", &posted).send().await.status, 413);
    assert_good(&server, &token, "still").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_brings_no_key_of_its_own() {
    let server = TestServer::start().await;
    let (_, claims, key) = ada(&server).await;
    let claims = claims.to_string();
    let mallory = Forge::of_mallory();
    let point = mallory.point();
    let (x, y) = point[1..].split_at(32);
    let jwk = json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig",
        "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y) });
    // Who asks there is heard.
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
    elsewhere.set_nonblocking(true).expect("does not wait");
    let url = format!("http://{}/keys.json", elsewhere.local_addr().expect("an address"));
    let mut rows = Rows::new();
    for extra in [
        json!({ "jwk": jwk }),
        json!({ "jku": url }),
        json!({ "x5u": url }),
        json!({ "x5c": [STANDARD.encode(&point)] }),
        json!({ "jwk": jwk, "jku": url, "x5u": url }),
    ] {
        for kid in [json!(key.kid), json!(mallory.kid), json!(url), Value::Null] {
            let mut changed = extra.clone();
            changed["kid"] = kid;
            let header = with(&key.header(), changed);
            rows.row(&header, assert_refused(&server, &mallory.jws(&header, &claims), &header)).await;
        }
    }
    assert_refused(&server, &mallory.jws(&key.header().to_string(), &claims), "another's signature").await;
    let accepted = elsewhere.accept().map_err(|error| error.kind());
    assert_eq!(accepted.err(), Some(std::io::ErrorKind::WouldBlock), "nobody was asked for keys");
    server.stop().await;
}
