//! Tests of tokens: keys of all algorithms, and an issuer on a free port that counts what is read from it.

mod issuer;
mod local;
mod token;

use super::token::Accept;
use aws_lc_rs::encoding::{AsBigEndian as _, AsDer as _, EcPublicKeyUncompressedBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use axum::Router;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use store::Time;

/// The time at which the tests begin, in seconds.
pub(super) const START: i64 = 1_800_000_000;

pub(super) fn encode(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// A key pair.
pub(super) struct Signer {
    kid: String,
    pair: Pair,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(super) fn ec(kid: &str) -> Signer {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Signer { kid: kid.to_owned(), pair: Pair::Ec(pair) }
    }

    pub(super) fn rsa(kid: &str) -> Signer {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        Signer { kid: kid.to_owned(), pair: Pair::Rsa(pair) }
    }

    pub(super) fn ed(kid: &str) -> Signer {
        let pair = Ed25519KeyPair::generate().expect("a key");
        Signer { kid: kid.to_owned(), pair: Pair::Ed(pair) }
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ec(_) => "ES256",
            Pair::Rsa(_) => "RS256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    pub(super) fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Ec(pair) => {
                let point: EcPublicKeyUncompressedBin<'_> = pair.public_key().as_be_bytes().expect("a point");
                let (x, y) = point.as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) })
            }
            Pair::Rsa(pair) => {
                let (n, e) = (pair.public_key().modulus(), pair.public_key().exponent());
                json!({ "kty": "RSA", "n": encode(n.big_endian_without_leading_zero()),
                        "e": encode(e.big_endian_without_leading_zero()) })
            }
            Pair::Ed(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key()) }),
        };
        jwk["kid"] = json!(self.kid);
        jwk["alg"] = json!(self.algorithm());
        jwk["use"] = json!("sig");
        jwk
    }

    /// The public key as other programs store it: what an attacker could use as the secret of an HMAC.
    pub(super) fn public_der(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_der().expect("encodes").as_ref().to_vec(),
            Pair::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// The header of its tokens.
    pub(super) fn header(&self) -> Value {
        json!({ "typ": "at+jwt", "alg": self.algorithm(), "kid": self.kid })
    }

    /// A signed token with exactly this header and these claims, which may be any text.
    pub(super) fn sign_text(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.signature(&signed);
        format!("{signed}.{signature}")
    }

    /// The signature of a text.
    pub(super) fn signature(&self, signed: &str) -> String {
        let (random, message) = (SystemRandom::new(), signed.as_bytes());
        match &self.pair {
            Pair::Ec(pair) => encode(pair.sign(&random, message).expect("signs")),
            Pair::Ed(pair) => encode(pair.sign(message)),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("signs");
                encode(signature)
            }
        }
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        self.sign_text(&self.header().to_string(), &claims.to_string())
    }
}

/// A clock that stands still until the test moves it.
#[derive(Clone)]
pub(super) struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub(super) fn new() -> TestClock {
        TestClock(Arc::new(AtomicI64::new(START * 1000)))
    }

    pub(super) fn advance(&self, span: Duration) {
        self.0.fetch_add(span.as_millis() as i64, Ordering::SeqCst);
    }

    pub(super) fn set_back(&self, span: Duration) {
        self.0.fetch_sub(span.as_millis() as i64, Ordering::SeqCst);
    }

    pub(super) fn function(&self) -> super::Clock {
        let clock = self.0.clone();
        Arc::new(move || Time::from_millis(clock.load(Ordering::SeqCst)))
    }

    /// Tokens for the audience `api`, by this clock.
    pub(super) fn accept(&self) -> Accept {
        Accept::audience("api").clock(self.function())
    }
}

/// An issuer on a free port.
pub(super) struct TestIssuer {
    /// Its address, which is also its `iss`.
    pub(super) url: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    documents: Mutex<Documents>,
    keys_read: AtomicU64,
}

struct Documents {
    discovery: Value,
    keys: Value,
    max_age: u64,
    is_down: bool,
}

impl TestIssuer {
    pub(super) async fn start(signers: &[&Signer]) -> TestIssuer {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let documents = Documents {
            discovery: json!({ "issuer": url, "jwks_uri": format!("{url}/keys") }),
            keys: json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() }),
            max_age: 300,
            is_down: false,
        };
        let shared = Arc::new(Shared { documents: Mutex::new(documents), keys_read: AtomicU64::new(0) });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, routes).await.expect("serves") });
        TestIssuer { url, shared, task }
    }

    pub(super) fn publish(&self, signers: &[&Signer]) {
        self.set_keys(json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() }));
    }

    pub(super) fn set_keys(&self, keys: Value) {
        self.shared.documents.lock().keys = keys;
    }

    pub(super) fn set_discovery(&self, discovery: Value) {
        self.shared.documents.lock().discovery = discovery;
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.shared.documents.lock().is_down = is_down;
    }

    /// How often its keys were requested.
    pub(super) fn keys_read(&self) -> u64 {
        self.shared.keys_read.load(Ordering::SeqCst)
    }

    /// Claims that are valid for five minutes.
    pub(super) fn claims(&self) -> Value {
        json!({ "iss": self.url, "aud": "api", "sub": "ada", "iat": START, "exp": START + 300 })
    }
}

impl Drop for TestIssuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn discovery(State(shared): State<Arc<Shared>>) -> Response {
    shared.documents.lock().discovery.to_string().into_response()
}

async fn keys(State(shared): State<Arc<Shared>>) -> Response {
    shared.keys_read.fetch_add(1, Ordering::SeqCst);
    let documents = shared.documents.lock();
    if documents.is_down {
        return axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let body = documents.keys.to_string();
    ([(CACHE_CONTROL, format!("public, max-age={}", documents.max_age))], body).into_response()
}
