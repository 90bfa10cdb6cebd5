//! Tokens (RFC 7515, 7519, 8725, 9068, 6750): what is no token of ours, or is one for something else, opens nothing.

use crate::support::*;
use aws_lc_rs::encoding::{AsBigEndian as _, EcPublicKeyUncompressedBin};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::ids::KeyId;
use identity::keys::{self, Algorithm};
use serde_json::{Value, json};
use server::testing::TestServer;
use std::time::Duration;
use store::{Sql, args, sql};

static KEYS: Sql = sql("SELECT id, sealed FROM signing_keys WHERE algorithm = ?1 ORDER BY id");

/// A key that signs what the test wants: the server's own, taken out of its database, or somebody's.
struct Forge {
    kid: String,
    private: Vec<u8>,
    rsa: bool,
}

impl Forge {
    /// The server's first key of an algorithm.
    async fn of_server(server: &TestServer, algorithm: Algorithm) -> Forge {
        let found: Vec<(KeyId, Vec<u8>)> = server
            .app
            .store
            .read(move |snapshot| {
                snapshot.all(&KEYS, args![algorithm.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .await
            .map_err(|error: store::Error| error)
            .expect("reads");
        let (id, sealed) = &found[0];
        let private =
            server.app.secret_key.open(&format!("signing_keys/{id}/sealed"), sealed).expect("opens");
        Forge { kid: id.to_string(), private, rsa: algorithm == Algorithm::Rs256 }
    }

    /// Somebody else's ES256 key.
    fn of_mallory() -> Forge {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let private = pair.to_pkcs8v1().expect("a document").as_ref().to_vec();
        Forge { kid: "key_01h00000000000000000000000".to_owned(), private, rsa: false }
    }

    fn pair(&self, form: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(form, &self.private).expect("a key pair")
    }

    /// The public point, uncompressed.
    fn point(&self) -> Vec<u8> {
        let pair = self.pair(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let point: EcPublicKeyUncompressedBin<'_> = pair.public_key().as_be_bytes().expect("a point");
        point.as_ref().to_vec()
    }

    fn sign(&self, message: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        if self.rsa {
            let pair = RsaKeyPair::from_pkcs8(&self.private).expect("a key pair");
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).expect("signs");
            return signature;
        }
        let pair = self.pair(&ECDSA_P256_SHA256_FIXED_SIGNING);
        pair.sign(&random, message.as_bytes()).expect("signs").as_ref().to_vec()
    }

    /// A compact JWS over exactly these texts.
    fn jws(&self, header: &str, payload: &str) -> String {
        self.over(&format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload)))
    }

    /// The same over two parts that are encoded already.
    fn over(&self, message: &str) -> String {
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(self.sign(message)))
    }

    /// The header that our access tokens have.
    fn header(&self) -> Value {
        let algorithm = if self.rsa { "RS256" } else { "ES256" };
        json!({ "typ": "at+jwt", "alg": algorithm, "kid": self.kid })
    }
}

/// `object` with other values for some of its members; null takes one out.
fn with(object: &Value, changed: Value) -> String {
    let mut object = object.clone();
    for (name, value) in changed.as_object().expect("an object") {
        object[name] = value.clone();
        if value.is_null() {
            object.as_object_mut().expect("an object").remove(name);
        }
    }
    object.to_string()
}

async fn introspect(server: &TestServer, token: &str) -> Value {
    let fields =
        [("client_id", server.client("web")), ("client_secret", server.secret("web")), ("token", token)];
    server.post("/auth/introspect", &fields).send().await.json()
}

/// The token is good everywhere.
async fn assert_good(server: &TestServer, token: &str, what: &str) {
    for path in ["/api/subscription", "/api/user", "/auth/userinfo"] {
        let answer = server.get(path).bearer(token).send().await;
        assert_eq!(answer.status, 200, "{what}, {path}: {answer:?}");
    }
    assert_eq!(introspect(server, token).await["active"], true, "{what}");
}

/// The token is good nowhere.
async fn assert_refused(server: &TestServer, token: &str, what: &str) {
    for path in ["/api/subscription", "/api/user", "/auth/userinfo", "/api/organizations/acme"] {
        let answer = server.get(path).bearer(token).send().await;
        assert_eq!(answer.status, 401, "{what}, {path}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), r#"Bearer error="invalid_token""#, "{what}, {path}");
        assert_eq!(
            (answer.text("code").as_str(), answer.header("cache-control")),
            ("invalid_token", "no-store")
        );
    }
    assert_eq!(introspect(server, token).await, json!({ "active": false }), "{what}");
}

/// Ada's access token, and the server's own key for tokens like it.
async fn ada(server: &TestServer) -> (String, Value, Forge) {
    let token = tokens(server, "ada@acme.test", "openid profile email").await.text("access_token");
    let claims = claims(&token);
    (token, claims, Forge::of_server(server, Algorithm::Es256).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_decides_nothing() {
    let server = TestServer::start().await;
    let (token, claims, key) = ada(&server).await;
    let claims = claims.to_string();
    let header = key.header();
    assert_good(&server, &token, "the server's").await;
    assert_good(&server, &key.jws(&header.to_string(), &claims), "one with the server's key").await;
    let rsa = Forge::of_server(&server, Algorithm::Rs256).await;

    // Algorithms.
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let header = with(&header, json!({ "alg": none }));
        let unsigned = format!("{}.{}.", URL_SAFE_NO_PAD.encode(&header), URL_SAFE_NO_PAD.encode(&claims));
        assert_refused(&server, &unsigned, none).await;
        assert_refused(&server, &key.jws(&header, &claims), none).await;
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
    for secret in [
        &point[..],
        &point[1..],
        &spki,
        pem.as_bytes(),
        pem.trim().as_bytes(),
        own.as_bytes(),
        jwks.body.as_bytes(),
        b"",
    ] {
        for (algorithm, name) in [(hmac::HMAC_SHA256, "HS256"), (hmac::HMAC_SHA512, "HS512")] {
            let header = with(&header, json!({ "alg": name }));
            let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(&claims));
            let tag = hmac::sign(&hmac::Key::new(algorithm, secret), message.as_bytes());
            let signed = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
            assert_refused(&server, &signed, "the public key as a secret").await;
        }
    }
    for algorithm in ["RS256", "PS256", "ES384", "EdDSA", "HS256", "es256", "ES256K", "RSA-OAEP"] {
        let token = key.jws(&with(&header, json!({ "alg": algorithm })), &claims);
        assert_refused(&server, &token, algorithm).await;
    }
    for wrong in [
        rsa.jws(&with(&header, json!({ "alg": "RS256" })), &claims),
        rsa.jws(&with(&rsa.header(), json!({ "alg": "ES256" })), &claims),
        rsa.jws(&with(&rsa.header(), json!({ "alg": "PS256" })), &claims),
        key.jws(&with(&header, json!({ "kid": rsa.kid })), &claims),
        key.jws(&with(&header, json!({ "kid": rsa.kid, "alg": "RS256" })), &claims),
    ] {
        assert_refused(&server, &wrong, "a key for another algorithm").await;
    }

    // Names of keys.
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
        assert_refused(&server, &token, &what).await;
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
            assert_refused(&server, &mallory.jws(&header, &claims), &header).await;
        }
    }
    assert_refused(&server, &mallory.jws(&key.header().to_string(), &claims), "another's signature").await;
    let accepted = elsewhere.accept().map_err(|error| error.kind());
    assert_eq!(accepted.err(), Some(std::io::ErrorKind::WouldBlock), "nobody was asked for keys");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_another_kind_is_none() {
    let server = TestServer::start().await;
    let (_, access, key) = ada(&server).await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let ask = Ask::of(&server, "spa").with("scope", "openid profile email offline_access");
    let all = tokens_of(&server, &mut ada, &ask).await;
    assert_refused(&server, &all.text("id_token"), "an ID token").await;
    for path in ["/api/subscription", "/auth/userinfo"] {
        let refresh = server.get(path).bearer(&all.text("refresh_token")).send().await;
        assert_eq!(refresh.status, 401, "a refresh token");
    }
    for typ in [
        json!(null),
        json!("JWT"),
        json!("jwt"),
        json!("AT+JWT"),
        json!("at+jwt "),
        json!("logout+jwt"),
        json!("dpop+jwt"),
        json!("secevent+jwt"),
        json!("oauth-authz-req+jwt"),
        json!("mfa+jwt"),
        json!(["at+jwt"]),
        json!(""),
    ] {
        let token = key.jws(&with(&key.header(), json!({ "typ": typ })), &access.to_string());
        assert_refused(&server, &token, &typ.to_string()).await;
    }
    // The other way: an access token says nothing about who is signed in.
    let rsa = Forge::of_server(&server, Algorithm::Rs256).await;
    let id = claims(&all.text("id_token"));
    let good = rsa.jws(&with(&rsa.header(), json!({ "typ": "JWT" })), &id.to_string());
    let silent = |hint: &str| ask.clone().with("prompt", "none").with("id_token_hint", hint).path();
    assert!(ada.get(&silent(&good)).await.redirect_param("code").is_some());
    let claims_of_id =
        |changed: Value| rsa.jws(&with(&rsa.header(), json!({ "typ": "JWT" })), &with(&id, changed));
    for (what, hint) in [
        ("an access token", all.text("access_token")),
        ("an ID token that calls itself one", rsa.jws(&rsa.header().to_string(), &id.to_string())),
        ("a logout token", rsa.jws(&with(&rsa.header(), json!({ "typ": "logout+jwt" })), &id.to_string())),
        ("no type", rsa.jws(&with(&rsa.header(), json!({ "typ": null })), &id.to_string())),
        ("another issuer's", claims_of_id(json!({ "iss": "https://evil.example" }))),
        ("a trailing slash", claims_of_id(json!({ "iss": format!("{ISSUER}/") }))),
        ("another user's", claims_of_id(json!({ "sub": "user_01h00000000000000000000000" }))),
        (
            "another's signature",
            Forge { kid: rsa.kid.clone(), ..Forge::of_mallory() }
                .jws(&with(&rsa.header(), json!({ "typ": "JWT" })), &id.to_string()),
        ),
    ] {
        let answer = ada.get(&silent(&hint)).await;
        assert_eq!(answer.redirect_param("error").as_deref(), Some("login_required"), "{what}: {answer:?}");
        let logout = ada.get(&format!("/auth/logout?id_token_hint={hint}")).await;
        assert!(logout.status != 303 || what == "another user's", "{what}: {logout:?}");
    }
    assert_eq!(ada.get("/o/acme/account").await.status, 200, "still signed in");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_counts() {
    let server = TestServer::start().await;
    let (_, claims, key) = ada(&server).await;
    let header = key.header().to_string();
    let signed = |changed: Value| key.jws(&header, &with(&claims, changed));
    let now = server.app.now().seconds();
    assert_good(&server, &signed(json!({})), "as it is").await;
    assert_good(&server, &signed(json!({ "exp": now + 1 })), "the last second").await;
    assert_good(
        &server,
        &signed(json!({ "iat": now + 60, "exp": now + 600 })),
        "a clock that is a minute ahead",
    )
    .await;
    assert_good(&server, &signed(json!({ "aud": ["service:acme/sketch"] })), "an audience in a list").await;

    for changed in [
        json!({ "iss": format!("{ISSUER}/") }),
        json!({ "iss": "http://127.0.0.1:7071" }),
        json!({ "iss": "https://127.0.0.1:7070" }),
        json!({ "iss": "HTTP://127.0.0.1:7070" }),
        json!({ "iss": "" }),
        json!({ "iss": [ISSUER] }),
        json!({ "iss": null }),
        json!({ "exp": null }),
        json!({ "exp": now }),
        json!({ "exp": now - 1 }),
        json!({ "exp": 0 }),
        json!({ "exp": -1 }),
        json!({ "exp": i64::MIN }),
        json!({ "exp": (now + 300) as f64 + 0.5 }),
        json!({ "exp": (now + 300) as f64 }),
        json!({ "exp": (now + 300).to_string() }),
        json!({ "exp": [now + 300] }),
        json!({ "exp": true }),
        json!({ "exp": now + 601 }),
        json!({ "exp": now + 86_400 }),
        json!({ "exp": 99_999_999_999_999_i64 }),
        json!({ "exp": i64::MAX }),
        json!({ "exp": u64::MAX }),
        json!({ "exp": i64::MAX, "iat": i64::MIN }),
        json!({ "exp": now + 300, "iat": i64::MIN }),
        json!({ "iat": null }),
        json!({ "iat": now + 61, "exp": now + 300 }),
        json!({ "iat": now + 86_400, "exp": now + 86_700 }),
        json!({ "jti": null }),
        json!({ "jti": "grant_01h00000000000000000000000.x" }),
        json!({ "jti": "x", "client_id": "client_01h00000000000000000000000" }),
        json!({ "aud": null }),
        json!({ "aud": 1 }),
        json!({ "client_id": null }),
        json!({ "scope": null }),
        json!({ "scope": ["openid"] }),
        json!({ "sub": null }),
    ] {
        assert_refused(&server, &signed(changed.clone()), &changed.to_string()).await;
    }

    // Somebody else's audience: the signature is ours, the token is for another.
    for audience in [
        json!("service:acme/notes"),
        json!("service:globex/sketch"),
        json!("account"),
        json!("org:acme"),
        json!([]),
        json!(["service:acme/sketch/x", "sketch"]),
        json!("https://api.acme.test"),
    ] {
        for path in ["/api/subscription", "/api/user"] {
            let answer = server.get(path).bearer(&signed(json!({ "aud": audience }))).send().await;
            assert_eq!(
                (answer.status, answer.text("code").as_str()),
                (403, "insufficient_scope"),
                "{audience}: {answer:?}"
            );
        }
    }

    // Twice the same claim, whichever comes first.
    let plain = claims.to_string();
    for (name, value) in [
        ("exp", json!(now + 300)),
        ("iss", json!(ISSUER)),
        ("sub", json!("user_x")),
        ("aud", json!("platform")),
        ("scope", json!("platform")),
    ] {
        let (first, last) = (
            plain.replacen('{', &format!("{{\"{name}\":{value},"), 1),
            format!("{},\"{name}\":{value}}}", &plain[..plain.len() - 1]),
        );
        for payload in [first, last] {
            assert_refused(&server, &key.jws(&header, &payload), &payload).await;
        }
    }
    for payload in [
        "",
        "null",
        "[]",
        "\"x\"",
        "{}",
        "{",
        "{\"iss\":",
        &format!("[{plain}]"),
        &format!("{plain}{plain}"),
        &format!("{plain}x"),
    ] {
        assert_refused(&server, &key.jws(&header, payload), payload).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_one_spelling() {
    let server = TestServer::start().await;
    let (token, claims, key) = ada(&server).await;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("three parts") };
    // The last letter of 64 bytes has four bits that no byte needs.
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let last = signature.bytes().last().expect("a letter");
    let position = LETTERS.iter().position(|letter| *letter == last).expect("known");
    assert_eq!(position % 16, 0, "the server's own spelling");
    for spare in 1..16 {
        let twin =
            format!("{header}.{payload}.{}{}", &signature[..85], char::from(LETTERS[position + spare]));
        assert_refused(&server, &twin, "bits that no byte needs").await;
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
        assert_refused(&server, &token, what).await;
    }
    let standard = (0..200)
        .map(|_| key.over(&format!("{header}.{payload}")))
        .find(|token| token.rsplit('.').next().is_some_and(|signature| signature.contains(['-', '_'])));
    let standard = standard.expect("one of many");
    let (message, signature) = standard.rsplit_once('.').expect("parts");
    assert_good(&server, &standard, "signed again").await;
    let other = signature.replace('-', "+").replace('_', "/");
    assert_refused(&server, &format!("{message}.{other}"), "the other alphabet").await;

    // Headers that must be understood, and a payload that is not encoded (RFC 7797).
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
        assert_refused(&server, &key.jws(&header, &claims.to_string()), &extra.to_string()).await;
        let unencoded = key.over(&format!("{}.{claims}", URL_SAFE_NO_PAD.encode(&header)));
        assert_refused(&server, &unencoded, &extra.to_string()).await;
    }
    let unencoded = with(&key.header(), json!({ "b64": false }));
    assert_refused(&server, &key.over(&format!("{}.{claims}", URL_SAFE_NO_PAD.encode(&unencoded))), "b64")
        .await;
    let plain = key.header().to_string();
    for (name, value) in [("alg", "\"none\""), ("alg", "\"ES256\""), ("kid", "\"x\""), ("typ", "\"at+jwt\"")]
    {
        let first = plain.replacen('{', &format!("{{\"{name}\":{value},"), 1);
        let last = format!("{},\"{name}\":{value}}}", &plain[..plain.len() - 1]);
        for header in [first, last] {
            assert_refused(&server, &key.jws(&header, &claims.to_string()), &header).await;
        }
    }
    for header in ["", "null", "[]", "{}", "{\"alg\":\"ES256\"}", &format!("{plain}x")] {
        assert_refused(&server, &key.jws(header, &claims.to_string()), header).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_in_its_header_only() {
    let server = TestServer::start().await;
    let (token, ..) = ada(&server).await;
    let missing = |answer: &server::testing::Answer, what: &str| {
        assert_eq!(
            (answer.status, answer.text("code").as_str()),
            (401, "unauthenticated"),
            "{what}: {answer:?}"
        );
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{what}: no error code without a token");
    };
    for path in [
        "/api/subscription",
        "/api/user",
        "/auth/userinfo",
        "/api/organizations/acme",
        "/api/platform/organizations",
    ] {
        missing(&server.get(path).send().await, path);
        for query in ["access_token", "token", "bearer", "authorization"] {
            missing(&server.get(&format!("{path}?{query}={token}")).send().await, query);
        }
        missing(
            &server.get(path).header("cookie", &format!("access_token={token}")).send().await,
            "a cookie",
        );
        for scheme in ["Basic", "DPoP", "Token", "JWT"] {
            missing(
                &server.get(path).header("authorization", &format!("{scheme} {token}")).send().await,
                scheme,
            );
        }
        missing(&server.get(path).header("authorization", &token).send().await, "no scheme");
        missing(&server.get(path).header("authorization", "Bearer").send().await, "no token");
    }
    let body = [("access_token", &*token)];
    missing(&server.post("/auth/userinfo", &body).send().await, "in the body");
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

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_renewed_with_an_overlap_and_then_retired() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    until_both_keys_sign(&server).await;
    let ask = Ask::of(&server, "spa");
    let old = Forge::of_server(&server, Algorithm::Es256).await;
    let kid = |token: &str| {
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next().expect("a header")).expect("base64url");
        let header: Value = serde_json::from_slice(&header).expect("JSON");
        text(&header, "kid").to_owned()
    };
    let published = async || {
        let jwks = server.get("/.well-known/jwks.json").send().await;
        let max_age =
            jwks.header("cache-control").split_once("max-age=").and_then(|(_, age)| age.parse::<u64>().ok());
        assert!(max_age.is_some_and(|age| (60..=keys::PUBLISH_AHEAD.as_secs()).contains(&age)), "{jwks:?}");
        let keys = jwks.json()["keys"].as_array().cloned().unwrap_or_default();
        for key in &keys {
            for private in ["d", "p", "q", "dp", "dq", "qi", "k", "oth"] {
                assert!(key.get(private).is_none(), "{private} of a key is published");
            }
            assert!(key["use"] == "sig" && (key["alg"] == "ES256" || key["alg"] == "RS256"), "{key}");
        }
        keys.iter().map(|key| text(key, "kid").to_owned()).collect::<Vec<_>>()
    };
    let fresh = async |browser: &mut server::testing::TestBrowser<'_>| {
        tokens_of(&server, browser, &ask).await.text("access_token")
    };

    server.clock.advance(Duration::from_secs(60));
    let now = server.app.now();
    let new =
        keys::generate(Algorithm::Es256, now, &server::SystemRandom, &server.app.secret_key).expect("a key");
    server.app.store.write("key.add", move |tx| keys::add(tx, &new, now)).await.expect("adds");
    let kids = published().await;
    assert_eq!(kids.len(), 3, "published before it signs");
    let before = fresh(&mut ada).await;
    assert_eq!(kid(&before), old.kid, "those who keep jwks.json do not know the new one yet");
    server.clock.advance(keys::PUBLISH_AHEAD - Duration::from_secs(1));
    let before = fresh(&mut ada).await;
    assert_eq!(kid(&before), old.kid);
    server.clock.advance(Duration::from_secs(1));
    let after = fresh(&mut ada).await;
    assert!(kid(&after) != old.kid && kids.contains(&kid(&after)));
    assert_good(&server, &after, "of the new key").await;
    assert_good(&server, &before, "of the old key").await;
    assert_eq!(published().await.len(), 3, "the old one is still published");

    // Longer than any token lives, then it is gone.
    server.clock.advance(Duration::from_secs(23 * 3600));
    let claims_now = |token: &str| {
        let now = server.app.now().seconds();
        with(&claims(token), json!({ "iat": now, "exp": now + 600 }))
    };
    assert_good(&server, &old.jws(&old.header().to_string(), &claims_now(&after)), "not retired yet").await;
    server.clock.advance(Duration::from_secs(3601));
    assert!(!published().await.contains(&old.kid));
    let forged = old.jws(&old.header().to_string(), &claims_now(&after));
    assert_refused(&server, &forged, "signed by a key that was retired").await;
    let fresh = fresh(&mut ada).await;
    assert_good(&server, &fresh, "of the new key").await;
    server.stop().await;
}
