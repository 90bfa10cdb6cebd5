//! Seeded random numbers for the mix: the same seed gives the same run. Not for secrets.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Stream number `stream` of `seed`. Streams are independent.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xa076_1d64_78bd_642f));
        random.next();
        random
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(bound) * (self.next() >> 32)) >> 32) as u32
    }

    /// True with probability `share` (0.0 to 1.0).
    pub fn chance(&mut self, share: f64) -> bool {
        ((self.next() >> 11) as f64) < share * (1u64 << 53) as f64
    }

    /// A number from 0.0 to below 1.0.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
