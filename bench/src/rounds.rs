//! Cases and candidates take turns, round after round: what disturbs the machine disturbs them all.

use std::fs;

use xtask::failure::{Explain as _, Failure, Outcome, failure};

use crate::candidate::Candidate;
use crate::measure::{Prepared, Run, Stage};
use crate::options::Options;
use crate::report::{Line, figures, table};
use crate::scenario::{Case, Traffic};
use crate::server::{Server, variable};
use crate::{chart, process, topic};

/// A case, a candidate, and its runs so far.
type Series = (usize, Candidate, Vec<Run>);

/// Measures, prints, writes.
pub(crate) async fn run(options: Options) -> Outcome {
    let kafka = variable("INBOX_TEST_KAFKA")?;
    let mut cases = Vec::new();
    for case in options.scenario.cases(&options) {
        cases.push(prepared(&kafka, case).await?);
    }
    let stage = Stage { server: Server::start().await?, kafka, batch: options.batch };
    let all = (0..cases.len()).flat_map(|case| {
        options.candidates.iter().map(move |candidate| (case, *candidate, Vec::new()))
    });
    let mut all: Vec<Series> = all.collect();
    let mut wrong = Vec::new();
    for round in 1..=options.rounds {
        println!("round {round} of {}, load {}", options.rounds, process::load());
        turn(&stage, &cases, &mut all, &mut wrong).await;
    }
    write(&options, &cases, &all)?;
    if wrong.is_empty() { stage.server.end() } else { failure(wrong.join("\n")) }
}

/// One round.
async fn turn(stage: &Stage, cases: &[Prepared], all: &mut [Series], wrong: &mut Vec<String>) {
    for (case, candidate, runs) in all {
        let (prepared, number) = (&cases[*case], stage.server.next_run());
        let name = format!("{} {}", prepared.case.name, candidate.name());
        match stage.once(prepared, *candidate, number).await {
            Ok(run) => {
                let more = figures(&run.more);
                println!("  {name:<24} {:>10.0} events/s  {more}", run.events_per_s);
                runs.push(run);
            }
            Err(Failure(why)) => {
                println!("  {name:<24} {why}");
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

fn write(options: &Options, cases: &[Prepared], all: &[Series]) -> Outcome {
    let lines: Vec<Line> = all
        .iter()
        .filter(|(_, _, runs)| !runs.is_empty())
        .map(|(case, candidate, runs)| Line::of(&cases[*case].case, *candidate, runs))
        .collect();
    println!("\n{}", table(&lines));
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
