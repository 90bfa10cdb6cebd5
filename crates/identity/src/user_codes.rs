//! User codes: the eight letters that a person types for a device (RFC 8628 section 6.1).
//!
//! A code is not looked for in an index, which would be as scattered as the codes are and the largest part of what a
//! device authorization costs. It is the place of a time and a slot in an order that only this installation's key tells
//! ([`Ff1`]), and they lead to the row's id. Every round of [`ROUND_MS`] has an order of its own: who has collected the
//! codes of one knows nothing of the next. So codes are as hard to guess as if each was drawn, and rows are only ever
//! added at the end.

use crate::ff1::{BlockCipher, Ff1};
use crate::ids::DeviceId;
use crate::secrets::{Random, SecretKey};
use crate::{Result, Time};
use std::sync::atomic::{AtomicU32, Ordering};

/// Consonants only: no words, no look-alikes; 20^8 is 34.5 bits.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const LENGTH: u32 = 8;

/// How long codes have the same order, in milliseconds. Longer than any lives, and some more for clocks that differ: a
/// code that lives is of this round or of one beside it.
const ROUND_MS: u64 = 20 * 60 * 1000;
/// Codes that can be made in a millisecond, so that a round's are all different.
const SLOTS: u64 = 20_u64.pow(LENGTH) / ROUND_MS;
/// Bytes of the tweak, which is the round.
const TWEAK_BYTES: u32 = 8;

/// The user codes of an installation.
pub struct UserCodes {
    order: Ff1,
    tags: BlockCipher,
    /// The next slot. Instances begin anywhere: two that meet in the same millisecond are told by the database.
    next: AtomicU32,
}

impl UserCodes {
    /// With keys that are made of the installation's.
    pub fn new(key: &SecretKey, random: &dyn Random) -> Result<UserCodes> {
        Ok(UserCodes {
            order: Ff1::new(&key.key_for("user codes 1"), LETTERS.len() as u32, LENGTH, TWEAK_BYTES)?,
            tags: BlockCipher::new(&key.key_for("device ids 1"))?,
            next: AtomicU32::new(start(random)),
        })
    }

    /// A new id, of this moment, and the code that leads to it.
    pub fn draw(&self, now: Time) -> Result<(DeviceId, String)> {
        let time = now.millis().unsigned_abs();
        let slot = u64::from(self.next.fetch_add(1, Ordering::Relaxed)) % SLOTS;
        let place = self.order.encrypt((time / ROUND_MS).into(), time % ROUND_MS * SLOTS + slot)?;
        Ok((self.id(time, slot)?, text(place)))
    }

    /// Goes on at another slot, after another instance has drawn what was drawn here: it may be about to draw what is next,
    /// too.
    pub fn jump(&self, random: &dyn Random) {
        self.next.store(start(random), Ordering::Relaxed);
    }

    /// The ids to which a code leads, if it lives at `now`: one of each round that may be meant. At most one is there,
    /// but for a chance as small as that of a guess. What is no code leads to one that nobody has.
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

    /// A UUIDv7 of a time. What is at random there elsewhere is made of the time and the slot, so that it is found
    /// again, by nobody else, and tells nobody how many there are.
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

/// `BCDFGHJK` → `BCDF-GHJK`.
pub fn show(code: &str) -> String {
    let (left, right) = code.split_at_checked(4).unwrap_or((code, ""));
    [left, "-", right].concat()
}

/// Reads what a person typed: case, dashes, spaces and dots do not matter, and digits count as the letters
/// that they look like. None when it cannot be a code.
pub fn read(typed: &str) -> Option<String> {
    let alike = |letter: char| match letter {
        '2' => 'Z',
        '5' => 'S',
        '6' => 'G',
        '8' => 'B',
        _ => letter.to_ascii_uppercase(),
    };
    let code: String = typed.chars().filter(|letter| letter.is_alphanumeric()).map(alike).collect();
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

    /// Somewhere in a round: what is a multiple of much would hide mistakes.
    const START: Time = Time::from_millis(1_800_000_754_321);
    /// By how much clocks may differ for codes to be found. Other lives are shorter than theirs.
    const SKEW: Duration = Duration::from_secs(5 * 60);

    fn codes(seed: u64) -> UserCodes {
        UserCodes::new(&SecretKey::new(&[7; 32]), &Seeded::new(seed)).expect("keys")
    }

    #[test]
    fn what_people_type_is_understood() {
        for typed in [
            "BCDF-GHJK",
            "bcdf-ghjk",
            " bcdf ghjk ",
            "bcdfghjk",
            "BCDF–GHJK",
            "b.c.d.f.g.h.j.k",
            "BCDF\u{2212}GHJK\t",
            "8CDF-6HJK",
        ] {
            assert_eq!(read(typed).as_deref(), Some("BCDFGHJK"), "{typed}");
        }
        for wrong in ["", "BCDF-GHJ", "BCDF-GHJA", "BCDF-GHJK-L", "BCDF-GHJ1", "ЬCDF-GHJK"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn codes_have_at_least_34_bits_and_a_round_outlasts_them() {
        assert!((LETTERS.len() as f64).log2() * f64::from(LENGTH) >= 34.0);
        assert!(Duration::from_millis(ROUND_MS) >= LIFE + SKEW);
        const { assert!(ROUND_MS * SLOTS <= 20_u64.pow(LENGTH)) }
    }

    #[test]
    fn a_code_leads_to_its_id_as_long_as_it_may_live_also_where_the_clock_differs() {
        let (codes, elsewhere) = (codes(1), codes(2));
        for start in (0..ROUND_MS).step_by(60_000).map(|ms| START + Duration::from_millis(ms)) {
            let (id, code) = codes.draw(start).expect("a code");
            for then in [start - SKEW, start, start + LIFE, start + LIFE + SKEW] {
                assert!(elsewhere.ids_of(&code, then).expect("ids").contains(&id), "{start:?} {then:?}");
            }
            let over = start + Duration::from_millis(2 * ROUND_MS);
            assert!(!elsewhere.ids_of(&code, over).expect("ids").contains(&id));
        }
    }

    #[test]
    fn many_codes_of_a_moment_are_all_different_and_look_as_if_they_were_drawn() {
        let codes = codes(3);
        let drawn: Vec<(DeviceId, String)> = (0..SLOTS).map(|_| codes.draw(START).expect("a code")).collect();
        let ids: HashSet<_> = drawn.iter().map(|(id, _)| id).collect();
        let texts: HashSet<_> = drawn.iter().map(|(_, code)| code.as_str()).collect();
        assert_eq!((ids.len(), texts.len()), (drawn.len(), drawn.len()));
        for place in 0..LENGTH as usize {
            for letter in LETTERS {
                let count = texts.iter().filter(|code| code.as_bytes()[place] == *letter).count();
                // 1,067 are expected, give or take 32; seven times that is never seen by chance.
                assert!(count.abs_diff(drawn.len() / LETTERS.len()) < 224, "{count} at {place}");
            }
        }
    }

    /// The code of the first slot there is with this seed, at a time.
    fn code(key: u8, time: Time) -> String {
        let codes = UserCodes::new(&SecretKey::new(&[key; 32]), &Seeded::new(1)).expect("keys");
        codes.draw(time).expect("a code").1
    }

    #[test]
    fn another_installation_and_another_round_have_other_codes() {
        let next_round = START + Duration::from_millis(ROUND_MS);
        let all = [code(7, START), code(8, START), code(7, next_round), code(7, next_round + LIFE)];
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
    }

    #[test]
    fn instances_of_different_versions_agree_about_a_code() {
        let (id, code) = codes(1).draw(START).expect("a code");
        assert_eq!((id.as_str(), &*code), ("device_01mcc6fmmhfyfsxmp79b55tmqx", "VXGFXDKG"));
    }

    #[test]
    fn who_jumps_goes_on_where_the_randomness_says() {
        let codes = codes(1);
        let first = codes.draw(START).expect("a code");
        codes.jump(&Seeded::new(1));
        assert_eq!(codes.draw(START).expect("a code"), first);
    }

    #[test]
    fn an_id_shows_its_time_and_nothing_of_how_many_there_are() {
        let codes = codes(1);
        let ids: Vec<String> =
            (0..100).map(|_| codes.draw(START).expect("a code").0.as_str().to_owned()).collect();
        let [this, next] = [START, START + Duration::from_millis(1)]
            .map(|moment| crate::ids::smallest_at(DeviceId::PREFIX, moment));
        assert!(ids.iter().all(|id| *id >= this && *id < next), "{this}: {ids:?}");
        assert!(!ids.is_sorted(), "no counter shows");
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_leads_somewhere(code in ".{0,12}|[B-Z]{8}", ms in 0..4_102_444_800_000_i64) {
            prop_assert!(codes(1).ids_of(&code, Time::from_millis(ms)).is_ok());
        }

        #[test]
        fn each_code_leads_back_at_any_time(ms in 0..4_102_444_800_000_i64, seed in any::<u64>()) {
            let (codes, now) = (codes(seed), Time::from_millis(ms));
            let (id, code) = codes.draw(now).expect("a code");
            prop_assert!(codes.ids_of(&code, now).expect("ids").contains(&id));
            prop_assert_eq!(read(&show(&code)), Some(code));
        }
    }
}
