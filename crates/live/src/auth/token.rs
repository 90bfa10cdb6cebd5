//! The rules for one token: its form, its header, its signature and its claims (RFC 7515, 7519, 8725 and 9068).
//!
//! The key decides the algorithm, not the token. Headers that name or carry a key (`jku`, `x5u`, `jwk`) have no effect.
//! A token that needs an extension (`crit`, `b64`, `zip`) is refused, and so is one that names a member twice, or that is
//! bound to a key of its client (`cnf`, by DPoP or a certificate): who sends it as a bearer token may have stolen it.

use super::keys::Verifier;
use super::{Clock, system_clock};
use crate::Caller;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use store::Time;

/// The length of a token, in bytes. Servers take no longer headers.
const LENGTH_MAX: usize = 16 * 1024;
/// How far the issuer's clock may be ahead.
const AHEAD_MAX: Duration = Duration::from_secs(60);
/// The limit on the lifetime of a token, unless [`Accept::lifetime_max`] sets one.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// Header members that change what a signature or a payload means.
const EXTENSIONS: [&str; 4] = ["crit", "b64", "zip", "enc"];

/// Which kind of JWT is accepted. An issuer signs several kinds with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TokenType {
    /// An access token with the header `typ: at+jwt` (RFC 9068). No other kind can be mistaken for it.
    #[default]
    AccessToken,
    /// An access token of an issuer that writes `typ: JWT` or no `typ`. Tokens with claims of an ID token (`nonce`,
    /// `at_hash`, `c_hash`) or of a logout token (`events`) are refused.
    Jwt,
    /// An ID token that a product sends as its bearer token. Tokens with claims of a logout token are refused.
    IdToken,
}

impl TokenType {
    fn fits(self, typ: Option<&str>) -> bool {
        let is = |name: &str| typ.is_some_and(|typ| typ.eq_ignore_ascii_case(name));
        match self {
            TokenType::AccessToken => is("at+jwt") || is("application/at+jwt"),
            TokenType::Jwt | TokenType::IdToken => typ.is_none() || is("JWT"),
        }
    }

    /// The claims that only other kinds of tokens have.
    fn foreign_claims(self) -> &'static [&'static str] {
        match self {
            TokenType::AccessToken | TokenType::IdToken => &["events"],
            TokenType::Jwt => &["events", "nonce", "at_hash", "c_hash"],
        }
    }
}

/// Which tokens of an issuer a back end accepts, by which clock, and whom it trusts.
#[derive(Clone)]
pub struct Accept {
    audiences: Vec<String>,
    token_type: TokenType,
    lifetime_max: Duration,
    pub(super) authorities: Option<Vec<u8>>,
    pub(super) clock: Clock,
}

impl Accept {
    /// Access tokens (`typ: at+jwt`) whose `aud` is or contains `audience`, byte for byte.
    pub fn audience(audience: impl Into<String>) -> Accept {
        Accept {
            audiences: vec![audience.into()],
            token_type: TokenType::default(),
            lifetime_max: LIFETIME_MAX,
            authorities: None,
            clock: system_clock(),
        }
    }

    /// A further audience. A token needs one of them.
    pub fn or_audience(mut self, audience: impl Into<String>) -> Accept {
        self.audiences.push(audience.into());
        self
    }

    /// Another kind of token.
    pub fn token_type(mut self, token_type: TokenType) -> Accept {
        self.token_type = token_type;
        self
    }

    /// The limit on how far in the future a token may expire. The default is 24 hours.
    pub fn lifetime_max(mut self, lifetime: Duration) -> Accept {
        self.lifetime_max = lifetime;
        self
    }

    /// The certificate authorities (PEM) that the issuer's certificates come from, instead of the public ones.
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Accept {
        self.authorities = Some(pem.into());
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Accept {
        self.clock = clock;
        self
    }
}

/// Why a token is refused. The text is safe to send to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) &'static str);

/// The claims of a verified token.
pub(super) struct Verified {
    /// `sub`.
    pub(super) subject: Option<String>,
    /// All claims.
    pub(super) claims: Map<String, Value>,
    /// When the token expires.
    pub(super) until: Time,
}

impl Verified {
    /// The caller that the claims name.
    pub(super) fn into_caller(self) -> Caller {
        Caller { subject: self.subject, claims: Arc::new(self.claims), expires: Some(self.until) }
    }
}

/// A token whose form and header are valid, before its signature is verified.
pub(super) struct Token<'a> {
    /// The id of the key.
    pub(super) kid: String,
    algorithm: String,
    /// Header and payload, as they were signed.
    signed: &'a str,
    payload: &'a str,
    signature: &'a str,
}

impl<'a> Token<'a> {
    /// Reads the form and the header.
    pub(super) fn parse(text: &'a str, accept: &Accept) -> Result<Token<'a>, Refused> {
        if text.len() > LENGTH_MAX {
            return Err(Refused("The token is too long."));
        }
        let malformed = Refused("The token is not a signed JWT.");
        let (signed, signature) = text.rsplit_once('.').ok_or(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(malformed)?;
        if signature.is_empty() || payload.contains('.') {
            return Err(malformed);
        }
        let header = object(header).ok_or(malformed)?;
        if EXTENSIONS.iter().any(|name| header.contains_key(*name)) {
            return Err(Refused("The token uses an extension that is not supported."));
        }
        let text_of = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(malformed),
        };
        if !accept.token_type.fits(text_of("typ")?) {
            return Err(Refused(
                "The token has another type (`typ` in its header) than this server accepts.",
            ));
        }
        let kid = text_of("kid")?.ok_or(Refused("The token names no key (kid)."))?.to_owned();
        let algorithm = text_of("alg")?.ok_or(malformed)?.to_owned();
        Ok(Token { kid, algorithm, signed, payload, signature })
    }

    /// When it says to have been made. Anybody can write that.
    pub(super) fn issued_unverified(&self) -> Option<Time> {
        from_seconds(object(self.payload)?.get("iat")?.as_i64()?)
    }

    /// Verifies the signature and the claims.
    pub(super) fn verify(
        &self,
        verifier: &Verifier,
        issuer: &str,
        accept: &Accept,
        now: Time,
    ) -> Result<Verified, Refused> {
        if !verifier.verifies(&self.algorithm, self.signed, self.signature) {
            return Err(Refused("The signature of the token is not valid."));
        }
        let claims = object(self.payload).ok_or(Refused("The claims of the token are not valid."))?;
        if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
            return Err(Refused(
                "The token is of another issuer (`iss`) than the one that this server accepts.",
            ));
        }
        if !has_audience(claims.get("aud"), &accept.audiences) {
            return Err(Refused("The token is for another audience (`aud`) than this server."));
        }
        if accept.token_type.foreign_claims().iter().any(|name| claims.contains_key(*name)) {
            return Err(Refused(
                "The token is of another kind: an ID token or a logout token, for example, has claims that this server refuses.",
            ));
        }
        if claims.contains_key("cnf") {
            return Err(Refused("The token is bound to a key of its client, so it is no bearer token."));
        }
        let until = times(&claims, accept.lifetime_max, now)?;
        let subject = match claims.get("sub") {
            None => None,
            // U+0000 begins the names of callers without a token.
            Some(Value::String(subject)) if !subject.is_empty() && !subject.contains('\0') => {
                Some(subject.clone())
            }
            Some(_) => return Err(Refused("The subject of the token is not valid.")),
        };
        Ok(Verified { subject, claims, until })
    }
}

fn has_audience(claim: Option<&Value>, accepted: &[String]) -> bool {
    let is_accepted =
        |audience: &Value| audience.as_str().is_some_and(|text| accepted.iter().any(|one| one == text));
    match claim {
        Some(Value::Array(audiences)) => audiences.iter().any(is_accepted),
        Some(audience) => is_accepted(audience),
        None => false,
    }
}

/// Checks `exp`, `nbf` and `iat`, and returns when the token expires.
fn times(claims: &Map<String, Value>, lifetime_max: Duration, now: Time) -> Result<Time, Refused> {
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value
            .as_i64()
            .and_then(from_seconds)
            .map(Some)
            .ok_or(Refused("A time of the token is not a whole number of seconds since 1970.")),
    };
    let until = time("exp")?.ok_or(Refused("The token does not expire."))?;
    if until <= now {
        return Err(Refused("The token has expired."));
    }
    if until.since(now) > lifetime_max + AHEAD_MAX {
        return Err(Refused("The token expires too far in the future."));
    }
    for name in ["nbf", "iat"] {
        if time(name)?.is_some_and(|begins| begins > now + AHEAD_MAX) {
            return Err(Refused("The token is not valid yet."));
        }
    }
    Ok(until)
}

fn from_seconds(seconds: i64) -> Option<Time> {
    let is_time = seconds >= 0;
    seconds.checked_mul(1000).filter(|_| is_time).map(Time::from_millis)
}

/// The JSON object in a part of a token.
fn object(part: &str) -> Option<Map<String, Value>> {
    // The decoder accepts one encoding of each text: no padding, no white space, no bits beyond the last byte.
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice::<Members>(&bytes).ok().map(|members| members.0)
}

/// An object that names no member twice. Readers differ in which of two they take.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Members;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = access.next_entry::<String, Value>()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member is named twice"));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Once)
    }
}
