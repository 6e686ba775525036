//! Distributions, counted without a lock: an addition for each observation.

use std::{sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed, time::Duration};

/// How an observed number is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Microseconds, shown as seconds.
    Seconds,
    /// A count, shown as it is.
    Whole,
}

impl Scale {
    /// The number in the unit of its metric.
    pub fn shown(self, number: u64) -> String {
        match self {
            Self::Whole => number.to_string(),
            Self::Seconds => {
                let text = format!("{}.{:06}", number / 1_000_000, number % 1_000_000);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        }
    }
}

/// Microseconds: a handler's call or a transaction.
pub const SHORT: &[u64] = &[
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000,
];
/// Microseconds: from a producer to the effect.
pub const LONG: &[u64] = &[
    10_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
    3_600_000_000,
    21_600_000_000,
    86_400_000_000,
];
/// Events of a transaction.
pub const EVENTS: &[u64] = &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

/// How often something was at most so long, or so many.
#[derive(Debug)]
pub struct Histogram {
    scale: Scale,
    bounds: &'static [u64],
    /// One more than there are bounds: the last is for what is above them all.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution {
    /// How its numbers are shown.
    pub scale: Scale,
    /// Upper bound and how many were at most that; ascending. `None` is "any".
    pub buckets: Vec<(Option<u64>, u64)>,
    /// All numbers together.
    pub sum: u64,
}

impl Histogram {
    /// Of nothing yet; the bounds ascend.
    pub fn new(scale: Scale, bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { scale, bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Notes a number.
    pub fn observe(&self, number: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < number);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(number, Relaxed);
    }

    /// Notes a time.
    pub fn took(&self, time: Duration) {
        self.observe(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// What was noted so far. The count is that of the buckets, so that it never contradicts them.
    pub fn read(&self) -> Distribution {
        let mut all = 0;
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let buckets = bounds
            .zip(&self.buckets)
            .map(|(bound, bucket)| {
                all += bucket.load(Relaxed);
                (bound, all)
            })
            .collect();
        Distribution { scale: self.scale, buckets, sum: self.sum.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_bounds_belong_to_them() {
        let histogram = Histogram::new(Scale::Whole, &[1, 5]);
        for number in [1, 1, 2, 5, 6, 1_000] {
            histogram.observe(number);
        }
        let Distribution { buckets, sum, .. } = histogram.read();
        assert_eq!(buckets, [(Some(1), 2), (Some(5), 4), (None, 6)]);
        assert_eq!(sum, 1_015);
    }

    #[test]
    fn times_are_shown_in_seconds_without_losing_a_digit() {
        let shown = |micros| Scale::Seconds.shown(micros);
        assert_eq!([shown(500), shown(1_500_000), shown(30_000_000)], ["0.0005", "1.5", "30"]);
        assert_eq!(shown(0), "0");
        assert_eq!(Scale::Whole.shown(1_000), "1000");
    }

    #[test]
    fn the_bounds_ascend() {
        for bounds in [SHORT, LONG, EVENTS] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
    }
}
