//! Users' passwords: hashed by Argon2id with OWASP's parameters. When the parameters change, the next sign-in of a user
//! upgrades their hash.
//!
//! Hashing takes tens of milliseconds and 19 MiB. It runs on the `hash` lane, never in a command.
//! Source of the parameters: OWASP Password Storage Cheat Sheet (m = 19 MiB, t = 2, p = 1).

mod common;

pub use common::fingerprints;

use crate::ids::UserId;
use crate::organizations::Organization;
use crate::secrets::Random;
use crate::users::User;
use crate::{Error, Result, Time};
use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use store::{Snapshot, Tx, args, sql, statements, upsert};
use unicode_normalization::UnicodeNormalization as _;

/// The fewest characters of a password.
const LENGTH_MIN: usize = 8;
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The most bytes of a password as it was sent. Normalization divides the length by less than four, so that a longer one
/// exceeds 512 bytes.
const RAW_LENGTH_MAX: usize = 4 * 512;

/// A hash that no password matches. It is verified for accounts that do not exist, so that the duration reveals
/// nothing.
pub const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c2Fyc2VuIG5vYm9keSAhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

statements! {
    static PUT = upsert("passwords", &["user_id"], &["hash", "changed_at"]);
    static GET = sql("SELECT hash FROM passwords WHERE user_id = ?1");
    static CHANGED_AT = sql("SELECT changed_at FROM passwords WHERE user_id = ?1");
    static UPGRADE = sql("UPDATE passwords SET hash = ?3 WHERE user_id = ?1 AND hash = ?2");
    static DELETE = sql("DELETE FROM passwords WHERE user_id = ?1");
}

const ALGORITHM: Algorithm = Algorithm::Argon2id;
const VERSION: Version = Version::V0x13;

/// The memory in which a thread hashes one password after the other. The first allocates it, 19 MiB; to let the system map
/// and clear so many pages anew for each would take a good part of the time of a hash.
#[derive(Default)]
pub struct Memory(Vec<Block>);

impl Memory {
    /// Whether nothing was hashed in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn blocks(&mut self, params: &Params) -> &mut [Block] {
        self.0.resize(params.block_count(), Block::new());
        &mut self.0
    }
}

impl std::fmt::Debug for Memory {
    /// Without its content, from which a password could be guessed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("blocks", &self.0.len()).finish_non_exhaustive()
    }
}

/// Validates a new password: 8 to 128 characters, at most 512 bytes, no NUL, none that is guessed first. There are no
/// composition rules, as NIST SP 800-63B recommends. `own_names` are the account's: its e-mail address, the user's name,
/// the organization's name and slug.
pub fn check(password: &str, own_names: &[&str]) -> Result<()> {
    let too_long =
        || Error::invalid("password", "use at most 128 characters (512 bytes)").because("too_long", &[]);
    if password.len() > RAW_LENGTH_MAX {
        return Err(too_long());
    }
    let password = normal(password);
    let characters = password.chars().count();
    if characters < LENGTH_MIN {
        let problem = "use at least 8 characters; 15 or more are recommended";
        return Err(Error::invalid("password", problem).because("too_short", &[]));
    }
    if characters > 128 || password.len() > 512 {
        return Err(too_long());
    }
    if password.contains('\0') {
        let problem = "a password cannot contain NUL; remove it";
        return Err(Error::invalid("password", problem).because("nul", &[]));
    }
    if common::contains(&password) || is_one_character(&password) {
        let problem =
            "this is one of the passwords that attackers try first; use another, such as several words";
        return Err(Error::invalid("password", problem).because("common", &[]));
    }
    if is_own_name(&password, own_names) {
        let problem =
            "the password is a name or address of the account, which attackers try first; use another";
        return Err(Error::invalid("password", problem).because("own_name", &[]));
    }
    Ok(())
}

/// Validates a new password of an account that exists.
pub fn check_for(password: &str, user: &User, organization: &Organization) -> Result<()> {
    check(password, &[&user.email, &user.profile.name, &organization.name, &organization.slug])
}

fn is_one_character(password: &str) -> bool {
    let mut characters = password.chars();
    let first = characters.next();
    characters.all(|character| Some(character) == first)
}

/// Whether a password is one of the account's names, a part of one, or one of these with digits and signs around it.
fn is_own_name(password: &str, own_names: &[&str]) -> bool {
    let letters = |text: &str| text.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>();
    let password = letters(&password.to_lowercase());
    let core = password.trim_matches(char::is_numeric);
    let names = own_names.iter().chain(&["sarsen"]).map(|name| normal(name).to_lowercase());
    names.into_iter().any(|name| {
        let parts = name.split(|letter: char| !letter.is_alphanumeric());
        let mut words = parts.chain(name.split('@')).map(letters).chain([letters(&name)]);
        // Words of one or two letters are in many passwords.
        words.any(|word| {
            word.chars().count() > 2
                && (word == password || (!core.is_empty() && word.trim_matches(char::is_numeric) == core))
        })
    })
}

/// Whether a submitted password is within the length limits. A longer one cannot match, so it is not hashed.
pub fn is_plausible(password: &str) -> bool {
    if password.len() > RAW_LENGTH_MAX {
        return false;
    }
    let password = normal(password);
    password.len() <= 512 && password.chars().count() <= 128
}

/// Normalises a password before hashing, because input methods encode the same letter differently (NIST SP 800-63B
/// section 5.1.1.2).
fn normal(password: &str) -> String {
    password.nfc().collect()
}

/// Hashes a new password. Slow by design.
pub fn hash(password: &str, random: &dyn Random, memory: &mut Memory) -> Result<String> {
    let mut salt = [0_u8; 16];
    random.fill(&mut salt);
    let hashed = hashed(password, &salt, memory);
    hashed.map(|hash| hash.to_string()).map_err(|error| Error::Internal(format!("argon2: {error}")))
}

fn hashed(password: &str, salt: &[u8], memory: &mut Memory) -> argon2::password_hash::Result<PasswordHash> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None)?;
    let parameters = ParamsString::try_from(&params)?;
    let mut hash = [0; Params::DEFAULT_OUTPUT_LEN];
    let password = normal(password);
    let blocks = memory.blocks(&params);
    Argon2::new(ALGORITHM, VERSION, params).hash_password_into_with_memory(
        password.as_bytes(),
        salt,
        &mut hash,
        blocks,
    )?;
    Ok(PasswordHash {
        algorithm: ALGORITHM.ident(),
        version: Some(VERSION.into()),
        params: parameters,
        salt: Some(Salt::new(salt)?),
        hash: Some(Output::new(&hash)?),
    })
}

/// The result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The password does not match.
    Wrong,
    /// The password matches, and its hash has the current parameters.
    Right,
    /// The password matches, but its hash has other parameters. The caller hashes it again.
    Outdated,
}

/// Compares a password with a stored hash. Slow by design.
pub fn verify(password: &str, stored: &str, memory: &mut Memory) -> Result<Verdict> {
    let stored = PasswordHash::new(stored)
        .map_err(|error| Error::Internal(format!("stored password hash: {error}")))?;
    if !matches(password, &stored, memory).unwrap_or(false) {
        return Ok(Verdict::Wrong);
    }
    let number = |name: &str| stored.params.get_decimal(name);
    let current = stored.algorithm.as_str() == "argon2id"
        && number("m") == Some(MEMORY_KIB)
        && number("t") == Some(PASSES)
        && number("p") == Some(LANES);
    Ok(if current { Verdict::Right } else { Verdict::Outdated })
}

/// Whether a password has this hash, by the hash's own parameters.
fn matches(
    password: &str,
    stored: &PasswordHash,
    memory: &mut Memory,
) -> argon2::password_hash::Result<bool> {
    let (Some(salt), Some(expected)) = (&stored.salt, &stored.hash) else { return Ok(false) };
    let algorithm = Algorithm::try_from(stored.algorithm.as_str())?;
    let version = stored.version.map(Version::try_from).transpose()?.unwrap_or_default();
    let params = Params::try_from(stored)?;
    let mut hash = vec![0; expected.len()];
    let password = normal(password);
    let blocks = memory.blocks(&params);
    Argon2::new(algorithm, version, params).hash_password_into_with_memory(
        password.as_bytes(),
        salt,
        &mut hash,
        blocks,
    )?;
    // Outputs are compared in constant time.
    Ok(Output::new(&hash)? == *expected)
}

/// Stores the hash of a user's password.
pub fn put(tx: &mut Tx<'_>, user: &UserId, hash: &str, now: Time) -> Result<()> {
    tx.exec(&PUT, args![user, hash, now])?;
    Ok(())
}

/// Replaces the hash `old` of a password by the hash `new` of the same password. Has no effect if the user has another
/// password by now.
pub fn upgrade(tx: &mut Tx<'_>, user: &UserId, old: &str, new: &str) -> Result<()> {
    tx.exec(&UPGRADE, args![user, old, new])?;
    Ok(())
}

/// Deletes a user's password.
pub(crate) fn delete(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    tx.exec(&DELETE, args![user])?;
    Ok(())
}

/// Gets the time at which a user's password was set; `None` if they have no password.
pub fn changed_at(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<Option<Time>> {
    Ok(snapshot.one(&CHANGED_AT, args![user], |row| row.get(0))?)
}

/// Gets the stored hash of a user's password; `None` if they have no password.
pub fn get(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<Option<String>> {
    Ok(snapshot.one(&GET, args![user], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::testing::Seeded;
    use argon2::PasswordHasher;

    #[test]
    fn a_hash_verifies_and_old_parameters_are_detected() {
        let memory = &mut Memory::default();
        let random = Seeded::new(1);
        let stored = hash("correct horse", &random, memory).expect("hashes");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_eq!(verify("correct horse", &stored, memory).expect("verifies"), Verdict::Right);
        assert_eq!(verify("wrong horse", &stored, memory).expect("verifies"), Verdict::Wrong);
        let accented = hash("r\u{e9}sum\u{e9} 2027", &random, memory).expect("hashes");
        assert_eq!(verify("re\u{301}sume\u{301} 2027", &accented, memory).expect("verifies"), Verdict::Right);
        assert_eq!(verify("anything", DUMMY_HASH, memory).expect("a valid hash"), Verdict::Wrong);
        let weak =
            Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(64, 1, 1, None).expect("valid"));
        let weak = weak.hash_password_with_salt(b"old", b"saltsaltsalt").expect("hashes").to_string();
        assert_eq!(verify("old", &weak, memory).expect("verifies"), Verdict::Outdated);
    }

    #[test]
    fn new_passwords_are_validated() {
        let check = |password: &str| check(password, &[]);
        assert!(check("12 stones").is_ok());
        assert!(check(&"äb".repeat(64)).is_ok());
        for wrong in ["1234567", &"ab".repeat(65), "nul\0inside", &"𝒳y".repeat(65)] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn passwords_that_are_guessed_first_are_refused() {
        let own = ["ada.lovelace@acme.test", "Ada Lovelace", "Acme Industries", "acme-industries"];
        for common in ["password", "PASSWORD1", "12345678", "        ", "aaaaaaaa", "ääääääää"] {
            assert!(check(common, &own).is_err(), "{common:?}");
        }
        for own_name in [
            "ada.lovelace@acme.test",
            "AdaLovelace",
            "lovelace",
            "Lovelace1815",
            "1815-lovelace!",
            "acmeindustries",
            "Industries2027!",
            "sarsen2027",
        ] {
            assert!(check(own_name, &own).is_err(), "{own_name:?}");
        }
        for good in ["lovelace likes engines", "correct horse battery", "ad48-ada-77-acme", "2027-10-10"] {
            assert!(check(good, &own).is_ok(), "{good:?}");
        }
        assert!(check("12 stones", &["", "a", "12"]).is_ok());
    }
}
