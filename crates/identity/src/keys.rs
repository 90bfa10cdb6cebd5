//! Signing keys: generation, sealed storage, publication, rotation with an overlap, retirement.
//!
//! A new key is published before it signs, so that verifiers that cache `jwks.json` already have it. An old key stays
//! published until the last token that it signed has expired. After that it still verifies ID tokens that come back as
//! hints, and nothing else. Access tokens use ES256, ID tokens RS256. Generating an RSA key is slow and runs on its own
//! thread.

use crate::ids::KeyId;
use crate::secrets::{Random, SecretKey};
use crate::{Error, Result, Time, settings};
use aws_lc_rs::encoding::{AsBigEndian as _, AsDer, EcPublicKeyUncompressedBin, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use store::{FromValue, Key, Snapshot, ToValue, Tx, Value, ValueRef, args, insert, sql, statements};

/// How long verifiers may cache `jwks.json`, and how long a new key is published before it signs.
pub const PUBLISH_AHEAD: Duration = Duration::from_secs(3600);
/// The age at which a key is replaced.
pub const ROTATE_AFTER: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a replaced key stays published. It is longer than the lifetime of any token.
const KEEP_RETIRED: Duration = Duration::from_secs(24 * 3600);
/// How long a retired key verifies hints: the longest life of a session.
const VERIFY_HINTS: Duration = Duration::from_secs(400 * 24 * 3600);

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// RSA PKCS#1 1.5 with SHA-256, 2048 bits.
    Rs256,
}

impl Algorithm {
    /// The name in JOSE (RFC 7518).
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::Rs256 => "RS256",
        }
    }

    fn parse(name: &str) -> Result<Algorithm> {
        match name {
            "ES256" => Ok(Algorithm::Es256),
            "RS256" => Ok(Algorithm::Rs256),
            _ => Err(Error::Internal(format!("signing key with the unknown algorithm {name:?}"))),
        }
    }

    pub(crate) fn jose(self) -> jsonwebtoken::Algorithm {
        match self {
            Algorithm::Es256 => jsonwebtoken::Algorithm::ES256,
            Algorithm::Rs256 => jsonwebtoken::Algorithm::RS256,
        }
    }
}

impl FromValue for Algorithm {
    const KIND: &'static str = "a signature algorithm";
    fn from_value(value: ValueRef<'_>) -> Option<Algorithm> {
        if let ValueRef::Text(name) = value { Algorithm::parse(name).ok() } else { None }
    }
}

impl ToValue for Algorithm {
    fn to_value(&self) -> Value<'_> {
        self.as_str().into()
    }
}

/// The input for [`add`].
#[derive(Clone, Debug)]
pub struct NewKey {
    id: KeyId,
    algorithm: Algorithm,
    sealed: Vec<u8>,
    public: String,
}

/// Generates a key. An RSA key takes a good part of a second.
pub fn generate(
    algorithm: Algorithm,
    now: Time,
    random: &dyn Random,
    secret_key: &SecretKey,
) -> Result<NewKey> {
    let broken = |_| Error::Internal("a signing key could not be generated".to_owned());
    let id = KeyId::new(now, random);
    let private: Vec<u8> = match algorithm {
        Algorithm::Es256 => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .and_then(|pair| pair.to_pkcs8v1())
            .map(|document| document.as_ref().to_vec()),
        Algorithm::Rs256 => RsaKeyPair::generate(KeySize::Rsa2048)
            .and_then(|pair| AsDer::<Pkcs8V1Der<'_>>::as_der(&pair))
            .map(|document| document.as_ref().to_vec()),
    }
    .map_err(broken)?;
    let pair = Pair::parse(algorithm, &private)?;
    let public = pair.public_jwk(&id)?.to_string();
    let sealed = secret_key.seal(&place(&id), &private, random)?;
    Ok(NewKey { id, algorithm, sealed, public })
}

fn place(id: &KeyId) -> String {
    format!("signing_keys/{id}/sealed")
}

statements! {
    static INSERT = insert(
        "signing_keys",
        &[&["id", "algorithm", "sealed", "public", "created_at", "signs_from"]],
    );
    static NEWEST = sql(
        "SELECT id, created_at FROM signing_keys WHERE algorithm = ?1 AND retired_at IS NULL ORDER BY id DESC LIMIT 1",
    );
    static RETIRE = sql(
        "UPDATE signing_keys SET retired_at = ?3 WHERE algorithm = ?1 AND id < ?2 AND retired_at IS NULL",
    );
    static ALL = sql("SELECT id, algorithm, sealed, public, signs_from, retired_at FROM signing_keys
     WHERE retired_at IS NULL OR retired_at > ?1 ORDER BY id");
    static SEALED = sql("SELECT id, algorithm, sealed FROM signing_keys ORDER BY id");
    static RESEAL = sql("UPDATE signing_keys SET sealed = ?2 WHERE id = ?1");
}

/// The key of the ring: all of it is read at once.
fn key() -> Key {
    Key::table("signing_keys")
}

/// Stores a key unless another instance has stored a new one of this algorithm in the meantime.
pub fn add_if_due(tx: &mut Tx<'_>, new: &NewKey, now: Time) -> Result<()> {
    settings::lock_installation(tx)?;
    if is_due(tx.snapshot(), new.algorithm, now)? { add(tx, new, now) } else { Ok(()) }
}

/// Stores a key. The first key of an algorithm signs immediately, also for requests that began before it existed. A
/// later key signs after [`PUBLISH_AHEAD`].
pub fn add(tx: &mut Tx<'_>, new: &NewKey, now: Time) -> Result<()> {
    let algorithm = new.algorithm.as_str();
    let first = tx.one(&NEWEST, args![algorithm], |row| row.get::<KeyId>(0))?.is_none();
    let signs_from = if first { Time::from_millis(0) } else { now + PUBLISH_AHEAD };
    tx.exec(&INSERT, args![&new.id, algorithm, &new.sealed, &new.public, now, signs_from])?;
    tx.exec(&RETIRE, args![algorithm, &new.id, signs_from + KEEP_RETIRED])?;
    tx.changed(key());
    Ok(())
}

/// Whether a new key of this algorithm is due.
pub fn is_due(snapshot: &mut Snapshot<'_>, algorithm: Algorithm, now: Time) -> Result<bool> {
    let newest: Option<Time> = snapshot.one(&NEWEST, args![algorithm.as_str()], |row| row.get(1))?;
    Ok(newest.is_none_or(|created_at| now.since(created_at) >= ROTATE_AFTER))
}

/// Reads and decrypts the published keys, and reads the public halves of the keys that verify hints.
pub fn ring(snapshot: &mut Snapshot<'_>, secret_key: &SecretKey, now: Time) -> Result<Ring> {
    struct Stored {
        id: KeyId,
        algorithm: String,
        sealed: Vec<u8>,
        public: String,
        signs_from: Time,
        retired_at: Option<Time>,
    }
    snapshot.depends(|| [key()]);
    let stored: Vec<Stored> = snapshot.all(&ALL, args![now - VERIFY_HINTS], |row| {
        Ok(Stored {
            id: row.get(0)?,
            algorithm: row.get(1)?,
            sealed: row.get(2)?,
            public: row.get(3)?,
            signs_from: row.get(4)?,
            retired_at: row.get(5)?,
        })
    })?;
    let (mut keys, mut retired) = (Vec::new(), Vec::new());
    for Stored { id, algorithm, sealed, public, signs_from, retired_at } in stored {
        let algorithm = Algorithm::parse(&algorithm)?;
        let broken = |error: &dyn std::fmt::Display| Error::Internal(format!("signing key {id}: {error}"));
        let public: Json = serde_json::from_str(&public).map_err(|error| broken(&error))?;
        let jwk = serde_json::from_value(public.clone()).map_err(|error| broken(&error))?;
        let decoding = DecodingKey::from_jwk(&jwk).map_err(|error| broken(&error))?;
        if retired_at.is_some_and(|at| at <= now) {
            retired.push(VerifyingKey { id, algorithm, decoding });
            continue;
        }
        let private = secret_key.open(&place(&id), &sealed)?;
        let pair = Pair::parse(algorithm, &private)?;
        keys.push(SigningKey {
            verifier: VerifyingKey { id, algorithm, decoding },
            public,
            signs_from,
            pair,
        });
    }
    Ok(Ring { keys: keys.into(), retired: retired.into() })
}

/// Opens each key, also the retired ones, and signs with it. Returns how many there are.
pub(crate) fn open_all(snapshot: &mut Snapshot<'_>, secret_key: &SecretKey) -> Result<u64> {
    let mut count = 0;
    for (id, algorithm, sealed) in sealed(snapshot)? {
        let pair = Pair::parse(Algorithm::parse(&algorithm)?, &secret_key.open(&place(&id), &sealed)?)?;
        pair.sign(b"a check")?;
        count += 1;
    }
    Ok(count)
}

/// Seals each key with the secret key `to`. Returns how many there are.
pub(crate) fn reseal(tx: &mut Tx<'_>, from: &SecretKey, to: &SecretKey, random: &dyn Random) -> Result<u64> {
    let mut count = 0;
    for (id, _, sealed) in sealed(tx.snapshot())? {
        let resealed = to.seal(&place(&id), &from.open(&place(&id), &sealed)?, random)?;
        tx.exec(&RESEAL, args![&id, &resealed])?;
        tx.changed(key());
        count += 1;
    }
    Ok(count)
}

fn sealed(snapshot: &mut Snapshot<'_>) -> Result<Vec<(KeyId, String, Vec<u8>)>> {
    Ok(snapshot.all(&SEALED, args![], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?)
}

/// The published keys, and the retired ones that verify hints. Cheap to clone.
#[derive(Clone)]
pub struct Ring {
    keys: Arc<[SigningKey]>,
    retired: Arc<[VerifyingKey]>,
}

/// The public half of a key.
pub struct VerifyingKey {
    /// The `kid`.
    pub id: KeyId,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The key for the JOSE crate.
    pub decoding: DecodingKey,
}

/// One published key.
pub struct SigningKey {
    /// The public half.
    pub verifier: VerifyingKey,
    public: Json,
    signs_from: Time,
    pair: Pair,
}

/// A key with the same id is the same key.
impl PartialEq for Ring {
    fn eq(&self, other: &Ring) -> bool {
        let is_same = |(one, other): (&SigningKey, &SigningKey)| {
            one.verifier.id == other.verifier.id
                && one.public == other.public
                && one.signs_from == other.signs_from
        };
        let retired = self.retired.iter().map(|key| &key.id);
        self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&*other.keys).all(is_same)
            && retired.eq(other.retired.iter().map(|key| &key.id))
    }
}

impl Ring {
    /// Returns the newest key of this algorithm that signs at `now`; `None` before the first key exists.
    pub fn signer(&self, algorithm: Algorithm, now: Time) -> Option<&SigningKey> {
        self.keys.iter().rev().find(|key| key.verifier.algorithm == algorithm && key.signs_from <= now)
    }

    /// Finds the published key with this `kid`.
    pub fn find(&self, kid: &str) -> Option<&VerifyingKey> {
        self.keys.iter().map(|key| &key.verifier).find(|key| key.id.as_str() == kid)
    }

    /// Finds the key with this `kid` for a hint: published, or retired.
    pub fn find_for_hint(&self, kid: &str) -> Option<&VerifyingKey> {
        self.find(kid).or_else(|| self.retired.iter().find(|key| key.id.as_str() == kid))
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.retired.len()
    }

    /// Returns the published key set (RFC 7517).
    pub fn jwks(&self) -> Json {
        json!({ "keys": self.keys.iter().map(|key| key.public.clone()).collect::<Vec<_>>() })
    }
}

impl SigningKey {
    /// Signs `claims` as a compact JWS (RFC 7515) with this `typ`. The ring parses the key pair once; the JOSE crate
    /// would parse it for every token.
    pub fn sign(&self, typ: &str, claims: &impl serde::Serialize) -> Result<String> {
        let broken = |error: serde_json::Error| Error::Internal(format!("claims: {error}"));
        let VerifyingKey { id, algorithm, .. } = &self.verifier;
        let header = json!({ "typ": typ, "alg": algorithm.as_str(), "kid": id.as_str() });
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(claims).map_err(broken)?, &mut token);
        let signature = self.pair.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }
}

enum Pair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

impl Pair {
    fn parse(algorithm: Algorithm, private: &[u8]) -> Result<Pair> {
        let parsed = match algorithm {
            Algorithm::Es256 => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, private).map(Pair::Es256)
            }
            Algorithm::Rs256 => RsaKeyPair::from_pkcs8(private).map(Pair::Rs256),
        };
        parsed.map_err(|error| Error::Internal(format!("signing key: {error}")))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let random = SystemRandom::new();
        let signed = match self {
            Pair::Es256(pair) => pair.sign(&random, message).map(|signature| signature.as_ref().to_vec()),
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map(|()| signature)
            }
        };
        signed.map_err(|_| Error::Internal("signing failed".to_owned()))
    }

    /// Returns the public half as a JWK (RFC 7517, RFC 7518).
    fn public_jwk(&self, id: &KeyId) -> Result<Json> {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let broken = |_| Error::Internal("a public key could not be encoded".to_owned());
        Ok(match self {
            Pair::Es256(pair) => {
                let point: EcPublicKeyUncompressedBin<'_> =
                    pair.public_key().as_be_bytes().map_err(broken)?;
                let (x, y) = point.as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y),
                        "use": "sig", "alg": "ES256", "kid": id.as_str() })
            }
            Pair::Rs256(pair) => {
                let key = pair.public_key();
                let (n, e) = (key.modulus(), key.exponent());
                json!({ "kty": "RSA", "n": text(n.big_endian_without_leading_zero()),
                        "e": text(e.big_endian_without_leading_zero()),
                        "use": "sig", "alg": "RS256", "kid": id.as_str() })
            }
        })
    }
}
