//! Candidates take turns, round after round: what disturbs the machine disturbs them all.

use std::fs;

use xtask::failure::{Explain as _, Failure, Outcome, failure};

use crate::candidate::Candidate;
use crate::measure::{Run, Stage};
use crate::options::Options;
use crate::plan::Plan;
use crate::report::{Line, table};
use crate::server::{Server, variable};
use crate::{chart, process, topic};

/// Measures, prints, writes.
pub(crate) async fn run(options: Options) -> Outcome {
    let stage = stage(&options).await?;
    let mut runs: Vec<(Candidate, Vec<Run>)> =
        options.candidates.iter().map(|candidate| (*candidate, Vec::new())).collect();
    let mut wrong = Vec::new();
    let mut number = 0;
    for round in 1..=options.rounds {
        println!("round {round} of {}, load {}", options.rounds, process::load());
        for (candidate, runs) in &mut runs {
            number += 1;
            match stage.once(*candidate, number).await {
                Ok(run) => {
                    println!("  {:<16} {:>10.0} events/s", candidate.name(), run.events_per_s);
                    runs.push(run);
                }
                Err(Failure(why)) => {
                    println!("  {:<16} {why}", candidate.name());
                    wrong.push(format!("{}: {why}", candidate.name()));
                }
            }
        }
    }
    write(&options, &runs)?;
    if wrong.is_empty() { Ok(()) } else { failure(wrong.join("\n")) }
}

async fn stage(options: &Options) -> Outcome<Stage> {
    let kafka = variable("INBOX_TEST_KAFKA")?;
    let plan = Plan { records: options.events };
    let topic = format!("bench-{}-{}", options.scenario.name(), plan.records);
    let (address, name) = (kafka.clone(), topic.clone());
    let filling = tokio::task::spawn_blocking(move || topic::filled(&address, &name, plan));
    filling.await.explain(|| "the topic was not filled".to_owned())??;
    Ok(Stage {
        server: Server::start().await?,
        kafka,
        topic,
        records: plan.records,
        batch: options.batch,
        expected: plan.expected(),
    })
}

fn write(options: &Options, runs: &[(Candidate, Vec<Run>)]) -> Outcome {
    let lines: Vec<Line> = runs
        .iter()
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(candidate, runs)| Line::of(options, *candidate, runs))
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
