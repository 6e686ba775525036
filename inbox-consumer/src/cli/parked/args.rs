//! What the user typed behind `parked`.

use std::time::Duration;

use clap::{Args, Subcommand};
use inbox_store::internal::port::{ParkedFilter, When};

use super::super::{hand::Hand, words::REASONS};

/// One thing to do with parked events.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub(crate) enum Parked {
    /// List parked events: the first of each aggregate, and how many follow it
    List(List),
    /// Show one parked event: payload, headers, errors, origin, what to do
    Show {
        /// Number of the event, from `parked list`
        #[arg(value_name = "SEQ")]
        seq: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Request that the owner runs parked events again now, in order, with all that follow them
    Release(Acting),
    /// Request that the owner removes parked events without running them; those that follow run
    /// next
    Discard(Acting),
    /// List who released, discarded, skipped or retired what, and why
    Audit(Audit),
}

/// What parked events are picked by.
#[derive(Clone, Default, PartialEq, Eq, Debug, Args)]
pub(crate) struct Picked {
    /// Events of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Events of this partition
    #[arg(long, value_name = "NUMBER")]
    partition: Option<i32>,
    /// Events of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Events of this aggregate: TYPE/ID, or the id alone
    #[arg(long)]
    aggregate: Option<String>,
    /// Events parked for this reason
    #[arg(long, value_parser = reason)]
    reason: Option<String>,
    /// Events with this text in one of their errors
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl Picked {
    /// The filter of the store.
    pub(super) fn filter(&self) -> ParkedFilter {
        let Self { topic, partition, event_type, aggregate, reason, error } = self.clone();
        let some = ParkedFilter {
            topic,
            partition,
            event_type,
            aggregate,
            reason,
            error,
            ..ParkedFilter::default()
        };
        ParkedFilter { followers: true, ..some }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn reason(text: &str) -> Result<String, String> {
    let known = || REASONS.iter().map(|reason| reason.name);
    if known().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    Err(format!("unknown reason; choose one of {}", known().collect::<Vec<_>>().join(", ")))
}

/// A list of parked events.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    picked: Picked,
    /// Only those that are due now
    #[arg(long, conflicts_with = "waiting")]
    due: bool,
    /// Only those that need manual action
    #[arg(long)]
    waiting: bool,
    /// Include events that follow a parked event of their aggregate
    #[arg(long)]
    followers: bool,
    /// Oldest first (the default)
    #[arg(long, conflicts_with = "newest")]
    oldest: bool,
    /// Newest first
    #[arg(long)]
    pub(super) newest: bool,
    /// Maximum number of events
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl List {
    /// The filter of the store.
    pub(super) fn filter(&self) -> ParkedFilter {
        let when = match (self.due, self.waiting) {
            (true, _) => Some(When::Due),
            (_, true) => Some(When::Waiting),
            _ => None,
        };
        let followers = self.followers || self.picked.reason.as_deref() == Some("follower");
        ParkedFilter { when, followers, ..self.picked.filter() }
    }
}

/// A release or a discard.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(crate) struct Acting {
    /// Number of the event, from `parked list`
    #[arg(value_name = "SEQ")]
    pub(super) seq: Option<i64>,
    #[command(flatten)]
    picked: Picked,
    /// All parked events
    #[arg(long)]
    all: bool,
    /// Reason, kept in the audit; required for a discard
    #[arg(long, value_name = "TEXT")]
    pub(super) why: Option<String>,
    #[command(flatten)]
    pub(super) hand: Hand,
    /// Wait this long for the action to complete, such as 30s, and print its outcome
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) wait: Option<Duration>,
}

impl Acting {
    /// What is to be acted on.
    pub(super) fn filter(&self) -> Result<ParkedFilter, String> {
        match (self.seq, self.all, self.picked.is_empty()) {
            (Some(seq), false, true) => {
                Ok(ParkedFilter { seq: Some(seq), followers: true, ..ParkedFilter::default() })
            }
            (None, false, false) => Ok(self.picked.filter()),
            (None, true, true) => Ok(ParkedFilter { followers: true, ..ParkedFilter::default() }),
            (None, false, true) => Err("choose events: a number from `parked list`, --type, \
                                        --aggregate, --reason, --error, --topic, --partition, or \
                                        --all"
                .into()),
            _ => Err("a number, --all and the other filters are mutually exclusive: use one of \
                      them"
                .into()),
        }
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "not a duration: write it with a unit, such as 30s or 5m".into())
}

/// A list of acts.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(crate) struct Audit {
    /// Entries about this topic
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Entries about this partition
    #[arg(long, value_name = "NUMBER")]
    pub(super) partition: Option<i32>,
    /// Entries about this offset
    #[arg(long, value_name = "NUMBER")]
    pub(super) offset: Option<i64>,
    /// Entries by this person
    #[arg(long = "by", value_name = "NAME")]
    pub(super) who: Option<String>,
    /// Entries of this kind
    #[arg(long, value_parser = ["release", "discard", "released", "discarded", "copy", "release_failed", "skip", "retire", "forget"])]
    pub(super) what: Option<String>,
    /// Maximum number of entries, newest first
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
