//! User codes: the eight letters that a person types for a device (RFC 8628 section 6.1).
//!
//! A code is not looked for in an index, which would be as scattered as the codes are and the largest part of what a
//! device authorization costs: it is the place of the row's id in an order that only this installation's key tells
//! ([`Ff1`]). So codes are as hard to guess as if each was drawn, no two that live at the same time are the same, and
//! rows are only ever added at the end.

use crate::ff1::{BlockCipher, Ff1};
use crate::ids::DeviceId;
use crate::secrets::{Random, SecretKey};
use crate::{Result, Time};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Consonants only: no words, no look-alikes; 20^8 is 34.5 bits.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const LENGTH: u32 = 8;

/// After this time a code comes again, in milliseconds: longer than any lives, and a little for clocks that differ.
const ROUND_MS: u64 = 20 * 60 * 1000;
/// Codes that can be made in a millisecond, so that a round's all have different numbers.
const SLOTS: u64 = 20_u64.pow(LENGTH) / ROUND_MS;
/// How far another instance's clock may be ahead.
const AHEAD: Duration = Duration::from_secs(2 * 60);
/// Bits of an id that are made of its time and slot: in the last part, behind the slot.
const TAG_BITS: u32 = 59;

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
        let mut start = [0; 4];
        random.fill(&mut start);
        Ok(UserCodes {
            order: Ff1::new(&key.key_for("user codes 1"), LETTERS.len() as u32, LENGTH)?,
            tags: BlockCipher::new(&key.key_for("device ids 1"))?,
            next: AtomicU32::new(u32::from_be_bytes(start)),
        })
    }

    /// A new id, of this moment, and the code that leads to it.
    pub fn draw(&self, now: Time) -> Result<(DeviceId, String)> {
        let time = now.millis().unsigned_abs();
        let slot = u64::from(self.next.fetch_add(1, Ordering::Relaxed)) % SLOTS;
        let place = self.order.encrypt(time % ROUND_MS * SLOTS + slot)?;
        Ok((self.id(time, slot)?, text(place)))
    }

    /// The id that a code leads to, if it lives at `now`. What is no code leads to one that nobody has.
    pub fn id_of(&self, code: &str, now: Time) -> Result<DeviceId> {
        let number = match place(code) {
            Some(place) => self.order.decrypt(place)?,
            None => u64::MAX,
        };
        if number >= ROUND_MS * SLOTS {
            return Ok(DeviceId::from_uuid(0));
        }
        let (in_round, slot) = (number / SLOTS, number % SLOTS);
        // The last time at which the round was there.
        let latest = (now + AHEAD).millis().unsigned_abs();
        let ago = (latest % ROUND_MS + ROUND_MS - in_round) % ROUND_MS;
        self.id(latest.saturating_sub(ago), slot)
    }

    /// A UUIDv7 of a time, with the slot as its counter (RFC 9562 section 6.2). What follows would be at random
    /// elsewhere; here it must be found again, and nobody else can make it.
    fn id(&self, time: u64, slot: u64) -> Result<DeviceId> {
        let tag = self.tags.encrypt(u128::from(time) << 64 | u128::from(slot))? >> (u128::BITS - TAG_BITS);
        let (high, low) = (u128::from(slot >> 3), u128::from(slot & 7));
        let time = u128::from(time) << 80;
        Ok(DeviceId::from_uuid(time | 0x7 << 76 | high << 64 | 0b10 << 62 | low << TAG_BITS | tag))
    }
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

    const START: Time = Time::from_millis(1_800_000_000_000);

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
        assert!(Duration::from_millis(ROUND_MS) >= LIFE + AHEAD + AHEAD);
        assert!(ROUND_MS * SLOTS <= 20_u64.pow(LENGTH) && SLOTS < 1 << 15);
    }

    #[test]
    fn a_code_leads_to_its_id_as_long_as_it_may_live_and_to_no_other_afterwards() {
        let (codes, elsewhere) = (codes(1), codes(2));
        let (id, code) = codes.draw(START).expect("a code");
        for later in [Duration::ZERO, Duration::from_secs(60), LIFE] {
            assert_eq!(elsewhere.id_of(&code, START + later).expect("an id"), id, "{later:?}");
        }
        assert_eq!(elsewhere.id_of(&code, START - AHEAD).expect("an id"), id, "of a clock that is ahead");
        let next_round = START + Duration::from_millis(ROUND_MS);
        assert_ne!(codes.id_of(&code, next_round).expect("an id"), id);
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

    #[test]
    fn another_installation_has_other_codes() {
        let others = UserCodes::new(&SecretKey::new(&[8; 32]), &Seeded::new(1)).expect("keys");
        let ((id, code), (other_id, other_code)) =
            (codes(1).draw(START).expect("a code"), others.draw(START).expect("a code"));
        assert_ne!((&id, &code), (&other_id, &other_code));
        assert_ne!(others.id_of(&code, START).expect("an id"), id);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_leads_somewhere(code in ".{0,12}|[B-Z]{8}", ms in 0..4_102_444_800_000_i64) {
            prop_assert!(codes(1).id_of(&code, Time::from_millis(ms)).is_ok());
        }

        #[test]
        fn each_code_leads_back_at_any_time(ms in 0..4_102_444_800_000_i64, seed in any::<u64>()) {
            let (codes, now) = (codes(seed), Time::from_millis(ms));
            let (id, code) = codes.draw(now).expect("a code");
            prop_assert_eq!(codes.id_of(&code, now).expect("an id"), id);
            prop_assert_eq!(read(&show(&code)), Some(code));
        }
    }
}
