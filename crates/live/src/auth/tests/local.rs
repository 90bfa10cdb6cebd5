//! Tokens that the program signs itself.

use super::{START, TestClock, encode};
use crate::auth::LocalIssuer;
use serde_json::{Map, Value, json};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn no_claims() -> Map<String, Value> {
    Map::new()
}

#[test]
fn a_token_is_valid_at_its_issuer_until_it_expires() {
    let clock = TestClock::new();
    let issuer = LocalIssuer::temporary_with_clock("counters", clock.function()).expect("an issuer");
    let claims = Map::from_iter([("role".to_owned(), json!("teacher"))]);
    let token = issuer.issue("ada", HOUR, claims).expect("a token");
    for _ in 0..2 {
        let caller = issuer.verify(&token).expect("valid");
        assert_eq!(caller.subject.as_deref(), Some("ada"));
        assert_eq!(caller.claims["role"], "teacher");
        assert_eq!(caller.expires.expect("expires").seconds(), START + 3600);
    }
    let other = LocalIssuer::temporary_with_clock("counters", clock.function()).expect("an issuer");
    assert_eq!(other.verify(&token).expect_err("another key").status.as_u16(), 401);
    clock.advance(HOUR);
    assert!(issuer.verify(&token).expect_err("expired").detail.contains("expired"));

    for reserved in ["iss", "sub", "aud", "exp", "iat", "nbf", "cnf", "events"] {
        let claims = Map::from_iter([(reserved.to_owned(), json!("x"))]);
        issuer.issue("ada", HOUR, claims).expect_err(reserved);
    }
    issuer.issue("", HOUR, no_claims()).expect_err("nobody");
    issuer.issue("ada", Duration::MAX, no_claims()).expect("a lifetime without end");
}

#[test]
fn a_forged_token_is_refused() {
    let issuer = LocalIssuer::temporary("counters").expect("an issuer");
    let token = issuer.issue("ada", HOUR, no_claims()).expect("a token");
    let parts: Vec<&str> = token.split('.').collect();
    let forged = encode(
        json!({ "iss": "counters", "aud": "counters", "sub": "eve", "exp": i64::MAX / 1000 }).to_string(),
    );
    issuer.verify(&format!("{}.{forged}.{}", parts[0], parts[2])).expect_err("another payload");
    issuer.verify(&format!("{}.{}.{}", parts[0], parts[1], encode([0; 64]))).expect_err("another signature");
    issuer.verify("").expect_err("nothing");
}

#[test]
fn the_key_is_in_a_file_that_only_its_owner_may_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.key");
    // Instances that start at the same time agree on one key.
    let open = || LocalIssuer::open(&path, "app").expect("opens");
    let (first, second) = std::thread::scope(|scope| {
        let (first, second) = (scope.spawn(open), scope.spawn(open));
        (first.join().expect("ends"), second.join().expect("ends"))
    });
    let token = first.issue("ada", HOUR, no_claims()).expect("a token");
    second.verify(&token).expect("the same key");
    LocalIssuer::open(&path, "app").expect("opens again").verify(&token).expect("the same key");
    LocalIssuer::open(&path, "other").expect("opens").verify(&token).expect_err("another audience");
    assert_eq!(std::fs::metadata(&path).expect("a file").mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left beside it");

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("set");
    let error = LocalIssuer::open(&path, "app").err().expect("others may read it").to_string();
    assert!(error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
    for text in ["", "something else", "live-es256-key:AAAA"] {
        std::fs::write(&path, text).expect("written");
        LocalIssuer::open(&path, "app").err().expect(text);
    }
    LocalIssuer::open(folder.path().join("missing/app.key"), "app").err().expect("no folder");
}

#[test]
fn other_programs_verify_its_tokens_by_its_key_set() {
    let issuer = LocalIssuer::temporary("app").expect("an issuer");
    let token = issuer.issue("ada", HOUR, no_claims()).expect("a token");
    let set: jsonwebtoken::jwk::JwkSet = serde_json::from_value(issuer.jwks()).expect("a key set");
    let key = jsonwebtoken::DecodingKey::from_jwk(&set.keys[0]).expect("a key");
    let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::ES256);
    validation.set_audience(&["app"]);
    let decoded = jsonwebtoken::decode::<Value>(&token, &key, &validation).expect("valid");
    assert_eq!(decoded.claims["sub"], "ada");
}
