//! Rates of rounds in which programs took turns.

use std::fmt;

/// What rounds had.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Spread {
    /// Of one round at least.
    #[must_use]
    pub fn of(rates: &[f64]) -> Self {
        let mut sorted = rates.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (lowest, highest) = (sorted[0], sorted[sorted.len() - 1]);
        Self { median: sorted[sorted.len() / 2], lowest, highest }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, lowest, highest } = self;
        write!(f, "{median:.0} (lowest {lowest:.0}, highest {highest:.0})")
    }
}

/// The geometric mean of what pairs of rounds have to each other, and its standard error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// The mean.
    pub mean: f64,
    /// Its standard error; 0 of one pair.
    pub error: f64,
}

impl Ratio {
    /// What `ours` has of `theirs`, if there is a pair.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean of few")]
    pub fn of(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let logs: Vec<f64> =
            ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        let error = mean.exp() * (squares / (count - 1.0).max(1.0) / count).sqrt();
        Some(Self { mean: mean.exp(), error })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ± {:.3}", self.mean, self.error)
    }
}
