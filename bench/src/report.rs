//! What the rounds came to: a table for people, lines for files.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::candidate::Candidate;
use crate::measure::{Entry, Run, number_of};
use crate::scenario::Case;

/// What a candidate came to in a scenario. Times, memory and transactions are medians of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) scenario: &'static str,
    pub(crate) candidate: String,
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
    /// What only this scenario asks for.
    #[serde(flatten)]
    pub(crate) more: BTreeMap<&'static str, f64>,
    #[serde(skip)]
    who: Candidate,
    #[serde(skip)]
    processes: u32,
    #[serde(skip)]
    is_beside: bool,
    /// Round by round: a rate, and a median latency where there is one; nothing where the run failed.
    #[serde(skip)]
    by_round: Vec<Option<(f64, Option<f64>)>>,
    /// What it is held against.
    #[serde(skip)]
    limit: Option<Candidate>,
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
    pub(crate) fn of(mut numbers: Vec<f64>) -> Self {
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
    pub(crate) fn of(case: &Case, entry: &Entry, rounds: &[Option<Run>]) -> Self {
        let candidate = entry.candidate;
        let runs: Vec<&Run> = rounds.iter().flatten().collect();
        let of = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(|run| figure(run)).collect());
        let figures_of = |run: &Run| (run.events_per_s, run.more.get("p50 ms").copied());
        let names = runs.iter().flat_map(|run| run.more.keys().copied());
        let more = names.map(|name| {
            let figures = runs.iter().filter_map(|run| run.more.get(name).copied()).collect();
            (name, Spread::of(figures).median)
        });
        Self {
            scenario: case.name,
            candidate: format!("{}{}", entry.name(), case.share()),
            events: case.plan.records,
            rounds: runs.len(),
            events_per_s: of(|run| run.events_per_s),
            cpu_s: of(|run| run.cpu_s).median,
            server_cpu_s: of(|run| run.server_cpu_s).median,
            rss_mb: of(|run| run.rss_mb).median,
            transactions: of(|run| run.transactions).median,
            more: more.collect(),
            who: candidate,
            processes: case.processes,
            is_beside: entry.program.is_some(),
            by_round: rounds.iter().map(|run| run.as_ref().map(figures_of)).collect(),
            limit: candidate.limit(case.sqlite),
        }
    }

    /// Per 100,000 events.
    fn per(&self, figure: f64) -> f64 {
        figure * 100_000.0 / number_of(self.events)
    }
}

/// The lines as a table of Markdown. Ratios are those of medians of one scenario.
pub(crate) fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| scenario | candidate | events/s | min to max | against loop-partitions | against its limit \
         | CPU s per 100k, consumer + PostgreSQL | peak MB | transactions per 100k | more |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        text.push_str(&row(line, lines));
    }
    text
}

fn row(line: &Line, lines: &[Line]) -> String {
    let median = |who: Candidate| {
        let found = lines
            .iter()
            .find(|own| own.who == who && !own.is_beside && own.scenario == line.scenario);
        found.map(|own| own.events_per_s.median)
    };
    let against = |who: Candidate| median(who).map(|other| line.events_per_s.median / other);
    let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let limit = line.limit.and_then(|limit| Some((against(limit)?, limit.name())));
    let limit = limit.map_or_else(String::new, |(ratio, name)| format!("{ratio:.2} {name}"));
    let Spread { min, median, max } = line.events_per_s;
    format!(
        "| {} | {} | {median:.0} | {min:.0} to {max:.0} | {} | {limit} | {:.2} + {:.2} | {:.0} | {:.0} | {} |\n",
        line.scenario,
        line.candidate,
        ratio(against(Candidate::LoopPartitions)),
        line.per(line.cpu_s),
        line.per(line.server_cpu_s),
        line.rss_mb,
        line.per(line.transactions),
        figures(&line.more),
    )
}

/// This program against the other one, pair by pair of rounds; nothing without another one.
pub(crate) fn pairs(lines: &[Line]) -> String {
    let mut text = String::new();
    for other in lines.iter().filter(|line| line.is_beside) {
        let is_pair = |line: &&Line| {
            let [own, other] = [*line, other].map(|one| (one.who, one.scenario, one.processes));
            !line.is_beside && own == other
        };
        let Some(own) = lines.iter().find(is_pair) else { continue };
        let rounds = || own.by_round.iter().zip(&other.by_round);
        let both = || rounds().filter_map(|(own, other)| Some((own.as_ref()?, other.as_ref()?)));
        let name = format!("{} {}", own.scenario, own.candidate);
        let rates = both().map(|((own, _), (other, _))| own / other).collect();
        text.push_str(&pair(&name, "events/s", Spread::of(rates)));
        let waits: Vec<f64> =
            both().filter_map(|((_, own), (_, other))| Some((*own)? / (*other)?)).collect();
        if !waits.is_empty() {
            text.push_str(&pair(&name, "p50", Spread::of(waits)));
        }
    }
    text
}

fn pair(name: &str, figure: &str, Spread { min, median, max }: Spread) -> String {
    format!("{name}: {figure} {median:.3} of the other program's ({min:.3} to {max:.3})\n")
}

/// Further figures on one line.
pub(crate) fn figures(more: &BTreeMap<&'static str, f64>) -> String {
    // Those of tenths are for files.
    let each: Vec<String> = more
        .iter()
        .filter(|(name, _)| !name.starts_with("tenth"))
        .map(|(name, figure)| format!("{name} {figure:.2}"))
        .collect();
    each.join(", ")
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
