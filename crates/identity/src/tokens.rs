//! Tokens: access tokens as signed JWTs (RFC 9068), and ID tokens (OpenID Connect Core, section 2).
//!
//! Verification checks the `typ` header, which a service may choose to be the same for both, and the claims of each kind, so
//! that one kind of token is not accepted as the other: an access token has a `jti`, a `scope` and a `client_id`, an ID
//! token has no `jti`. It checks the algorithm against the key, not against the token. Tokens are signed after the commit. [`crate::Lookups`] remembers which
//! signatures are right.

use crate::ids::{AuditId, KeyId};
use crate::keys::{Algorithm, Ring, SigningKey, VerifyingKey};
use crate::{Error, Result, Time};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Validation, decode, decode_header};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;
use store::{FromValue, ToValue, Value, ValueRef};

/// The lifetime of an access token.
pub const ACCESS_LIFE: Duration = Duration::from_secs(600);
/// The lifetime of an ID token.
pub const ID_LIFE: Duration = Duration::from_secs(3600);
const ID_TYP: &str = "JWT";
/// The longest token that is verified, in bytes.
const LENGTH_MAX: usize = 8192;
/// The tolerated clock skew of the issuing instance, in seconds.
const AHEAD_MAX: i64 = 60;

/// The `typ` header of access tokens. The service that accepts them chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccessTokenTyp {
    /// `at+jwt` (RFC 9068). It prevents that another JWT is used as an access token.
    #[default]
    AtJwt,
    /// `JWT`, for libraries that accept no other type.
    Jwt,
}

impl AccessTokenTyp {
    const ALL: [AccessTokenTyp; 2] = [AccessTokenTyp::AtJwt, AccessTokenTyp::Jwt];

    /// Returns the value of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            AccessTokenTyp::AtJwt => "at+jwt",
            AccessTokenTyp::Jwt => "JWT",
        }
    }

    /// Parses the value of the header.
    pub fn parse(name: &str) -> Result<AccessTokenTyp> {
        AccessTokenTyp::ALL.into_iter().find(|typ| typ.as_str() == name).ok_or_else(|| {
            let known = AccessTokenTyp::ALL.map(AccessTokenTyp::as_str).join(" or ");
            Error::invalid("access_token_typ", format!("{name:?} is not allowed; use {known}"))
        })
    }
}

/// The column of a service. NULL is the default, also where there is no service.
impl FromValue for AccessTokenTyp {
    const KIND: &'static str = "a type of access tokens";
    fn from_value(value: ValueRef<'_>) -> Option<AccessTokenTyp> {
        match value {
            ValueRef::Null => Some(AccessTokenTyp::default()),
            ValueRef::Text(word) => AccessTokenTyp::parse(word).ok(),
            _ => None,
        }
    }
}

impl ToValue for AccessTokenTyp {
    fn to_value(&self) -> Value<'_> {
        self.as_str().into()
    }
}

/// One audience or several, encoded as in RFC 7519.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One audience, as a string.
    One(String),
    /// Several audiences, as an array.
    Many(Vec<String>),
}

impl Audience {
    /// Creates an audience from a list. A list of one becomes [`Audience::One`].
    pub fn of(mut list: Vec<String>) -> Audience {
        match (list.len(), list.pop()) {
            (1, Some(only)) => Audience::One(only),
            (_, Some(last)) => {
                list.push(last);
                Audience::Many(list)
            }
            (_, None) => Audience::Many(list),
        }
    }

    /// Returns the audiences as a list.
    pub fn into_list(self) -> Vec<String> {
        match self {
            Audience::One(only) => vec![only],
            Audience::Many(list) => list,
        }
    }
}

/// The claims of an access token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessClaims {
    /// The issuer, byte for byte as configured.
    pub iss: String,
    /// The user, or the client if it acts on its own behalf.
    pub sub: String,
    /// The audience.
    pub aud: Audience,
    /// The client that received the token.
    pub client_id: String,
    /// The expiry time, in Unix seconds.
    pub exp: i64,
    /// The time of issue, in Unix seconds.
    pub iat: i64,
    /// The token id: `<grant>.<random>`. It links the token to its grant, so that revoking the grant revokes the token.
    pub jti: String,
    /// The granted scope.
    pub scope: String,
    /// The session; `None` if the client acts on its own behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// The organization's slug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org: Option<String>,
    /// The service's slug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The customer that the user acts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    /// The client, in the claim of ID tokens; `None` if the client acts on its own behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azp: Option<String>,
    /// The time of the user's authentication, in Unix seconds; `None` if the client acts on its own behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<i64>,
    /// The level of the authentication, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acr: Option<Cow<'static, str>>,
    /// The methods of the authentication, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amr: Option<Vec<String>>,
}

/// The claims of an ID token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IdClaims {
    /// The issuer.
    pub iss: String,
    /// The user.
    pub sub: String,
    /// The client.
    pub aud: String,
    /// The expiry time, in Unix seconds.
    pub exp: i64,
    /// The time of issue, in Unix seconds.
    pub iat: i64,
    /// The time of the user's authentication, in Unix seconds.
    pub auth_time: i64,
    /// The level of the authentication, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acr: Option<Cow<'static, str>>,
    /// The methods of the authentication, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amr: Option<Vec<String>>,
    /// The client that received the token. Tokens of before do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azp: Option<String>,
    /// The session.
    pub sid: String,
    /// The `nonce` of the authorization request, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The e-mail address, with scope `email`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether the address is verified, with scope `email`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// The display name, with scope `profile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A claim that tokens of this server do not have. A token that has it is checked against it.
#[derive(Deserialize)]
struct NotBefore {
    nbf: Option<i64>,
}

/// A claim that every access token has, and no ID token.
#[derive(Deserialize)]
struct OfAccessToken {
    jti: Option<IgnoredAny>,
}

/// Signs an access token with the type that its client is registered for. Also returns the id of the key.
pub fn sign_access(
    ring: &Ring,
    claims: &AccessClaims,
    typ: AccessTokenTyp,
    now: Time,
) -> Result<(String, KeyId)> {
    let key = signer(ring, Algorithm::Es256, now)?;
    Ok((key.sign(typ.as_str(), claims)?, key.verifier.id.clone()))
}

/// Signs an ID token with the algorithm that its client is registered for.
pub fn sign_id(ring: &Ring, claims: &IdClaims, algorithm: Algorithm, now: Time) -> Result<String> {
    signer(ring, algorithm, now)?.sign(ID_TYP, claims)
}

fn signer(ring: &Ring, algorithm: Algorithm, now: Time) -> Result<&SigningKey> {
    let missing = || {
        Error::Store(store::Error::Unavailable {
            what: format!("the {} signing key is still being generated", algorithm.as_str()),
            advice: "try again in a second".to_owned(),
        })
    };
    ring.signer(algorithm, now).ok_or_else(missing)
}

/// The claims of a verified access token, and the key that signed it.
pub struct Verified<'a> {
    /// The claims.
    pub claims: AccessClaims,
    /// The id of the key.
    pub key: &'a KeyId,
}

/// Verifies the signature, issuer and expiry of an access token. `is_known` returns true if the signature with a published
/// key is known to be right. Returns `None` for an invalid token.
pub fn verify_access<'a>(
    ring: &'a Ring,
    issuer: &str,
    token: &str,
    now: Time,
    is_known: impl FnOnce(&KeyId) -> bool,
) -> Option<Verified<'a>> {
    let typs = AccessTokenTyp::ALL.map(AccessTokenTyp::as_str);
    let key = key_of(token, &typs, |kid| ring.find(kid))?;
    if !is_known(&key.id) {
        verify_signature(key, token)?;
    }
    let claims: AccessClaims = claims_of(token, now)?;
    let (now, longest) = (now.seconds(), ACCESS_LIFE.as_secs() as i64);
    let timely =
        claims.exp > now && claims.iat <= now + AHEAD_MAX && claims.exp.saturating_sub(claims.iat) <= longest;
    (claims.iss == issuer && timely).then_some(Verified { claims, key: &key.id })
}

/// Verifies an ID token that a client sends as a hint. It may have expired, and its key may be retired.
pub fn verify_id_hint(ring: &Ring, issuer: &str, token: &str, now: Time) -> Option<IdClaims> {
    let key = key_of(token, &[ID_TYP], |kid| ring.find_for_hint(kid))?;
    verify_signature(key, token)?;
    // An access token may have the same type, and all claims of an ID token.
    let OfAccessToken { jti: None } = claims_of(token, now)? else { return None };
    claims_of::<IdClaims>(token, now).filter(|claims| claims.iss == issuer)
}

/// Reads the claims of an access token that has been verified.
pub fn read_access(token: &str) -> Option<AccessClaims> {
    serde_json::from_slice(&payload(token)?).ok()
}

/// The key that a token names, if its header is right. `find` returns the key with a `kid`.
fn key_of<'a>(
    token: &str,
    typs: &[&str],
    find: impl FnOnce(&str) -> Option<&'a VerifyingKey>,
) -> Option<&'a VerifyingKey> {
    if token.len() > LENGTH_MAX {
        return None;
    }
    let header = decode_header(token).ok()?;
    let key = find(header.kid.as_deref()?)?;
    let typ_fits = header.typ.as_deref().is_some_and(|typ| typs.contains(&typ));
    (typ_fits && header.crit.is_none() && header.alg == key.algorithm.jose()).then_some(key)
}

fn verify_signature(key: &VerifyingKey, token: &str) -> Option<()> {
    let mut validation = Validation::new(key.algorithm.jose());
    // The callers check times against the injected clock, and the audience.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    decode::<IgnoredAny>(token, &key.decoding, &validation).ok().map(|_| ())
}

/// The claims of a token whose signature is right, unless it is not valid yet.
fn claims_of<T: DeserializeOwned>(token: &str, now: Time) -> Option<T> {
    let payload = payload(token)?;
    let NotBefore { nbf } = serde_json::from_slice(&payload).ok()?;
    let claims = serde_json::from_slice(&payload).ok()?;
    nbf.is_none_or(|begins| begins <= now.seconds() + AHEAD_MAX).then_some(claims)
}

fn payload(token: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()
}

/// The text of an id in a `jti`: the random part of that of a user's token, and all of that of a client's own.
pub fn jti_of(unique: &AuditId) -> &str {
    unique.as_str().get(AuditId::PREFIX.len() + 1..).unwrap_or_default()
}

/// The id of the `jti` of a client's own token.
pub(crate) fn id_of_jti(jti: &str) -> Option<AuditId> {
    AuditId::parse(&[AuditId::PREFIX, "_", jti].concat()).ok()
}
