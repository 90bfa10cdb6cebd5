//! Tokens: access tokens as signed JWTs (RFC 9068), ID tokens (OpenID Connect Core 2).
//!
//! The kinds cannot stand for each other: the `typ` of the header is checked, and so is the algorithm,
//! which belongs to the key and not to the token. Signing happens after the commit; verifying once a
//! token (see [`crate::Lookups`]).

use crate::keys::{Algorithm, Ring};
use crate::{Error, Result, Time};
use jsonwebtoken::{Validation, decode, decode_header};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long an access token lives.
pub const ACCESS_LIFE: Duration = Duration::from_secs(600);
/// How long an ID token lives.
pub const ID_LIFE: Duration = Duration::from_secs(3600);
const ACCESS_TYP: &str = "at+jwt";
const ID_TYP: &str = "JWT";
/// How far another clock may be ahead, in seconds.
const AHEAD_MAX: i64 = 60;

/// One audience or several, as RFC 7519 writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// The usual case.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Audience {
    /// The shorter form where there is one.
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

    /// Each of them.
    pub fn into_list(self) -> Vec<String> {
        match self {
            Audience::One(only) => vec![only],
            Audience::Many(list) => list,
        }
    }
}

/// The claims of an access token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccessClaims {
    /// The issuer, byte for byte as configured.
    pub iss: String,
    /// The user, or the client when it acts for itself.
    pub sub: String,
    /// Who it is for.
    pub aud: Audience,
    /// Who got it.
    pub client_id: String,
    /// When it ends, in Unix seconds.
    pub exp: i64,
    /// When it was made, in Unix seconds.
    pub iat: i64,
    /// Its id: `<grant>.<random>`, so that revoking the grant reaches it.
    pub jti: String,
    /// What it allows.
    pub scope: String,
    /// The session; none when the client acts for itself.
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
    /// When it ends, in Unix seconds.
    pub exp: i64,
    /// When it was made, in Unix seconds.
    pub iat: i64,
    /// When the user proved who he is, in Unix seconds.
    pub auth_time: i64,
    /// The session.
    pub sid: String,
    /// What the client sent, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// With scope `email`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// With scope `email`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// With scope `profile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Claims as they come in. Ours have no beginning (`nbf`); a token that says one is judged by it all the same.
#[derive(Deserialize)]
struct Received<T> {
    #[serde(flatten)]
    claims: T,
    nbf: Option<i64>,
}

/// Signs an access token.
pub fn sign_access(ring: &Ring, claims: &AccessClaims, now: Time) -> Result<String> {
    signer(ring, Algorithm::Es256, now)?.sign(ACCESS_TYP, claims)
}

/// Signs an ID token as the client registered it (RS256 unless it asked for ES256).
pub fn sign_id(ring: &Ring, claims: &IdClaims, algorithm: &str, now: Time) -> Result<String> {
    let algorithm = if algorithm == "ES256" { Algorithm::Es256 } else { Algorithm::Rs256 };
    signer(ring, algorithm, now)?.sign(ID_TYP, claims)
}

fn signer(ring: &Ring, algorithm: Algorithm, now: Time) -> Result<&crate::keys::SigningKey> {
    let missing = || {
        Error::Store(store::Error::Unavailable {
            what: format!("the {} signing key is still being made", algorithm.as_str()),
            advice: "try again in a second".to_owned(),
        })
    };
    ring.signer(algorithm, now).ok_or_else(missing)
}

/// Verifies an access token: signature by one of our keys, our issuer, not ended. `None` for anything else.
pub fn verify_access(ring: &Ring, issuer: &str, token: &str, now: Time) -> Option<AccessClaims> {
    let claims: AccessClaims = verify(ring, token, ACCESS_TYP, now)?;
    let (now, longest) = (now.seconds(), ACCESS_LIFE.as_secs() as i64);
    let timely =
        claims.exp > now && claims.iat <= now + AHEAD_MAX && claims.exp.saturating_sub(claims.iat) <= longest;
    (claims.iss == issuer && timely).then_some(claims)
}

/// Verifies an ID token that is handed back as a hint; it may have ended.
pub fn verify_id_hint(ring: &Ring, issuer: &str, token: &str, now: Time) -> Option<IdClaims> {
    verify::<IdClaims>(ring, token, ID_TYP, now).filter(|claims| claims.iss == issuer)
}

fn verify<T: serde::de::DeserializeOwned>(ring: &Ring, token: &str, typ: &str, now: Time) -> Option<T> {
    if token.len() > 8192 {
        return None;
    }
    let header = decode_header(token).ok()?;
    let key = ring.find(header.kid.as_deref()?)?;
    let plain =
        header.typ.as_deref() == Some(typ) && header.crit.is_none() && header.alg == key.algorithm.jose();
    if !plain {
        return None;
    }
    let mut validation = Validation::new(key.algorithm.jose());
    // Time and audience are judged by our own clock and router.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let Received { claims, nbf } = decode(token, &key.verifier, &validation).ok()?.claims;
    nbf.is_none_or(|begins| begins <= now.seconds() + AHEAD_MAX).then_some(claims)
}
