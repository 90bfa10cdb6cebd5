//! FF1 of NIST SP 800-38G: format-preserving encryption of numbers below `radix^length`. Each key and tweak defines a
//! pseudorandom permutation of these numbers.

use crate::{Error, Result};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, UnboundCipherKey};

const ROUNDS: u8 = 10;

/// AES-256 for a single block.
pub(crate) struct BlockCipher(EncryptingKey);

impl BlockCipher {
    pub(crate) fn new(key: &[u8; 32]) -> Result<BlockCipher> {
        let made = UnboundCipherKey::new(&AES_256, key).and_then(EncryptingKey::ecb);
        made.map(BlockCipher).map_err(|_| Error::Internal("AES key".to_owned()))
    }

    pub(crate) fn encrypt(&self, block: u128) -> Result<u128> {
        let mut bytes = block.to_be_bytes();
        self.0.encrypt(&mut bytes).map_err(|_| Error::Internal("AES failed".to_owned()))?;
        Ok(u128::from_be_bytes(bytes))
    }
}

/// FF1 with one key. It is a Feistel network: a number consists of two halves of digits, and each round changes one
/// half by a function of the other.
pub(crate) struct Ff1 {
    cipher: BlockCipher,
    /// The number of values of the left half and of the right half.
    left: u64,
    right: u64,
    /// The encrypted first block (P), which is the same for all rounds.
    first: u128,
    /// The bits of the right half, in whole bytes (8b in the standard).
    half_bits: u32,
    /// The used bits of a round's result (8d).
    used_bits: u32,
    tweak_bits: u32,
}

impl Ff1 {
    /// Creates the cipher for numbers below `radix^length`, which must fit in 63 bits. A tweak has `tweak_bytes` bytes.
    /// The tweak and the right half of the digits together must leave one byte of a block free.
    pub(crate) fn new(key: &[u8; 32], radix: u32, length: u32, tweak_bytes: u32) -> Result<Ff1> {
        let cipher = BlockCipher::new(key)?;
        let (left_digits, right_digits) = (length / 2, length - length / 2);
        let [left, right] = [left_digits, right_digits].map(|digits| u64::from(radix).pow(digits));
        let half_bytes = (u64::BITS - (right - 1).leading_zeros()).div_ceil(8);
        // P: version 1, method 2, addition 1; radix (3 bytes); 10 rounds; digits of the left half; length (4 bytes);
        // tweak length (4 bytes).
        let start = 0x01_02_01_u128 << 104 | u128::from(radix) << 80 | 0x0a << 72;
        let lengths = u128::from(left_digits) << 64 | u128::from(length) << 32 | u128::from(tweak_bytes);
        let first = cipher.encrypt(start | lengths)?;
        let used_bytes = 4 * half_bytes.div_ceil(4) + 4;
        let [half_bits, used_bits, tweak_bits] = [half_bytes, used_bytes, tweak_bytes].map(|bytes| 8 * bytes);
        Ok(Ff1 { cipher, left, right, first, half_bits, used_bits, tweak_bits })
    }

    /// Encrypts `number`.
    pub(crate) fn encrypt(&self, tweak: u128, number: u64) -> Result<u64> {
        let (mut a, mut b) = (number / self.right, number % self.right);
        for round in 0..ROUNDS {
            let size = self.size(round);
            (a, b) = (b, (a + self.mix(tweak, round, b, size)?) % size);
        }
        Ok(a * self.right + b)
    }

    /// Decrypts `place`.
    pub(crate) fn decrypt(&self, tweak: u128, place: u64) -> Result<u64> {
        let (mut a, mut b) = (place / self.right, place % self.right);
        for round in (0..ROUNDS).rev() {
            let size = self.size(round);
            (a, b) = ((b + size - self.mix(tweak, round, a, size)?) % size, a);
        }
        Ok(a * self.right + b)
    }

    /// The number of values of the half that a round changes.
    fn size(&self, round: u8) -> u64 {
        if round.is_multiple_of(2) { self.left } else { self.right }
    }

    /// The round function: the value that one half adds to the other.
    fn mix(&self, tweak: u128, round: u8, half: u64, size: u64) -> Result<u64> {
        // Q: the tweak, zeros, the round, and the half.
        let tweak = tweak.checked_shl(u128::BITS - self.tweak_bits).unwrap_or_default();
        let block = tweak | u128::from(round) << self.half_bits | u128::from(half);
        let mixed = self.cipher.encrypt(self.first ^ block)? >> (u128::BITS - self.used_bits);
        Ok((mixed % u128::from(size)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// The key of NIST's samples 7 to 9.
    const KEY: [u8; 32] = [
        0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f,
        0x3c, //
        0xef, 0x43, 0x59, 0xd8, 0xd5, 0x80, 0xaa, 0x4f, 0x7f, 0x03, 0x6d, 0x6f, 0x04, 0xfc, 0x6a, 0x94,
    ];

    #[test]
    fn matches_samples_7_and_8_of_nist() {
        for (tweak_bytes, tweak, place) in
            [(0, 0, 6_657_667_009), (10, 0x3938_3736_3534_3332_3130, 1_001_623_463)]
        {
            let order = Ff1::new(&KEY, 10, 10, tweak_bytes).expect("a key");
            assert_eq!(order.encrypt(tweak, 123_456_789).expect("encrypts"), place);
            assert_eq!(order.decrypt(tweak, place).expect("decrypts"), 123_456_789);
        }
    }

    #[test]
    fn each_tweak_gives_another_permutation() {
        for (radix, length) in [(10, 3), (10, 4), (7, 5)] {
            let order = Ff1::new(&KEY, radix, length, 8).expect("a key");
            let all = u64::from(radix).pow(length);
            let places = |tweak| -> Vec<u64> {
                (0..all).map(|number| order.encrypt(tweak, number).expect("encrypts")).collect()
            };
            let (one, other) = (places(1), places(2));
            for places in [&one, &other] {
                assert_eq!(places.iter().collect::<HashSet<_>>().len() as u64, all);
                assert!(places.iter().all(|place| *place < all));
            }
            let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
            assert!(same < 10, "{same} numbers have the same place; about one is expected");
        }
    }

    proptest! {
        #[test]
        fn decryption_inverts_encryption(
            number in 0..20_u64.pow(8),
            tweak in any::<u64>().prop_map(u128::from),
            key in any::<[u8; 32]>(),
        ) {
            let order = Ff1::new(&key, 20, 8, 8).expect("a key");
            let place = order.encrypt(tweak, number).expect("encrypts");
            prop_assert!(place < 20_u64.pow(8));
            prop_assert_eq!(order.decrypt(tweak, place).expect("decrypts"), number);
        }
    }
}
