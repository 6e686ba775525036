//! Waits that grow, with jitter from a seeded generator: the engine has no source of chance of its own.

/// A small generator (xorshift64*), for jitter only.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let chance = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16;
        low + chance % (high.saturating_sub(low) + 1)
    }

    /// `min · 2^tries`, at most `max` (at least `min`), of which the upper half is chance.
    pub(crate) fn grown(&mut self, min: u64, max: u64, tries: u32) -> u64 {
        let full = min.saturating_mul(1 << tries.min(20)).min(max.max(min));
        self.between(full.div_ceil(2), full)
    }
}
