//! User codes: the eight letters that a user types to sign in a device (RFC 8628 section 6.1).
//!
//! User codes are not stored. A code is an encrypted pair of time and slot ([`Ff1`], with the installation's key).
//! Decrypting it gives the id of the row, so that the table needs no index on random codes. Such an index would be the
//! largest part of the cost of a device authorization; without it, inserts only append.
//!
//! Each round of [`ROUND_MS`] uses another tweak, so that the codes of one round reveal nothing about the next. A code
//! is as hard to guess as a random one.

use crate::ff1::{BlockCipher, Ff1};
use crate::ids::DeviceId;
use crate::secrets::{Random, SecretKey};
use crate::{Result, Time};
use std::sync::atomic::{AtomicU32, Ordering};
use unicode_normalization::UnicodeNormalization as _;

/// Consonants only, so that codes contain no words and no look-alikes. 20^8 codes are 34.5 bits.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const LENGTH: u32 = 8;

/// The length of a round in milliseconds. It exceeds the lifetime of a code plus the tolerated clock skew. A live code
/// therefore belongs to the current round or to an adjacent one.
const ROUND_MS: u64 = 20 * 60 * 1000;
/// The number of codes per millisecond. All codes of a round are different.
const SLOTS: u64 = 20_u64.pow(LENGTH) / ROUND_MS;
/// The size of the tweak in bytes. The tweak is the number of the round.
const TWEAK_BYTES: u32 = 8;

/// The user codes of an installation.
pub struct UserCodes {
    order: Ff1,
    tags: BlockCipher,
    /// The next slot. Each instance starts at a random slot. The database detects a collision of two instances.
    next: AtomicU32,
}

impl UserCodes {
    /// Derives the keys from the installation's secret key.
    pub fn new(key: &SecretKey, random: &dyn Random) -> Result<UserCodes> {
        Ok(UserCodes {
            order: Ff1::new(&key.key_for("user codes 1"), LETTERS.len() as u32, LENGTH, TWEAK_BYTES)?,
            tags: BlockCipher::new(&key.key_for("device ids 1"))?,
            next: AtomicU32::new(start(random)),
        })
    }

    /// Generates an id for `now`, and its code.
    pub fn generate(&self, now: Time) -> Result<(DeviceId, String)> {
        let time = now.millis().unsigned_abs();
        let slot = u64::from(self.next.fetch_add(1, Ordering::Relaxed)) % SLOTS;
        let place = self.order.encrypt((time / ROUND_MS).into(), time % ROUND_MS * SLOTS + slot)?;
        Ok((self.id(time, slot)?, text(place)))
    }

    /// Continues at a random slot after a collision. Without that, the next slots could collide with the same instance
    /// again.
    pub fn jump(&self, random: &dyn Random) {
        self.next.store(start(random), Ordering::Relaxed);
    }

    /// Decrypts a code to its candidate ids at `now`, one for each round it may belong to. The chance that more than
    /// one exists is as small as the chance of a correct guess. A malformed code gives an id that no row has.
    pub fn ids_of(&self, code: &str, now: Time) -> Result<[DeviceId; 3]> {
        let place = place(code);
        let round = now.millis().unsigned_abs() / ROUND_MS;
        let id = |round: u64| {
            let number = place.map_or(Ok(u64::MAX), |place| self.order.decrypt(round.into(), place))?;
            if number >= ROUND_MS * SLOTS {
                return Ok(DeviceId::from_uuid(0));
            }
            self.id(round * ROUND_MS + number / SLOTS, number % SLOTS)
        };
        Ok([id(round.saturating_sub(1))?, id(round)?, id(round + 1)?])
    }

    /// Creates a UUIDv7 for a time. Its random bits are an encryption of time and slot, so that this installation can
    /// recompute them and the id does not reveal the number of codes.
    fn id(&self, time: u64, slot: u64) -> Result<DeviceId> {
        let tag = self.tags.encrypt(u128::from(time) << 64 | u128::from(slot))?;
        let (high, low) = (tag >> 116, tag & (u128::MAX >> 66));
        Ok(DeviceId::from_uuid(u128::from(time) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low))
    }
}

fn start(random: &dyn Random) -> u32 {
    let mut start = [0; 4];
    random.fill(&mut start);
    u32::from_be_bytes(start)
}

fn text(place: u64) -> String {
    let (mut letters, mut rest) = ([0; LENGTH as usize], place);
    for letter in letters.iter_mut().rev() {
        *letter = LETTERS[(rest % 20) as usize];
        rest /= 20;
    }
    String::from_utf8_lossy(&letters).into_owned()
}

fn place(code: &str) -> Option<u64> {
    if code.len() != LENGTH as usize {
        return None;
    }
    code.bytes().try_fold(0, |place, letter| {
        let digit = LETTERS.iter().position(|known| *known == letter)?;
        Some(place * 20 + digit as u64)
    })
}

/// Formats a code for display: `BCDFGHJK` → `BCDF-GHJK`.
pub fn show(code: &str) -> String {
    let (left, right) = code.split_at_checked(4).unwrap_or((code, ""));
    [left, "-", right].concat()
}

/// Parses a typed code. Case, width, dashes, spaces and dots are ignored. A digit counts as the letter that it looks like.
/// Returns `None` if the text is not a code.
pub fn read(typed: &str) -> Option<String> {
    let alike = |letter: char| match letter {
        '2' => 'Z',
        '5' => 'S',
        '6' => 'G',
        '8' => 'B',
        _ => letter.to_ascii_uppercase(),
    };
    // A keyboard for Japanese types letters of full width; NFKC makes them plain.
    let letters = typed.nfkc().filter(|letter| letter.is_alphanumeric());
    let code: String = letters.map(alike).take(LENGTH as usize + 1).collect();
    place(&code).map(|_| code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::LIFE;
    use crate::secrets::testing::Seeded;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::time::Duration;

    /// A time within a round. A round number could hide mistakes.
    const START: Time = Time::from_millis(1_800_000_754_321);
    /// The tolerated clock skew between instances.
    const SKEW: Duration = Duration::from_secs(5 * 60);

    fn codes(seed: u64) -> UserCodes {
        UserCodes::new(&SecretKey::new(&[7; 32]), &Seeded::new(seed)).expect("keys")
    }

    #[test]
    fn typed_codes_are_parsed_leniently() {
        for typed in [
            "BCDF-GHJK",
            "bcdf-ghjk",
            " bcdf ghjk ",
            "bcdfghjk",
            "BCDF–GHJK",
            "b.c.d.f.g.h.j.k",
            "BCDF\u{2212}GHJK\t",
            "8CDF-6HJK",
            "ＢＣＤＦ－ＧＨＪＫ",
            "ｂｃｄｆｇｈｊｋ",
            "８ＣＤＦ　６ＨＪＫ",
        ] {
            assert_eq!(read(typed).as_deref(), Some("BCDFGHJK"), "{typed}");
        }
        for wrong in [
            "",
            "BCDF-GHJ",
            "BCDF-GHJA",
            "BCDF-GHJK-L",
            "BCDF-GHJ1",
            "ЬCDF-GHJK",
            "ＢＣＤＦＧＨＪＫＬ",
            "ＡＣＤＦＧＨＪＫ",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn codes_have_34_bits_and_expire_within_a_round() {
        assert!((LETTERS.len() as f64).log2() * f64::from(LENGTH) >= 34.0);
        assert!(Duration::from_millis(ROUND_MS) >= LIFE + SKEW);
        const { assert!(ROUND_MS * SLOTS <= 20_u64.pow(LENGTH)) }
    }

    #[test]
    fn a_live_code_decrypts_to_its_id_despite_clock_skew() {
        let (codes, elsewhere) = (codes(1), codes(2));
        for start in (0..ROUND_MS).step_by(60_000).map(|ms| START + Duration::from_millis(ms)) {
            let (id, code) = codes.generate(start).expect("a code");
            for then in [start - SKEW, start, start + LIFE, start + LIFE + SKEW] {
                assert!(elsewhere.ids_of(&code, then).expect("ids").contains(&id), "{start:?} {then:?}");
            }
            let over = start + Duration::from_millis(2 * ROUND_MS);
            assert!(!elsewhere.ids_of(&code, over).expect("ids").contains(&id));
        }
    }

    #[test]
    fn codes_of_one_millisecond_are_distinct_and_uniform() {
        let codes = codes(3);
        let generated: Vec<(DeviceId, String)> =
            (0..SLOTS).map(|_| codes.generate(START).expect("a code")).collect();
        let ids: HashSet<_> = generated.iter().map(|(id, _)| id).collect();
        let texts: HashSet<_> = generated.iter().map(|(_, code)| code.as_str()).collect();
        assert_eq!((ids.len(), texts.len()), (generated.len(), generated.len()));
        for place in 0..LENGTH as usize {
            for letter in LETTERS {
                let count = texts.iter().filter(|code| code.as_bytes()[place] == *letter).count();
                // The expected count is 1,067 with a standard deviation of 32. The bound is seven deviations.
                assert!(count.abs_diff(generated.len() / LETTERS.len()) < 224, "{count} at {place}");
            }
        }
    }

    /// The first code of this seed and key at `time`.
    fn code(key: u8, time: Time) -> String {
        let codes = UserCodes::new(&SecretKey::new(&[key; 32]), &Seeded::new(1)).expect("keys");
        codes.generate(time).expect("a code").1
    }

    #[test]
    fn codes_differ_between_installations_and_rounds() {
        let next_round = START + Duration::from_millis(ROUND_MS);
        let all = [code(7, START), code(8, START), code(7, next_round), code(7, next_round + LIFE)];
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
    }

    #[test]
    fn codes_are_stable_across_versions() {
        let (id, code) = codes(1).generate(START).expect("a code");
        assert_eq!((id.as_str(), &*code), ("device_01mcc6fmmhfyfsxmp79b55tmqx", "VXGFXDKG"));
    }

    #[test]
    fn a_jump_continues_at_a_random_slot() {
        let codes = codes(1);
        let first = codes.generate(START).expect("a code");
        codes.jump(&Seeded::new(1));
        assert_eq!(codes.generate(START).expect("a code"), first);
    }

    #[test]
    fn an_id_reveals_its_time_but_no_counter() {
        let codes = codes(1);
        let ids: Vec<String> =
            (0..100).map(|_| codes.generate(START).expect("a code").0.as_str().to_owned()).collect();
        let [this, next] = [START, START + Duration::from_millis(1)]
            .map(|moment| crate::ids::smallest_at(DeviceId::PREFIX, moment));
        assert!(ids.iter().all(|id| *id >= this && *id < next), "{this}: {ids:?}");
        assert!(!ids.is_sorted(), "the ids reveal a counter");
    }

    proptest! {
        #[test]
        fn any_text_gives_candidate_ids(code in ".{0,12}|[B-Z]{8}", ms in 0..4_102_444_800_000_i64) {
            prop_assert!(codes(1).ids_of(&code, Time::from_millis(ms)).is_ok());
        }

        #[test]
        fn each_code_decrypts_to_its_id_at_any_time(ms in 0..4_102_444_800_000_i64, seed in any::<u64>()) {
            let (codes, now) = (codes(seed), Time::from_millis(ms));
            let (id, code) = codes.generate(now).expect("a code");
            prop_assert!(codes.ids_of(&code, now).expect("ids").contains(&id));
            prop_assert_eq!(read(&show(&code)), Some(code));
        }
    }
}
