//! One token: what is accepted, and every way in which a token may be wrong.

use super::{START, Signer, TestClock, TestIssuer, encode};
use crate::auth::{Accept, Issuer, TokenType};
use aws_lc_rs::hmac;
use serde_json::{Value, json};
use std::time::Duration;

/// An issuer with a key of each algorithm, and a back end that accepts its tokens.
struct World {
    ec: Signer,
    rsa: Signer,
    ed: Signer,
    issuer: TestIssuer,
    verifier: Issuer,
    clock: TestClock,
}

impl World {
    async fn start() -> World {
        World::accepting(|accept| accept).await
    }

    async fn accepting(change: impl FnOnce(Accept) -> Accept) -> World {
        let (ec, rsa, ed) = (Signer::ec("ec"), Signer::rsa("rsa"), Signer::ed("ed"));
        let issuer = TestIssuer::start(&[&ec, &rsa, &ed]).await;
        let clock = TestClock::new();
        let verifier = Issuer::discover(&issuer.url, change(clock.accept())).expect("an issuer");
        World { ec, rsa, ed, issuer, verifier, clock }
    }

    /// The reason for which a token is refused, if it is.
    async fn refusal(&self, token: &str) -> Option<String> {
        let problem = self.verifier.verify(token).await.err()?;
        assert_eq!((problem.status.as_u16(), &*problem.code), (401, "invalid_token"));
        Some(problem.detail)
    }

    async fn assert_refused(&self, token: &str, reason: &str) {
        let detail = self.refusal(token).await;
        assert!(
            detail.as_deref().is_some_and(|detail| detail.contains(reason)),
            "{detail:?}, not {reason:?}: {token:.300}"
        );
    }

    async fn assert_accepted(&self, token: &str) {
        assert_eq!(self.refusal(token).await, None, "{token:.300}");
    }

    /// The usual claims, with one changed; null removes it.
    fn claims_with(&self, name: &str, value: Value) -> String {
        let mut claims = self.issuer.claims();
        let members = claims.as_object_mut().expect("an object");
        match value {
            Value::Null => members.remove(name),
            value => members.insert(name.to_owned(), value),
        };
        self.ec.sign(&claims)
    }

    /// The usual token, with one member of the header changed.
    fn header_with(&self, signer: &Signer, name: &str, value: Value) -> String {
        let mut header = signer.header();
        header[name] = value;
        signer.sign_text(&header.to_string(), &self.issuer.claims().to_string())
    }
}

#[tokio::test]
async fn tokens_of_all_algorithms_name_their_user() {
    let world = World::start().await;
    for signer in [&world.ec, &world.rsa, &world.ed] {
        let mut claims = world.issuer.claims();
        claims["role"] = json!("teacher");
        let caller = world.verifier.verify(&signer.sign(&claims)).await.expect("valid");
        assert_eq!(caller.subject.as_deref(), Some("ada"));
        assert_eq!(caller.claims["role"], "teacher");
        assert_eq!(caller.expires.expect("expires").seconds(), START + 300);
    }
    assert_eq!(world.issuer.keys_read(), 1);
}

#[tokio::test]
async fn the_key_decides_the_algorithm() {
    let world = World::start().await;
    let invalid = "signature of the token is not valid";
    let claims = world.issuer.claims().to_string();
    for none in ["none", "None", "NONE", "nOnE"] {
        let header = encode(json!({ "typ": "at+jwt", "alg": none, "kid": "rsa" }).to_string());
        world.assert_refused(&format!("{header}.{}.", encode(&claims)), "not a signed JWT").await;
        world.assert_refused(&format!("{header}.{}", encode(&claims)), "not a signed JWT").await;
        world.assert_refused(&format!("{header}.{}.{}", encode(&claims), encode("x")), invalid).await;
    }
    // The public key as the secret of an HMAC.
    let modulus = world.rsa.jwk()["n"].as_str().expect("a modulus").as_bytes().to_vec();
    for secret in [world.rsa.public_der(), modulus, Vec::new()] {
        let header = json!({ "typ": "at+jwt", "alg": "HS256", "kid": "rsa" }).to_string();
        let signed = format!("{}.{}", encode(header), encode(&claims));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
        world.assert_refused(&format!("{signed}.{}", encode(tag)), invalid).await;
    }
    for (signer, algorithm) in [
        (&world.ec, "RS256"),
        (&world.ec, "ES384"),
        (&world.ec, ""),
        (&world.rsa, "ES256"),
        (&world.rsa, "PS256"),
        (&world.rsa, "RS512"),
        (&world.ed, "ES256"),
    ] {
        world.assert_refused(&world.header_with(signer, "alg", json!(algorithm)), invalid).await;
    }
    world.assert_refused(&world.header_with(&world.ec, "alg", json!(7)), "not a signed JWT").await;
    world.assert_refused(&world.header_with(&world.ec, "alg", Value::Null), "not a signed JWT").await;
    // The same curve by its newer name.
    world.assert_accepted(&world.header_with(&world.ed, "alg", json!("Ed25519"))).await;
    world.assert_refused(&world.header_with(&world.rsa, "kid", json!("ec")), invalid).await;
}

#[tokio::test]
async fn a_key_id_finds_a_published_key_or_none() {
    let world = World::start().await;
    let unknown = "does not publish";
    for kid in ["", "EC", "ec ", "../../dev/null", "ec' OR '1'='1", "ec\0", "https://evil.example"] {
        world.assert_refused(&world.header_with(&world.ec, "kid", json!(kid)), unknown).await;
    }
    world.assert_refused(&world.header_with(&world.ec, "kid", json!(["ec"])), "not a signed JWT").await;
    world.assert_refused(&world.header_with(&world.ec, "kid", Value::Null), "not a signed JWT").await;
    let long = world.header_with(&world.ec, "kid", json!("x".repeat(1 << 20)));
    world.assert_refused(&long, "too long").await;
    let nameless =
        world.ec.sign_text(r#"{"typ":"at+jwt","alg":"ES256"}"#, &world.issuer.claims().to_string());
    world.assert_refused(&nameless, "names no key").await;
}

#[tokio::test]
async fn a_key_in_the_header_has_no_effect() {
    let world = World::start().await;
    let evil = Signer::ec("ec");
    let other = TestIssuer::start(&[&evil]).await;
    for (name, value) in [
        ("jwk", evil.jwk()),
        ("jku", json!(format!("{}/keys", other.url))),
        ("x5u", json!(format!("{}/keys", other.url))),
        ("x5c", json!(["MIIB"])),
    ] {
        let forged = world.header_with(&evil, name, value.clone());
        world.assert_refused(&forged, "signature of the token is not valid").await;
        world.assert_accepted(&world.header_with(&world.ec, name, value)).await;
    }
    assert_eq!(other.keys_read(), 0);
}

#[tokio::test]
async fn a_token_that_needs_an_extension_is_refused() {
    let world = World::start().await;
    for (name, value) in [
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("crit", Value::Null),
        ("b64", json!(false)),
        ("b64", json!(true)),
        ("zip", json!("DEF")),
        ("enc", json!("A256GCM")),
    ] {
        world.assert_refused(&world.header_with(&world.ec, name, value), "extension").await;
    }
    // A JWE has five parts.
    let five = format!("{}.a.b.c.d", encode(r#"{"alg":"dir","enc":"A256GCM","zip":"DEF"}"#));
    world.assert_refused(&five, "not a signed JWT").await;
}

#[tokio::test]
async fn the_form_is_exact() {
    let world = World::start().await;
    let good = world.ec.sign(&world.issuer.claims());
    let (signed, signature) = good.rsplit_once('.').expect("a signature");
    let (header, payload) = signed.split_once('.').expect("a payload");
    let malformed = "not a signed JWT";
    for bad in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        signed.to_owned(),
        format!("{signed}."),
        format!("{good}."),
        format!("{good}.x"),
        format!(" {good}"),
        format!("{header}=.{payload}.{signature}"),
        format!("é.{payload}.{signature}"),
        format!("{}.{payload}.{signature}", encode("[]")),
        format!("{}.{payload}.{signature}", encode("{")),
        format!(
            "{}.{payload}.{signature}",
            encode(r#"{"alg":"ES256","alg":"none","kid":"ec","typ":"at+jwt"}"#)
        ),
    ] {
        world.assert_refused(&bad, malformed).await;
    }
    let invalid = "signature of the token is not valid";
    // The last letter of 64 bytes has four bits that do not count: each other spelling is refused.
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (start, last) = signature.split_at(signature.len() - 1);
    for letter in letters.chars().filter(|letter| last != letter.to_string()) {
        world.assert_refused(&format!("{signed}.{start}{letter}"), invalid).await;
    }
    for bad in [
        format!("{signed}.{signature}="),
        format!("{good}\n"),
        format!("{signed}.AAAA"),
        format!("{signed}.{}", encode([0; 64])),
    ] {
        world.assert_refused(&bad, invalid).await;
    }
    let changed = world.claims_with("sub", json!("eve"));
    let (changed, _) = changed.rsplit_once('.').expect("a signature");
    world.assert_refused(&format!("{changed}.{signature}"), invalid).await;
    world.assert_accepted(&good).await;
}

#[tokio::test]
async fn claims_are_an_object_with_each_name_once() {
    let world = World::start().await;
    let header = world.ec.header().to_string();
    let twice = world.issuer.claims().to_string().replacen('{', r#"{"sub":"eve","#, 1);
    for claims in ["", "null", "[]", "\"x\"", "{", twice.as_str(), &"[".repeat(5000)] {
        world.assert_refused(&world.ec.sign_text(&header, claims), "claims of the token are not valid").await;
    }
    for subject in [json!(7), json!(""), json!(["ada"]), json!(null)] {
        let mut claims = world.issuer.claims();
        claims["sub"] = subject;
        world.assert_refused(&world.ec.sign(&claims), "subject").await;
    }
    let caller = world.verifier.verify(&world.claims_with("sub", Value::Null)).await.expect("a program");
    assert_eq!(caller.subject, None);
}

#[tokio::test]
async fn a_token_that_is_bound_to_a_key_is_no_bearer_token() {
    for token_type in [TokenType::AccessToken, TokenType::Jwt, TokenType::IdToken] {
        let world = World::accepting(|accept| accept.token_type(token_type)).await;
        let signed = |claims: &Value| {
            let mut header = world.ec.header();
            if token_type != TokenType::AccessToken {
                header["typ"] = json!("JWT");
            }
            world.ec.sign_text(&header.to_string(), &claims.to_string())
        };
        let mut claims = world.issuer.claims();
        world.assert_accepted(&signed(&claims)).await;
        for bound in
            [json!({"jkt": "0ZcOCORZNYy"}), json!({"x5t#S256": "bwcK0esc3AC"}), json!({}), json!(null)]
        {
            claims["cnf"] = bound;
            world.assert_refused(&signed(&claims), "bound to a key").await;
        }
    }
}

#[tokio::test]
async fn issuer_and_audience_are_compared_byte_for_byte() {
    let world = World::start().await;
    let url = world.issuer.url.clone();
    for issuer in
        [json!(format!("{url}/")), json!(url.to_uppercase()), json!([url]), json!(7), Value::Null, json!("")]
    {
        world.assert_refused(&world.claims_with("iss", issuer), "another issuer").await;
    }
    for audience in [
        json!("API"),
        json!("api "),
        json!("apis"),
        json!([]),
        json!(["x"]),
        json!([["api"]]),
        json!({"api": 1}),
        Value::Null,
    ] {
        world.assert_refused(&world.claims_with("aud", audience), "another audience").await;
    }
    world.assert_accepted(&world.claims_with("aud", json!(["other", "api"]))).await;

    let two = World::accepting(|accept| accept.or_audience("second")).await;
    two.assert_accepted(&two.claims_with("aud", json!("second"))).await;
    two.assert_accepted(&two.claims_with("aud", json!("api"))).await;
}

#[tokio::test]
async fn times_are_checked() {
    let world = World::start().await;
    world.assert_refused(&world.claims_with("exp", Value::Null), "does not expire").await;
    for time in [
        json!(START as f64 + 300.5),
        json!(-1),
        json!("1800000300"),
        json!(1e300),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(true),
    ] {
        for name in ["exp", "nbf", "iat"] {
            world.assert_refused(&world.claims_with(name, time.clone()), "whole number of seconds").await;
        }
    }
    world.assert_refused(&world.claims_with("exp", json!(START)), "expired").await;
    world.assert_refused(&world.claims_with("exp", json!(START + 25 * 3600)), "too far").await;
    world.assert_accepted(&world.claims_with("exp", json!(START + 24 * 3600))).await;
    for name in ["nbf", "iat"] {
        world.assert_refused(&world.claims_with(name, json!(START + 61)), "not valid yet").await;
        world.assert_accepted(&world.claims_with(name, json!(START + 60))).await;
    }
    // A cached token expires too.
    let token = world.ec.sign(&world.issuer.claims());
    world.assert_accepted(&token).await;
    world.clock.advance(Duration::from_millis(299_999));
    world.assert_accepted(&token).await;
    world.clock.advance(Duration::from_millis(1));
    world.assert_refused(&token, "expired").await;
}

#[tokio::test]
async fn one_kind_of_token_is_not_taken_for_another() {
    let other = "another type";
    let access = World::start().await;
    for typ in [json!("JWT"), json!("logout+jwt"), json!("dpop+jwt"), json!(""), json!("at+jwt ")] {
        access.assert_refused(&access.header_with(&access.ec, "typ", typ), other).await;
    }
    access.assert_refused(&access.header_with(&access.ec, "typ", json!(1)), "not a signed JWT").await;
    access.assert_accepted(&access.header_with(&access.ec, "typ", json!("application/at+JWT"))).await;

    let untyped = |world: &World, extra: &str| {
        let mut claims = world.issuer.claims();
        if !extra.is_empty() {
            claims[extra] = json!("x");
        }
        world.ec.sign_text(r#"{"alg":"ES256","kid":"ec"}"#, &claims.to_string())
    };
    access.assert_refused(&untyped(&access, ""), other).await;
    let jwt = World::accepting(|accept| accept.token_type(TokenType::Jwt)).await;
    jwt.assert_accepted(&untyped(&jwt, "")).await;
    jwt.assert_accepted(&jwt.header_with(&jwt.ec, "typ", json!("JWT"))).await;
    jwt.assert_refused(&jwt.header_with(&jwt.ec, "typ", json!("at+jwt")), other).await;
    for claim in ["nonce", "at_hash", "c_hash", "events"] {
        jwt.assert_refused(&untyped(&jwt, claim), "another kind").await;
    }
    let id = World::accepting(|accept| accept.token_type(TokenType::IdToken)).await;
    id.assert_accepted(&untyped(&id, "nonce")).await;
    id.assert_refused(&untyped(&id, "events"), "another kind").await;
}
