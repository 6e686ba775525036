//! What the rounds came to: a table for people, lines for files.

use std::fmt::Write as _;

use serde::Serialize;

use crate::candidate::Candidate;
use crate::measure::{Run, number_of};
use crate::options::Options;

/// What a candidate came to in a scenario. Times, memory and transactions are medians of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) scenario: &'static str,
    pub(crate) candidate: &'static str,
    /// Records of a run, second copies included.
    pub(crate) events: u64,
    pub(crate) rounds: usize,
    pub(crate) events_per_s: Spread,
    /// Processor time of the candidate's process.
    pub(crate) cpu_s: f64,
    /// Processor time of PostgreSQL.
    pub(crate) server_cpu_s: f64,
    /// Largest resident memory of the candidate's process.
    pub(crate) rss_mb: f64,
    pub(crate) transactions: f64,
    #[serde(skip)]
    who: Candidate,
}

/// What rounds were between, and the one in the middle.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one number.
    fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        let at = |place: usize| numbers.get(place).copied().unwrap_or(f64::NAN);
        let (half, last) = (numbers.len() / 2, numbers.len().saturating_sub(1));
        // Of an even number of rounds: between the two in the middle.
        let median = if numbers.len().is_multiple_of(2) {
            f64::midpoint(at(half.saturating_sub(1)), at(half))
        } else {
            at(half)
        };
        Self { min: at(0), median, max: at(last) }
    }
}

impl Line {
    /// The rounds of a candidate.
    pub(crate) fn of(options: &Options, candidate: Candidate, runs: &[Run]) -> Self {
        let of = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(figure).collect());
        Self {
            scenario: options.scenario.name(),
            candidate: candidate.name(),
            events: options.events,
            rounds: runs.len(),
            events_per_s: of(|run| run.events_per_s),
            cpu_s: of(|run| run.cpu_s).median,
            server_cpu_s: of(|run| run.server_cpu_s).median,
            rss_mb: of(|run| run.rss_mb).median,
            transactions: of(|run| run.transactions).median,
            who: candidate,
        }
    }

    /// Per 100,000 events.
    fn per(&self, figure: f64) -> f64 {
        figure * 100_000.0 / number_of(self.events)
    }
}

/// The lines as a table of Markdown. Ratios are those of medians.
pub(crate) fn table(lines: &[Line]) -> String {
    let median = |who: Candidate| {
        lines.iter().find(|line| line.who == who).map(|line| line.events_per_s.median)
    };
    let ratio = |line: &Line, other: Option<f64>| {
        other.map_or_else(String::new, |other| format!("{:.2}", line.events_per_s.median / other))
    };
    let mut text = String::from(
        "| candidate | events/s | min to max | against loop-partitions | against its limit \
         | CPU s per 100k, consumer + PostgreSQL | peak MB | transactions per 100k |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let limit = line.who.limit();
        let against = ratio(line, limit.and_then(median));
        let limit = limit.filter(|_| !against.is_empty()).map_or("", Candidate::name);
        // A text takes whatever is written to it.
        _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} to {:.0} | {} | {} | {:.2} + {:.2} | {:.0} | {:.0} |",
            line.candidate,
            line.events_per_s.median,
            line.events_per_s.min,
            line.events_per_s.max,
            ratio(line, median(Candidate::LoopPartitions)),
            [against.as_str(), limit].join(" ").trim(),
            line.per(line.cpu_s),
            line.per(line.server_cpu_s),
            line.rss_mb,
            line.per(line.transactions),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = Spread::of(vec![3.0, 1.0, 10.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 3.0, 10.0));
        assert!((Spread::of(vec![1.0, 2.0]).median - 1.5).abs() < 1e-9);
    }
}
