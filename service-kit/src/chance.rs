//! Waits that grow, and numbers of chance.

use std::time::Duration;

use uuid::Uuid;

/// A wait that doubles with each try up to `max`, of which the upper half is chance: [`inbox_engine::internal::backoff`], in
/// milliseconds.
pub fn backoff(min: Duration, max: Duration, tries: u32, chance: u64) -> Duration {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(inbox_engine::internal::backoff(millis(min), millis(max), tries, chance))
}

/// A number by chance: the last half of a version 4 UUID is the operating system's, with no time and no counter in it.
/// Its upper two bits are always the same.
pub fn chance() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

/// Numbers that look random and come again with their seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The next number below a limit, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_doubles_up_to_its_limit_and_half_of_it_is_chance() {
        let millis = Duration::from_millis;
        for (tries, full) in [(0, 100), (1, 200), (2, 350), (40, 350)] {
            for _ in 0..20 {
                let wait = backoff(millis(100), millis(350), tries, chance());
                assert!((millis(full / 2)..=millis(full)).contains(&wait), "{tries}: {wait:?}");
            }
        }
    }

    #[test]
    fn a_seed_brings_the_same_numbers_again() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.number(), random.number(), random.below(10)]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7)[2] < 10);
    }
}
