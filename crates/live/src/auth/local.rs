//! JWTs that this program signs and verifies itself (ES256): for a back end whose users register with it, and for tests.
//!
//! The key is in a file that only its owner may read. Instances of one back end share the file: a token that one has
//! signed is valid at the others. A token cannot be revoked, so its lifetime is short; the back end issues the next one.

use super::cache::{self, VerifiedTokens};
use super::keys::Verifier;
use super::token::{Accept, Refused, Token};
use super::{Clock, Misconfigured, refused};
use crate::caller::Authenticating;
use crate::{Authenticate, Caller, Problem};
use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsBigEndian as _, EcPublicKeyUncompressedBin};
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The mode of the key file.
const PRIVATE: u32 = 0o600;
/// The first word of the key file, so that a file that was named by mistake is not taken for a key.
const MARK: &str = "live-es256-key:";
/// More than a key file has.
const FILE_SIZE_MAX: u64 = 4096;
/// How many verified tokens are cached.
const CACHED_MAX: usize = 10_000;
/// The claims that [`LocalIssuer::issue`] sets, and those that would make the token useless.
const RESERVED: [&str; 8] = ["iss", "sub", "aud", "exp", "iat", "nbf", "cnf", "events"];

/// Signs and verifies tokens. Clones share the key.
///
/// ```no_run
/// use live::auth::LocalIssuer;
/// use std::time::Duration;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let issuer = LocalIssuer::open("counters.key", "counters")?;
/// let token = issuer.issue("user-1", Duration::from_secs(3600), serde_json::Map::new())?;
/// let app = live::App::new().authenticate(std::sync::Arc::new(issuer));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalIssuer {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    kid: String,
    pair: EcdsaKeyPair,
    verifier: Verifier,
    accept: Accept,
    verified: VerifiedTokens,
}

impl LocalIssuer {
    /// The issuer whose key is in this file. The file is made if it does not exist. `name` becomes issuer and audience
    /// of the tokens.
    pub fn open(path: impl AsRef<Path>, name: &str) -> Result<LocalIssuer, Misconfigured> {
        let path = path.as_ref();
        let wrong = |what: String| Misconfigured(format!("{}: {what}", path.display()));
        let key = match read(path).map_err(wrong)? {
            Some(key) => key,
            None => create(path, &generate()?).map_err(wrong)?,
        };
        LocalIssuer::of(name, &key, None).map_err(|error| wrong(error.0))
    }

    /// An issuer with a new key that ends with this value, for tests.
    pub fn temporary(name: &str) -> Result<LocalIssuer, Misconfigured> {
        LocalIssuer::of(name, &generate()?, None)
    }

    /// The same with another clock.
    pub fn temporary_with_clock(name: &str, clock: Clock) -> Result<LocalIssuer, Misconfigured> {
        LocalIssuer::of(name, &generate()?, Some(clock))
    }

    fn of(name: &str, key: &[u8], clock: Option<Clock>) -> Result<LocalIssuer, Misconfigured> {
        let broken =
            || Misconfigured("the key is damaged; restore the file from a backup, or remove it".to_owned());
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key).map_err(|_| broken())?;
        let jwk = jwk(&pair).ok_or_else(broken)?;
        let kid = jwk["kid"].as_str().unwrap_or_default().to_owned();
        let verifier = Verifier::of(&jwk).ok_or_else(broken)?;
        // The lifetime is the choice of the program that signs.
        let mut accept = Accept::audience(name).lifetime_max(Duration::MAX / 2);
        if let Some(clock) = clock {
            accept = accept.clock(clock);
        }
        let verified = VerifiedTokens::new(CACHED_MAX);
        Ok(LocalIssuer {
            inner: Arc::new(Inner { name: name.to_owned(), kid, pair, verifier, accept, verified }),
        })
    }

    /// Signs a token for a user. `claims` are further claims, which queries may declare to read.
    pub fn issue(
        &self,
        subject: &str,
        lifetime: Duration,
        claims: Map<String, Value>,
    ) -> Result<String, Misconfigured> {
        if let Some(name) = RESERVED.iter().find(|name| claims.contains_key(**name)) {
            return Err(Misconfigured(format!(
                "the claim {name:?} has a fixed meaning in a token; choose another name"
            )));
        }
        if subject.is_empty() {
            return Err(Misconfigured("the subject is empty; name the user".to_owned()));
        }
        if subject.contains('\0') {
            return Err(Misconfigured("the subject has the character U+0000; remove it".to_owned()));
        }
        let inner = &self.inner;
        let now = (inner.accept.clock)();
        let header = json!({ "typ": "at+jwt", "alg": "ES256", "kid": inner.kid });
        let own = json!({ "iss": inner.name, "aud": inner.name, "sub": subject, "iat": now.seconds(),
                          "exp": (now + lifetime).seconds() });
        let mut all = claims;
        all.extend(own.as_object().cloned().unwrap_or_default());
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(Value::Object(all).to_string(), &mut token);
        let signature = inner.pair.sign(&SystemRandom::new(), token.as_bytes());
        let signature = signature.map_err(|_| Misconfigured("a token could not be signed".to_owned()))?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// The public key as a JWK set (RFC 7517), for other programs that verify the tokens.
    pub fn jwks(&self) -> Value {
        json!({ "keys": [jwk(&self.inner.pair)] })
    }

    /// Verifies a token.
    pub fn verify(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        let inner = &self.inner;
        let now = (inner.accept.clock)();
        let hash = cache::hash(token);
        if let Some(caller) = inner.verified.get(&hash, now) {
            return Ok(caller);
        }
        let parsed = Token::parse(token, &inner.accept).map_err(refused)?;
        if parsed.kid != inner.kid {
            return Err(refused(Refused("The token is signed with another key.")));
        }
        let verified = parsed.verify(&inner.verifier, &inner.name, &inner.accept, now).map_err(refused)?;
        let until = verified.until;
        let caller = Arc::new(verified.into_caller());
        inner.verified.insert(hash, caller.clone(), until, now, 0);
        Ok(caller)
    }
}

impl Authenticate for LocalIssuer {
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a> {
        Box::pin(async move { Ok(self.verify(token)?.as_ref().clone()) })
    }
}

fn generate() -> Result<Vec<u8>, Misconfigured> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let document = pair.and_then(|pair| pair.to_pkcs8v1());
    let failed = |_| Misconfigured("a key could not be generated".to_owned());
    document.map(|document| document.as_ref().to_vec()).map_err(failed)
}

/// The public half. Its id is the start of its thumbprint (RFC 7638), so that each key has an id of its own.
fn jwk(pair: &EcdsaKeyPair) -> Option<Value> {
    let point: EcPublicKeyUncompressedBin<'_> = pair.public_key().as_be_bytes().ok()?;
    let (x, y) = point.as_ref().get(1..)?.split_at_checked(32)?;
    let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
    let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    let thumbprint = digest::digest(&digest::SHA256, members.as_bytes());
    let kid = URL_SAFE_NO_PAD.encode(thumbprint.as_ref().get(..12)?);
    Some(json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "use": "sig", "alg": "ES256", "kid": kid }))
}

/// The key of the file; `None` if there is no file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let cannot = |error: std::io::Error| format!("cannot read the key: {error}");
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let mode = file.metadata().map_err(cannot)?.mode() & 0o777;
    if mode & !PRIVATE != 0 {
        return Err(format!("others may read the key (mode {mode:o}); use chmod 600, or a new key"));
    }
    let mut text = String::new();
    file.take(FILE_SIZE_MAX).read_to_string(&mut text).map_err(cannot)?;
    let key = text.trim().strip_prefix(MARK).and_then(|text| STANDARD.decode(text.trim()).ok());
    key.map(Some)
        .ok_or_else(|| format!("this is not a key file (it begins with {MARK:?}); name another file"))
}

/// Writes the key into a new file, whole or not at all, and returns the key that the file has now: another process may
/// have made it at the same time.
fn create(path: &Path, key: &[u8]) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot write the key: {error}");
    let mut suffix = [0; 8];
    rand::fill(&mut suffix).map_err(|_| "no randomness".to_owned())?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:x}.new", u64::from_ne_bytes(suffix)));
    let beside = Path::new(&beside);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(beside).map_err(cannot)?;
    let written = file
        .write_all(format!("{MARK}{}\n", STANDARD.encode(key)).as_bytes())
        .and_then(|()| file.sync_all())
        // Unlike a rename this fails if the file exists.
        .and_then(|()| fs::hard_link(beside, path));
    let _ = fs::remove_file(beside);
    match written {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(cannot(error)),
        _ => read(path)?.ok_or_else(|| "the key was removed while it was made".to_owned()),
    }
}
