//! Secrets are random, stored as hashes and compared in constant time. A secret that must be read again is sealed.
//!
//! A token is `<row id>.<secret>`. The id's prefix reveals only the kind of the token. The row is found by primary key,
//! then the SHA-256 hash of the secret is compared.

use crate::{Error, Result};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{constant_time, digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::backup::MarkKey;

/// A source of random bytes: the operating system in production, a seed in tests.
pub trait Random: Send + Sync {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// Letters and digits are safe in forms, headers and URLs, and a double click selects all of them.
const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Generates `length` random characters of `alphabet`, without bias.
pub fn letters<const N: usize>(alphabet: &[u8; N], length: usize, random: &dyn Random) -> String {
    // The largest multiple of the alphabet's size that fits a byte. Larger bytes are rejected to avoid bias.
    let fair = 256 - 256 % N;
    let mut text = String::with_capacity(length);
    let mut pool = [0_u8; 64];
    while text.len() < length {
        // A quarter more than are missing, to make up for rejected bytes.
        let wanted = (length - text.len()) * 5 / 4 + 2;
        let bytes = &mut pool[..wanted.min(64)];
        random.fill(bytes);
        for byte in bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < fair) {
            if text.len() < length {
                text.push(char::from(alphabet[byte % N]));
            }
        }
    }
    text
}

/// The length of a secret: 43 letters and digits are 256 bits.
pub(crate) const LENGTH: usize = 43;

/// Generates a secret of letters and digits.
pub fn secret(random: &dyn Random) -> String {
    letters(ALPHANUMERIC, LENGTH, random)
}

/// SHA-256.
pub type Hash = [u8; 32];

/// Hashes a random secret for storage. (`passwords` hashes the users' passwords.)
pub fn hash(secret: &[u8]) -> Hash {
    let digest = digest::digest(&digest::SHA256, secret);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

/// Whether `stored` is the hash of `secret`, in constant time.
pub fn matches(secret: &[u8], stored: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(&hash(secret), stored).is_ok()
}

/// Splits `<id>.<secret>`.
pub fn split_token(token: &str) -> Option<(&str, &str)> {
    token.split_once('.').filter(|(_, secret)| !secret.is_empty() && token.len() <= 200)
}

/// The `secret_key` of an installation. It encrypts secrets that must be read again, and derives secrets that must be
/// reproducible.
#[derive(Clone)]
pub struct SecretKey {
    seal: [u8; 32],
    derive: hmac::Key,
}

impl SecretKey {
    /// Creates the key from 32 random bytes.
    pub fn new(bytes: &[u8; 32]) -> SecretKey {
        let root = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let part = |label: &[u8]| -> [u8; 32] {
            let mut out = [0; 32];
            out.copy_from_slice(hmac::sign(&root, label).as_ref());
            out
        };
        SecretKey {
            seal: part(b"sarsen seal 1"),
            derive: hmac::Key::new(hmac::HMAC_SHA256, &part(b"sarsen derive 1")),
        }
    }

    /// Parses the text form: 32 bytes in base64url, as `sarsen init` writes it.
    pub fn parse(text: &str) -> Result<SecretKey> {
        let bytes =
            URL_SAFE_NO_PAD.decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let problem = "use 32 bytes in base64url (43 characters), as `sarsen init` writes them";
        bytes.map(|bytes| SecretKey::new(&bytes)).ok_or_else(|| Error::invalid("secret_key", problem))
    }

    /// Generates a key and returns its text form.
    pub fn generate(random: &dyn Random) -> String {
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn sealing_key(&self) -> Result<LessSafeKey> {
        let key =
            UnboundKey::new(&AES_256_GCM, &self.seal).map_err(|_| Error::Internal("AES key".to_owned()))?;
        Ok(LessSafeKey::new(key))
    }

    /// Encrypts `plain`, bound to `bound_to` (table, row, column). It can be decrypted only with the same `bound_to`.
    pub fn seal(&self, bound_to: &str, plain: &[u8], random: &dyn Random) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        random.fill(&mut nonce);
        let mut sealed = plain.to_vec();
        self.sealing_key()?
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(bound_to.as_bytes()),
                &mut sealed,
            )
            .map_err(|_| Error::Internal("sealing failed".to_owned()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts the output of [`SecretKey::seal`] for the same `bound_to`.
    pub fn open(&self, bound_to: &str, sealed: &[u8]) -> Result<Vec<u8>> {
        let broken = || Error::Internal(format!("{bound_to} cannot be decrypted with this secret_key"));
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN).ok_or_else(broken)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| broken())?;
        let mut text = text.to_vec();
        let key = self.sealing_key()?;
        let plain =
            key.open_in_place(nonce, Aad::from(bound_to.as_bytes()), &mut text).map_err(|_| broken())?;
        Ok(plain.to_vec())
    }

    /// Derives 32 bytes from this key and `parts`, in base64url.
    pub fn derive(&self, parts: &[&str]) -> String {
        URL_SAFE_NO_PAD.encode(self.derived(parts).as_ref())
    }

    /// The same as a number, for tables in memory that hold no names.
    pub fn derive_number(&self, parts: &[&str]) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.derived(parts).as_ref()[..8]);
        u64::from_le_bytes(number)
    }

    /// The key under which backups are marked.
    pub fn mark_key(&self) -> MarkKey {
        MarkKey::new(self.key_for("backup mark"))
    }

    /// Derives an independent key for one purpose.
    pub(crate) fn key_for(&self, purpose: &str) -> [u8; 32] {
        let mut key = [0; 32];
        key.copy_from_slice(self.derived(&[purpose]).as_ref());
        key
    }

    fn derived(&self, parts: &[&str]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.derive);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        context.sign()
    }

    /// Whether `tag` equals the output of [`SecretKey::derive`] for `parts`, in constant time.
    pub fn derives(&self, parts: &[&str], tag: &str) -> bool {
        constant_time::verify_slices_are_equal(self.derive(parts).as_bytes(), tag.as_bytes()).is_ok()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SecretKey(…)")
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Deterministic randomness for tests.
    use super::Random;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A deterministic stream of bytes, for tests only.
    pub struct Seeded(AtomicU64);

    impl Seeded {
        /// Creates the stream of this seed.
        pub fn new(seed: u64) -> Seeded {
            Seeded(AtomicU64::new(seed))
        }
    }

    impl Random for Seeded {
        fn fill(&self, bytes: &mut [u8]) {
            for chunk in bytes.chunks_mut(8) {
                // SplitMix64.
                let mut word = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
                word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                word ^= word >> 31;
                chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Seeded;
    use super::*;

    #[test]
    fn sealed_data_opens_only_with_the_same_key_and_binding() {
        let (key, other) = (SecretKey::new(&[1; 32]), SecretKey::new(&[2; 32]));
        let sealed = key.seal("keys/1", b"private", &Seeded::new(1)).expect("seals");
        assert_eq!(key.open("keys/1", &sealed).expect("opens"), b"private");
        assert!(key.open("keys/2", &sealed).is_err());
        assert!(other.open("keys/1", &sealed).is_err());
        assert!(key.open("keys/1", &sealed[..5]).is_err());
    }

    #[test]
    fn derivation_separates_its_parts() {
        let key = SecretKey::new(&[1; 32]);
        assert_ne!(key.derive(&["ab", "c"]), key.derive(&["a", "bc"]));
        assert!(key.derives(&["a"], &key.derive(&["a"])));
        assert!(!key.derives(&["a"], "x"));
    }

    #[test]
    fn random_letters_are_uniform() {
        let text = letters(b"abc", 30_000, &Seeded::new(7));
        for letter in ['a', 'b', 'c'] {
            let count = text.matches(letter).count();
            assert!((9_500..10_500).contains(&count), "{letter}: {count}");
        }
    }
}
