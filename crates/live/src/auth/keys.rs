//! The public keys of an issuer (RFC 7517). A set may have keys that are not for signatures, or of algorithms that are
//! not supported; they are skipped.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::Value;

/// More keys than an issuer has while it rotates them.
const KEYS_MAX: usize = 64;
/// The shortest RSA modulus that is accepted (RFC 7518, section 3.3).
const RSA_BITS_MIN: usize = 2048;

/// One public key, and the only algorithm that it verifies.
pub(super) struct Verifier {
    kid: String,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier {
    /// The key of this JWK; `None` if it does not verify signatures with a supported algorithm.
    pub(super) fn of(jwk: &Value) -> Option<Verifier> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let kid = text("kid").filter(|kid| !kid.is_empty())?.to_owned();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        if operations.is_some_and(|all| !all.iter().any(|one| one == "verify")) {
            return None;
        }
        let (name, algorithm) = match (text("kty")?, text("crv")) {
            ("EC", Some("P-256")) => ("ES256", Algorithm::ES256),
            ("OKP", Some("Ed25519")) => ("EdDSA", Algorithm::EdDSA),
            ("RSA", _) if bits(text("n")?)? >= RSA_BITS_MIN => ("RS256", Algorithm::RS256),
            _ => return None,
        };
        // Ed25519 is the newer name of EdDSA with this curve (RFC 9864).
        if text("alg").is_some_and(|named| named != name && (name, named) != ("EdDSA", "Ed25519")) {
            return None;
        }
        let key = DecodingKey::from_jwk(&parsed(jwk)?).ok()?;
        Some(Verifier { kid, algorithm, key })
    }

    /// Whether `signature` is this key's signature of `signed`, by the algorithm that the header names.
    pub(super) fn verifies(&self, algorithm: &str, signed: &str, signature: &str) -> bool {
        let is_its = match self.algorithm {
            Algorithm::EdDSA => algorithm == "EdDSA" || algorithm == "Ed25519",
            Algorithm::ES256 => algorithm == "ES256",
            Algorithm::RS256 => algorithm == "RS256",
            _ => false,
        };
        is_its && crypto::verify(signature, signed.as_bytes(), &self.key, self.algorithm).unwrap_or(false)
    }
}

/// Reads the members that the key consists of. Others (`alg`, `key_ops`) may have values that the parser does not know.
fn parsed(jwk: &Value) -> Option<Jwk> {
    let members = ["kty", "crv", "x", "y", "n", "e"];
    let key = members.iter().filter_map(|name| Some(((*name).to_owned(), jwk.get(*name)?.clone())));
    serde_json::from_value(Value::Object(key.collect())).ok()
}

fn bits(modulus: &str) -> Option<usize> {
    let bytes = URL_SAFE_NO_PAD.decode(modulus).ok()?;
    let first = bytes.iter().position(|byte| *byte != 0)?;
    let zeros = bytes.get(first)?.leading_zeros() as usize;
    Some((bytes.len() - first) * 8 - zeros)
}

/// A set of keys.
pub(super) struct Keys {
    verifiers: Vec<Verifier>,
    document: Value,
}

impl Keys {
    /// Reads a JWK set. A set without a usable key is an error: the issuer's previous keys serve better.
    pub(super) fn parse(bytes: &[u8]) -> Result<Keys, String> {
        let document: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("the key set is not JSON ({error})"))?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or("the key set has no list `keys`")?;
        if keys.len() > KEYS_MAX {
            return Err(format!("the key set has {} keys; the limit is {KEYS_MAX}", keys.len()));
        }
        let verifiers: Vec<Verifier> = keys.iter().filter_map(Verifier::of).collect();
        match verifiers.is_empty() {
            true => Err("the key set has no key for ES256, RS256 or EdDSA with a `kid`".to_owned()),
            false => Ok(Keys { verifiers, document }),
        }
    }

    /// The key with this id.
    pub(super) fn find(&self, kid: &str) -> Option<&Verifier> {
        self.verifiers.iter().find(|verifier| verifier.kid == kid)
    }
}

/// Sets are equal if their documents are.
impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        self.document == other.document
    }
}
