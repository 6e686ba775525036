//! Waits that grow, with jitter from a seeded generator: the engine has no source of chance of its own.

/// A wait that doubles with each try: `min · 2^tries`, at most `max` (at least `min`), of which the upper half is
/// chance, so that those who failed together do not come back together. The unit is the caller's.
pub fn backoff(min: u64, max: u64, tries: u32, chance: u64) -> u64 {
    let full = min.saturating_mul(1 << tries.min(32)).min(max.max(min));
    let least = full.div_ceil(2);
    least + chance % (full - least).saturating_add(1)
}

/// A small generator (xorshift64*), for jitter only.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// 48 bits of chance.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A wait by [`backoff`].
    pub(crate) fn delay(&mut self, min: u64, max: u64, tries: u32) -> u64 {
        backoff(min, max, tries, self.next())
    }
}
