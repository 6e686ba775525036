//! Cases and candidates take turns, round after round: what disturbs the machine disturbs them all.

use std::fs;

use xtask::failure::{Explain as _, Failure, Outcome, failure};
use xtask::usage;

use crate::candidate::Candidate;
use crate::measure::{Entry, Prepared, Run, Stage};
use crate::options::Options;
use crate::report::{Line, figures, pairs, table};
use crate::scenario::{Case, Traffic};
use crate::server::{Server, variable};
use crate::{chart, topic};

/// A case, who runs, and the runs so far: none where one failed.
pub(crate) type Series = (usize, Entry, Vec<Option<Run>>);

/// Measures, prints, writes.
pub(crate) async fn run(options: Options) -> Outcome {
    let kafka = variable("INBOX_TEST_KAFKA")?;
    let mut cases = Vec::new();
    for case in options.scenario.cases(&options) {
        cases.push(prepared(&kafka, case).await?);
    }
    let stage = Stage { server: Server::start("").await?, kafka, batch: options.batch };
    let all = (0..cases.len()).flat_map(|case| {
        let entries = options.candidates.iter().flat_map(|one| entries(*one, &options));
        entries.map(move |entry| (case, entry, Vec::new()))
    });
    let mut all: Vec<Series> = all.collect();
    let mut wrong = Vec::new();
    for round in 1..=options.rounds {
        println!("round {round} of {}, load {}", options.rounds, usage::load());
        turn(&stage, &cases, &mut all, &mut wrong).await;
        // Who comes first in one round comes last in the next.
        all.reverse();
    }
    if options.rounds % 2 == 1 {
        all.reverse();
    }
    let cases: Vec<Case> = cases.iter().map(|prepared| prepared.case).collect();
    write(&options, &cases, &all)?;
    if wrong.is_empty() { stage.server.end() } else { failure(wrong.join("\n")) }
}

/// A candidate in this program, and one of ours in the other one, too.
pub(crate) fn entries(candidate: Candidate, options: &Options) -> Vec<Entry> {
    let beside = options.beside.clone().filter(|_| candidate.is_ours());
    let programs = std::iter::once(None).chain(beside.map(Some));
    programs.map(|program| Entry { candidate, program }).collect()
}

/// One round.
async fn turn(stage: &Stage, cases: &[Prepared], all: &mut [Series], wrong: &mut Vec<String>) {
    for (case, entry, runs) in all {
        let (prepared, number) = (&cases[*case], stage.server.next_run());
        let name = format!("{} {}", prepared.case.name, entry.name());
        match stage.once(prepared, entry.clone(), number).await {
            Ok(run) => {
                let more = figures(&run.more);
                println!("  {name:<24} {:>10.0} events/s  {more}", run.events_per_s);
                runs.push(Some(run));
            }
            Err(Failure(why)) => {
                println!("  {name:<24} {why}");
                runs.push(None);
                wrong.push(format!("{name}: {why}"));
            }
        }
    }
}

/// Fills the topic of a case, unless its events are sent while candidates run.
async fn prepared(kafka: &str, case: Case) -> Outcome<Prepared> {
    let address = kafka.to_owned();
    let filling = tokio::task::spawn_blocking(move || match case.traffic {
        Traffic::Met | Traffic::Paced(_) | Traffic::Members(_) | Traffic::Steady(_) => Ok(()),
        Traffic::Backlog => topic::filled(&address, &case.plan.topic(), case.plan),
    });
    filling.await.explain(|| "the topic was not filled".to_owned())??;
    Ok(Prepared { case, expected: case.plan.expected() })
}

/// Prints and writes what the rounds came to.
pub(crate) fn write(options: &Options, cases: &[Case], all: &[Series]) -> Outcome {
    let lines: Vec<Line> = all
        .iter()
        .filter(|(_, _, runs)| runs.iter().any(Option::is_some))
        .map(|(case, entry, runs)| Line::of(&cases[*case], entry, runs))
        .collect();
    println!("\n{}{}", table(&lines), pairs(&lines));
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&lines).explain(|| "the results".to_owned())?;
        fs::write(file, text + "\n").explain(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &options.svg {
        let text = chart::drawn(&lines);
        fs::write(file, text).explain(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
