//! How fast an outbox is shipped to Kafka, by our relay, by loops written by hand, by Debezium: a backlog, then rows that
//! are appended at two paces. Candidates take turns in each of the three.

mod debezium;
mod outbox;
mod shipped;
mod stages;
mod worker;

use std::path::PathBuf;

use xtask::failure::{Failure, Outcome, failure};
use xtask::usage;

use crate::candidate::Candidate;
use crate::measure::{Entry, Run, Stage};
use crate::options::Options;
use crate::report::figures;
use crate::rounds::{Series, entries, write};
use crate::scenario::Case;
use crate::server::{Server, variable};
use stages::{Pace, Site};

/// What a server needs for Debezium, and what its defaults are otherwise.
const LOGICAL: &str = "wal_level = logical\n";

/// What candidates go through in a round, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Backlog,
    Rate,
    Half,
}

/// Measures, prints, writes.
pub(crate) async fn run(options: Options) -> Outcome {
    let site = site(&options).await?;
    let cases = options.scenario.cases(&options);
    let mut all: Vec<Series> = Vec::new();
    for (case, of) in cases.iter().enumerate() {
        let alone = |candidate: &&Candidate| of.processes == 1 || candidate.relays();
        let shared = options.candidates.iter().filter(alone);
        let entries = shared.flat_map(|candidate| entries(*candidate, &options));
        all.extend(entries.map(|entry| (case, entry, Vec::new())));
    }
    let parts: &[Part] = if options.backlog_only {
        &[Part::Backlog]
    } else {
        &[Part::Backlog, Part::Rate, Part::Half]
    };
    let (mut wrong, mut half) = (Vec::new(), None);
    for round in 1..=options.rounds {
        println!("round {round} of {}, load {}", options.rounds, usage::load());
        for part in parts {
            if *part == Part::Half {
                half = half.or_else(|| slowest(&all).map(|rate| rate / 2));
            }
            for series in &mut all {
                let turn = Turn { part: *part, half, idles: round == 1 && !options.smoke };
                turn.take(&site, (&cases, &options), series, &mut wrong).await;
            }
        }
        // Who comes first in one round comes last in the next.
        all.reverse();
    }
    if options.rounds % 2 == 1 {
        all.reverse();
    }
    write(&options, &cases, &all)?;
    if !wrong.is_empty() {
        return failure(wrong.join("\n"));
    }
    site.logical.map_or(Ok(()), |stage| stage.server.end())?;
    site.near.server.end()
}

async fn site(options: &Options) -> Outcome<Site> {
    let stage = async |settings| -> Outcome<Stage> {
        let (kafka, batch) = (variable("INBOX_TEST_KAFKA")?, options.batch);
        Ok(Stage { server: Server::start(settings).await?, kafka, batch })
    };
    let decoded = options.candidates.iter().any(|one| one.decodes());
    let logical = if decoded { Some(stage(LOGICAL).await?) } else { None };
    let folder = PathBuf::from(variable("INBOX_TEST_FOLDER")?);
    Ok(Site { near: stage("").await?, logical, folder })
}

/// One candidate's part of a round.
#[derive(Clone, Copy, Debug)]
struct Turn {
    part: Part,
    /// Half of the rate of the slowest.
    half: Option<u64>,
    /// Whether it is looked at without rows, too: once is enough.
    idles: bool,
}

impl Turn {
    /// A backlog begins a run, which the other parts add to; where one fails there is none.
    async fn take(
        self,
        site: &Site,
        (cases, options): (&[Case], &Options),
        (case, entry, runs): &mut Series,
        wrong: &mut Vec<String>,
    ) {
        let case = &cases[*case];
        let name = entry.name() + &case.share();
        if self.part == Part::Backlog {
            runs.push(None);
        }
        let Some(run) = runs.last_mut() else { return };
        match self.measured(site, case, entry, (run.take(), options)).await {
            Ok(Some((measured, said))) => {
                println!("  {name:<20} {said}");
                *run = Some(measured);
            }
            Ok(None) => {}
            Err(Failure(why)) => {
                println!("  {name:<20} {why}");
                wrong.push(format!("{name}: {why}"));
            }
        }
    }

    /// The run with what this part adds, and that in words; nothing after a part that failed.
    async fn measured(
        self,
        site: &Site,
        case: &Case,
        entry: &Entry,
        (run, options): (Option<Run>, &Options),
    ) -> Outcome<Option<(Run, String)>> {
        if self.part == Part::Backlog {
            let run = site.backlog(case, entry).await?;
            let said = format!("{:.0} rows/s, {}", run.events_per_s, figures(&run.more));
            return Ok(Some((run, said)));
        }
        let Some(mut run) = run else { return Ok(None) };
        let mut pace = Pace {
            rate: options.rate,
            seconds: options.seconds,
            idles: self.idles,
            is_costed: true,
            names: ["p50 ms", "p99 ms"],
        };
        if self.part == Part::Half {
            // It cannot keep that pace.
            if entry.candidate == Candidate::OutboxSleep {
                return Ok(Some((run, "sleeps".to_owned())));
            }
            let rate = self.half.unwrap_or(options.rate);
            let names = ["p50 ms at half", "p99 ms at half"];
            pace = Pace { rate, idles: false, is_costed: false, names, ..pace };
        }
        let added = site.paced(case, entry, pace).await?;
        let said = format!("{}/s: {}", pace.rate, figures(&added));
        run.more.extend(added);
        Ok(Some((run, said)))
    }
}

/// Rows of a second of the slowest that does not sleep.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate of this machine"
)]
fn slowest(all: &[Series]) -> Option<u64> {
    let awake = all.iter().filter(|(_, entry, _)| entry.candidate != Candidate::OutboxSleep);
    let rates = awake.flat_map(|(.., runs)| runs.iter().flatten()).map(|run| run.events_per_s);
    rates.min_by(f64::total_cmp).map(|rate| rate as u64)
}
