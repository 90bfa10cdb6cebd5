//! Tokens (RFC 7515, 7519, 8725, 9068, 6750): what is no token of ours, or is one for something else, opens nothing.

mod claims;
mod header;
mod keys;
mod spelling;

use crate::support::*;
use aws_lc_rs::encoding::{AsBigEndian as _, EcPublicKeyUncompressedBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::ids::KeyId;
use identity::keys::Algorithm;
use serde_json::{Value, json};
use server::testing::TestServer;
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
        let challenge = challenge(path, Some("invalid_token"));
        assert_eq!(answer.header("www-authenticate"), challenge, "{what}, {path}");
        let field = if path == "/auth/userinfo" { "error" } else { "code" };
        assert_eq!((&*answer.text(field), answer.header("cache-control")), ("invalid_token", "no-store"));
    }
    assert_eq!(introspect(server, token).await, json!({ "active": false }), "{what}");
}

/// Ada's access token, and the server's own key for tokens like it.
async fn ada(server: &TestServer) -> (String, Value, Forge) {
    let token = tokens(server, "ada@acme.test", "openid profile email").await.text("access_token");
    let claims = claims(&token);
    (token, claims, Forge::of_server(server, Algorithm::Es256).await)
}
