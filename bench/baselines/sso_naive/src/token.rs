//! Access tokens (RS256, 24 hours) and random values.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use aws_lc_rs::{digest, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

pub const LIFE_S: i64 = 24 * 3600;

#[derive(Serialize, Deserialize)]
pub struct Claims {
    pub sub: String,
    pub email: String,
    pub org: String,
    pub service: String,
    pub iat: i64,
    pub exp: i64,
}

pub struct Keys {
    signing: EncodingKey,
    verifying: DecodingKey,
    validation: Validation,
}

impl Keys {
    pub fn generate() -> Result<Keys, Box<dyn Error>> {
        let pair = KeyPair::generate(KeySize::Rsa2048)?;
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair)?;
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(der.as_ref())
        );
        Ok(Keys {
            signing: EncodingKey::from_rsa_pem(pem.as_bytes())?,
            verifying: DecodingKey::from_rsa_der(pair.public_key().as_ref()),
            validation: Validation::new(Algorithm::RS256),
        })
    }

    pub fn sign(&self, sub: &str, email: &str, org: &str, service: &str) -> Result<String, Box<dyn Error>> {
        let iat = now_s();
        let claims = Claims {
            sub: sub.into(),
            email: email.into(),
            org: org.into(),
            service: service.into(),
            iat,
            exp: iat + LIFE_S,
        };
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.signing)?)
    }

    pub fn verify(&self, token: &str) -> Option<Claims> {
        Some(jsonwebtoken::decode::<Claims>(token, &self.verifying, &self.validation).ok()?.claims)
    }
}

#[allow(clippy::disallowed_methods, reason = "a baseline keeps its author's ways, not the project's rules")]
pub fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// The hash of a token, for its session row.
pub fn hash(token: &str) -> String {
    hex(digest::digest(&digest::SHA256, token.as_bytes()).as_ref())
}

pub fn random_uuid() -> Result<String, aws_lc_rs::error::Unspecified> {
    let mut bytes = [0_u8; 16];
    rand::fill(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    Ok(format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]))
}

/// Eight characters of an alphabet of 32, `XXXX-XXXX`.
pub fn random_user_code() -> Result<String, aws_lc_rs::error::Unspecified> {
    const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    let mut bytes = [0_u8; 8];
    rand::fill(&mut bytes)?;
    let mut code: String = bytes.iter().map(|byte| LETTERS[usize::from(byte % 32)] as char).collect();
    code.insert(4, '-');
    Ok(code)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
