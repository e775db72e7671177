//! Reproducible chance: SplitMix64, for the load's choices and for the content of blocks.

/// A stream of numbers that its seed determines.
pub struct Random(u64);

/// The step of SplitMix64: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a number over all 64 bits, one to one.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Random(mix(seed.wrapping_add(STEP)))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias is below 2^-32 for any `end` that the demo uses.
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
