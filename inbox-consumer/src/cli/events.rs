//! `events detect`: proposes a format for each topic, from a few of its records.

use std::fmt::Write as _;

use kafka_kit::internal::{TopicFacts, missing};
use outbox_core::internal::{Proposal, detect};
use service_kit::printed;

use super::{Exit, Terminal};
use crate::{config::Config, consumer::kafka_settings};

/// What is asked of events.
#[derive(Clone, PartialEq, Eq, Debug, clap::Subcommand)]
pub(super) enum Events {
    /// Inspect the newest records of each topic and propose the [events] keys to read them
    Detect {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What is proposed for one topic.
#[derive(serde::Serialize)]
struct Proposed<'t> {
    topic: &'t str,
    /// How many records were looked at, and how many of them are read.
    records: usize,
    read: usize,
    format: Option<&'static str>,
    /// The keys, as TOML.
    keys: Vec<String>,
    /// What a person has to decide, or why one record is not read.
    note: Option<String>,
}

/// Looks at the newest records of the configured topics, without a group and without committing.
pub(super) async fn events(config: &Config, command: &Events, terminal: &mut Terminal<'_>) -> Exit {
    let Events::Detect { json } = command;
    let topics = match kafka_kit::internal::topics(kafka_settings(config)).await {
        Ok(topics) => topics,
        Err(error) => {
            terminal.complain(error.to_string());
            return Exit::Kafka;
        }
    };
    for topic in topics.iter().filter(|topic| topic.partitions == 0) {
        terminal.complain(missing(&topic.topic));
    }
    let proposed: Vec<Proposed<'_>> = topics.iter().map(propose).collect();
    terminal.say(if *json { printed::json(&proposed) } else { rendered(&proposed) });
    if proposed.iter().all(|topic| topic.format.is_some()) { Exit::Done } else { Exit::Refused }
}

fn propose(facts: &TopicFacts) -> Proposed<'_> {
    let records = facts.sample.len();
    let found = detect(&facts.topic, facts.sample.iter().map(|(_, _, record)| record));
    let none = "no format reads any of these records; set the format custom and the places of the \
         event's parts";
    match found {
        Some(Proposal { format, keys, read, note }) => {
            Proposed { topic: &facts.topic, records, read, format: Some(format), keys, note }
        }
        None => Proposed {
            topic: &facts.topic,
            records,
            read: 0,
            format: None,
            keys: Vec::new(),
            note: Some(if records == 0 { "the topic has no records".into() } else { none.into() }),
        },
    }
}

/// As a part of a configuration: [events] where all topics are alike.
fn rendered(proposed: &[Proposed<'_>]) -> String {
    let mut text = String::new();
    let first = proposed.first();
    let alike = first.is_some_and(|first| {
        proposed.iter().all(|other| (other.format, &other.keys) == (first.format, &first.keys))
    });
    for (at, Proposed { topic, records, read, format, keys, note }) in proposed.iter().enumerate() {
        let _ = writeln!(text, "# {topic}: {read} of {records} records can be read");
        for line in note.iter().flat_map(|note| note.lines()) {
            let _ = writeln!(text, "# {line}");
        }
        let last = at + 1 == proposed.len();
        if let (Some(format), true) = (format, !alike || last) {
            let head = if alike {
                "[events]\n".to_owned()
            } else {
                format!("[[events.topics]]\ntopic = {topic:?}\n")
            };
            let _ = writeln!(text, "{head}format = {format:?}");
            for key in keys {
                let _ = writeln!(text, "{key}");
            }
            text.push('\n');
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed<'t>(topic: &'t str, format: Option<&'static str>) -> Proposed<'t> {
        let keys = format.map(|_| "rules.type = \"value:a\"".to_owned());
        let keys = Vec::from_iter(keys);
        Proposed { topic, records: 3, read: 2, format, keys, note: Some("look".into()) }
    }

    #[test]
    fn a_proposal_is_a_part_of_a_configuration() {
        let alike = [proposed("a", Some("own")), proposed("b", Some("own"))];
        let told = rendered(&alike);
        assert!(
            told.ends_with("# look\n[events]\nformat = \"own\"\nrules.type = \"value:a\""),
            "{told}"
        );
        let apart = [proposed("a", Some("own")), proposed("b", None)];
        let told = rendered(&apart);
        assert!(told.contains("[[events.topics]]\ntopic = \"a\"\nformat = \"own\"\n"), "{told}");
        assert!(told.ends_with("# b: 2 of 3 records can be read\n# look"), "{told}");
    }
}
