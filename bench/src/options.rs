//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use xtask::failure::{Outcome, failure};

use crate::candidate::{Candidate, Inbox};
use crate::form::Form;
use crate::scenario::{Look, Scenario};

/// Measures candidates on the services that the environment names.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// One candidate at work, in a process of its own; the bench starts it.
    #[command(hide = true)]
    Work(Order),
}

/// What is measured, how often, and where it is written.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// What the candidates go through.
    #[arg(long, value_enum, default_value_t = Scenario::Drain)]
    pub(crate) scenario: Scenario,
    /// Which of them, separated by commas; without it all that the scenario knows.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) candidates: Vec<Candidate>,
    /// Records of the topic, second copies (one in twenty) included.
    #[arg(long, default_value_t = 200_000)]
    pub(crate) events: u64,
    /// How often each candidate runs; they take turns.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: u32,
    /// Another build of this program, or of `outbox-relay`: each candidate of ours also runs in it, by turns.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) beside: Option<PathBuf>,
    /// Writes the results into a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draws the results into a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The short form: every candidate once on a few thousand events. It proves results, not speed.
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Most events of a transaction of the limits.
    #[arg(long, default_value_t = 1_000, hide_short_help = true)]
    pub(crate) batch: usize,
    /// Events of a second in the scenarios `latency`, `steady`, `group` and `relay`.
    #[arg(long, default_value_t = 200)]
    pub(crate) rate: u64,
    /// Seconds of the scenarios `latency` and `steady`, of each rate of `relay`, and of each run of `append`.
    #[arg(long, default_value_t = 20)]
    pub(crate) seconds: u64,
    /// In the scenario `steady`, when a snapshot is opened that stays open: seconds after the beginning.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) snapshot: Option<u64>,
    /// In the scenario `steady`, ours keeps inbox rows for a minute; how long events took is not known then.
    #[arg(long)]
    pub(crate) prune: bool,
    /// The round trip to the database in the scenario `delay`, in microseconds.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) delay_us: u64,
    /// How many of our relays share the outbox in the scenario `relay`: several numbers are further candidates.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) members: Vec<u32>,
    /// The scenario `relay` without rates and without waiting: for a very large backlog.
    #[arg(long)]
    pub(crate) backlog_only: bool,
    /// Rows that the inbox has already in the scenario `grown`.
    #[arg(long, default_value_t = 5_000_000)]
    pub(crate) grown: u64,
}

/// The events of the short form.
const SMOKE_EVENTS: u64 = 4_000;

impl Options {
    /// The same with what the short form sets, and with candidates.
    pub(crate) fn checked(mut self) -> Outcome<Self> {
        if self.smoke {
            (self.events, self.rounds, self.seconds) = (SMOKE_EVENTS, 1, 2);
        }
        if self.candidates.is_empty() {
            self.candidates = self.scenario.candidates();
        }
        if self.scenario != Scenario::Sqlite
            && let Some(candidate) = self.candidates.iter().find(|one| one.through_sqlx())
        {
            let name = candidate.name();
            return failure(format!("`{name}` is a candidate of `--scenario sqlite` alone"));
        }
        let ships = self.scenario == Scenario::Relay;
        if let Some(candidate) = self.candidates.iter().find(|one| one.ships() != ships) {
            let (name, scenario) = (candidate.name(), self.scenario);
            return failure(format!("`{name}` is no candidate of the scenario {scenario:?}"));
        }
        if self.scenario == Scenario::Formats
            && let Some(candidate) = self.candidates.iter().find(|one| one.inbox() != Inbox::Ours)
        {
            let name = candidate.name();
            return failure(format!("`{name}` reads our own headers alone"));
        }
        if self.rate == 0 || self.seconds < 2 {
            return failure("--rate begins at 1, --seconds at 2");
        }
        if self.rounds == 0 || self.events < 1_000 || self.batch == 0 {
            return failure("--rounds and --batch begin at 1, --events at 1000");
        }
        Ok(self)
    }
}

/// What a process of a candidate is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct Order {
    /// The program that works; without it the one that asks.
    #[arg(skip)]
    pub(crate) program: Option<PathBuf>,
    /// Who works.
    #[arg(long, value_enum)]
    pub(crate) candidate: Candidate,
    /// Kafka's bootstrap list.
    #[arg(long)]
    pub(crate) kafka: String,
    /// The topic, filled.
    #[arg(long)]
    pub(crate) topic: String,
    /// How many records the topic has: the process ends when all are settled. 0: others settle some,
    /// too, so it ends when its standard input does.
    #[arg(long)]
    pub(crate) records: u64,
    /// The consumer group: nobody had it before.
    #[arg(long)]
    pub(crate) group: String,
    /// A fresh database with the table of the effects.
    #[arg(long)]
    pub(crate) database: String,
    /// Most events of a transaction of the limits.
    #[arg(long)]
    pub(crate) batch: usize,
    /// Connections of ours.
    #[arg(long)]
    pub(crate) connections: Option<u32>,
    /// Whether one event in a hundred takes its handler 50 ms.
    #[arg(long)]
    pub(crate) slow: bool,
    /// How ours looks at versions.
    #[arg(long, value_enum)]
    pub(crate) versions: Option<Look>,
    /// Whose format the records are in.
    #[arg(long, value_enum, default_value_t = Form::Own)]
    pub(crate) form: Form,
    /// The instance id of ours in the group.
    #[arg(long)]
    pub(crate) instance: Option<String>,
    /// How long ours keeps its inbox rows.
    #[arg(long)]
    pub(crate) retention: Option<String>,
}

impl Order {
    /// The command line that says this.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let pairs = [
            ("--candidate", self.candidate.name().to_owned()),
            ("--kafka", self.kafka.clone()),
            ("--topic", self.topic.clone()),
            ("--records", self.records.to_string()),
            ("--group", self.group.clone()),
            ("--database", self.database.clone()),
            ("--batch", self.batch.to_string()),
        ];
        // A program of before has no such word.
        let form = (self.form != Form::Own).then(|| ("--form", self.form.name()));
        let connections = self.connections.map(|number| ("--connections", number.to_string()));
        let instance = self.instance.clone().map(|id| ("--instance", id));
        let retention = self.retention.clone().map(|time| ("--retention", time));
        let versions = self.versions.map(|look| match look {
            Look::Stale => ("--versions", "stale".to_owned()),
            Look::Gap => ("--versions", "gap".to_owned()),
        });
        let words = pairs
            .into_iter()
            .chain(form)
            .chain(versions)
            .chain(connections)
            .chain(instance)
            .chain(retention);
        let words = words.flat_map(|(name, value)| [name.to_owned(), value]);
        let slow = self.slow.then(|| "--slow".to_owned());
        std::iter::once("work".to_owned()).chain(words).chain(slow).collect()
    }
}
