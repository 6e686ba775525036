//! How `check --sample` shows some real records: what each would be to this consumer.

use inbox_handler::internal::{RouteLookup, RouteTable};
use inbox_store::internal::port::Placement;
use kafka_kit::internal::TopicFacts;
use outbox_core::{ReadError, Reader, Record};

use crate::{
    cli::table,
    config::{Config, Unwanted},
};

/// One record, as it would be understood.
#[derive(Debug, PartialEq, serde::Serialize)]
pub(crate) struct Sample {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) event_id: Option<String>,
    /// As the producer sent it, where that is another text.
    pub(crate) source_id: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) aggregate: Option<String>,
    pub(crate) lane: u16,
    /// The handler that takes it.
    pub(crate) handler: Option<&'static str>,
    /// Why none does.
    pub(crate) why_not: Option<String>,
    /// Where the sample before it is that has the same event id: `TOPIC/PARTITION@OFFSET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) same_id_as: Option<String>,
    /// Its payload as JSON, where a schema describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<String>,
}

/// The newest records of each topic, at most `count` of one.
pub(crate) fn samples<DB: sqlx::Database>(
    topics: &[TopicFacts],
    count: usize,
    (reader, routes): (&Reader, &RouteTable<DB>),
    config: &Config,
) -> Vec<Sample> {
    let mut all = Vec::new();
    for facts in topics {
        let placement = Placement::of(reader.of_topic(&facts.topic).rules());
        let mut newest: Vec<_> = facts.sample.iter().collect();
        newest
            .sort_by_key(|(partition, offset, record)| (record.timestamp_ms, *offset, *partition));
        for (partition, offset, record) in newest.split_off(newest.len().saturating_sub(count)) {
            let at = (&*facts.topic, *partition, *offset);
            let mut sample = sample(at, record, &placement, (reader, routes), config);
            let same =
                |known: &&Sample| known.event_id.is_some() && known.event_id == sample.event_id;
            sample.same_id_as = all.iter().find(same).map(Sample::place);
            all.push(sample);
        }
    }
    all
}

impl Sample {
    fn place(&self) -> String {
        format!("{}/{}@{}", self.topic, self.partition, self.offset)
    }
}

fn sample<DB: sqlx::Database>(
    (topic, partition, offset): (&str, i32, i64),
    record: &Record,
    placement: &Placement,
    (reader, routes): (&Reader, &RouteTable<DB>),
    config: &Config,
) -> Sample {
    let unfolded = reader.unfold(topic, record);
    let record = unfolded.as_ref().unwrap_or(record);
    let (lane, _) = placement.place(topic, offset, record, config.lanes.count);
    let mut sample = Sample {
        topic: topic.to_owned(),
        partition,
        offset,
        event_id: None,
        source_id: None,
        event_type: None,
        aggregate: None,
        lane: lane.0,
        handler: None,
        why_not: None,
        same_id_as: None,
        payload: None,
    };
    match reader.read(topic, partition, offset, record) {
        Ok(event) => {
            let event_type = event.event_type.to_string();
            let names = routes.names();
            match routes.lookup(&event_type) {
                RouteLookup::Route(_) => {
                    let named = names.iter().find(|(handled, _)| **handled == event_type);
                    sample.handler = named.map(|(_, name)| *name);
                }
                RouteLookup::Ignored => {
                    sample.why_not = Some("ignored by `routes.ignore(..)`".into());
                }
                RouteLookup::Unknown => {
                    sample.why_not = Some(fate(config.events.unknown_type, "unknown_type"));
                }
            }
            sample.event_id = Some(event.event_id.to_string());
            sample.source_id = event.source_id.map(|id| id.to_string());
            sample.aggregate = Some(event.aggregate.to_string());
            sample.event_type = Some(event_type);
        }
        Err(error @ ReadError::NoEvent { .. }) => {
            sample.why_not = Some(format!("ignored: {error}"));
        }
        Err(error) => {
            sample.why_not =
                Some(format!("{}: {error}", fate(config.events.undecodable, "undecodable")));
        }
    }
    sample
}

/// What becomes of what nobody can take.
pub(super) fn fate(unwanted: Unwanted, reason: &str) -> String {
    match unwanted {
        Unwanted::Park => format!("parked as `{reason}`"),
        Unwanted::Ignore => "ignored".into(),
        Unwanted::DeadLetter => "sent to `events.dead_letter_topic`".into(),
    }
}

/// For people.
pub(crate) fn rendered(samples: &[Sample]) -> String {
    if samples.is_empty() {
        return "no records to show: the topics are empty, or cannot be read".to_owned();
    }
    let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
    let row = |sample: &Sample| {
        let becomes = match (&sample.handler, &sample.why_not) {
            (Some(handler), _) => format!("handled by {handler}"),
            (None, why) => text(why),
        };
        [
            sample.place(),
            text(&sample.event_id),
            text(&sample.event_type),
            text(&sample.aggregate),
            sample.lane.to_string(),
            becomes.lines().collect::<Vec<_>>().join(" "),
        ]
    };
    let rows: Vec<_> = samples.iter().map(row).collect();
    let mut told =
        table::aligned(["RECORD", "EVENT ID", "TYPE", "AGGREGATE", "LANE", "BECOMES"], &rows);
    for sample in samples {
        let place = sample.place();
        if let Some(payload) = &sample.payload {
            told = format!("{told}\n{place} is {payload}");
        }
        if let Some(first) = &sample.same_id_as {
            told = format!(
                "{told}\n{place} has the event id of {first}: it is settled as a duplicate, or \
                 parked as `mismatch` if its content differs"
            );
        }
    }
    told
}
