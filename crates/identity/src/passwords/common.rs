//! The list of common passwords, which attackers try first: NIST SP 800-63B section 5.1.1.2 wants them refused.
//!
//! `common.bin` holds the first four bytes of the SHA-256 of each, sorted. One password in 370,000 that is not on the list
//! is taken for one of it. docs/design/0034-counters-and-common-passwords.md has the source of the list, and how to make
//! the file.

use crate::secrets;

/// The list.
static FINGERPRINTS: &[u8] = include_bytes!("common.bin");

/// The length of a fingerprint.
const LENGTH: usize = 4;

/// Whether a password is on the list. Letters may be large or small.
pub(super) fn contains(password: &str) -> bool {
    let wanted = fingerprint(password);
    let count = FINGERPRINTS.len() / LENGTH;
    let at = |place: usize| FINGERPRINTS.get(place * LENGTH..(place + 1) * LENGTH).unwrap_or_default();
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle) < wanted.as_slice() { low = middle + 1 } else { high = middle }
    }
    low < count && at(low) == wanted
}

fn fingerprint(password: &str) -> [u8; LENGTH] {
    let hash = secrets::hash(password.to_lowercase().as_bytes());
    let mut fingerprint = [0; LENGTH];
    fingerprint.copy_from_slice(&hash[..LENGTH]);
    fingerprint
}

/// Makes the content of `common.bin` from a text with one password in each line. Passwords that are too short to be
/// accepted are left out.
pub fn fingerprints(list: &str) -> Vec<u8> {
    let long = list.lines().map(str::trim).filter(|word| word.chars().count() >= super::LENGTH_MIN);
    let mut all: Vec<_> = long.map(fingerprint).collect();
    all.sort_unstable();
    all.dedup();
    all.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_long_and_sorted() {
        let fingerprints: Vec<&[u8]> = FINGERPRINTS.chunks(LENGTH).collect();
        assert!(fingerprints.len() >= 10_000, "{}", fingerprints.len());
        assert!(fingerprints.is_sorted_by(|one, next| one < next));
        assert_eq!(FINGERPRINTS.len() % LENGTH, 0);
    }

    #[test]
    fn common_passwords_are_on_it_and_others_are_not() {
        for common in ["password", "PassWord", "12345678", "iloveyou", "qwertyuiop", "football", "password1"]
        {
            assert!(contains(common), "{common}");
        }
        for other in ["correct horse battery", "aT9!kqz0vX", "", "résumé 2027"] {
            assert!(!contains(other), "{other}");
        }
    }

    #[test]
    fn fingerprints_are_made_from_a_text() {
        let made = fingerprints("short\nlong enough\nLONG ENOUGH \n\nanother one\n");
        assert_eq!(made.len(), 2 * LENGTH);
        assert!(made[..LENGTH] < made[LENGTH..]);
    }
}
