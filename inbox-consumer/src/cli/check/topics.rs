//! What `check` thinks of topics: how they are kept, where the consumer stands in them, what is in them.

use std::collections::{BTreeMap, BTreeSet};

use humantime::format_duration as duration;
use inbox_store::internal::port::{Finding, PartitionRow};
use kafka_kit::internal::{LogFacts, TopicFacts};
use outbox_core::{IdScope, ReadError, Reader};
use service_kit::docs_url;

use crate::config::{Config, Events, Unwanted};

fn doubt(text: String) -> Finding {
    Finding { fatal: false, text }
}

fn fatal(text: String) -> Finding {
    Finding { fatal: true, text }
}

/// How a topic is kept, and whether that is enough.
pub(crate) fn kept(facts: &TopicFacts, config: &Config) -> Vec<Finding> {
    let TopicFacts { topic, replicas_min, leaderless, .. } = facts;
    let mut found = Vec::from_iter(batches(facts, config));
    if !leaderless.is_empty() {
        found.push(doubt(format!(
            "topic {topic} has partitions without a leader ({leaderless:?}): they are not read \
             until a broker that holds them is up"
        )));
    }
    let Some(kept) = &facts.policy else {
        found.push(doubt(format!(
            "the retention of topic {topic} is unknown: the user may not describe its \
             configuration; grant DESCRIBE_CONFIGS on the topic to have it compared with \
             `retention.inbox`"
        )));
        return found;
    };
    found.extend(retention(facts, config));
    if kept.compacted {
        found.push(doubt(format!(
            "topic {topic} is compacted (cleanup.policy): only the last event of each key is \
             kept, so a lagging consumer never sees the others; set cleanup.policy=delete for a \
             topic of events"
        )));
    }
    if kept.unclean_election {
        found.push(doubt(format!(
            "topic {topic} has unclean.leader.election.enable=true: acknowledged events can be \
             lost and their offsets reused (the partition then stalls as `rewritten` or \
             `reused`); set it to false"
        )));
    }
    if *replicas_min == 1 {
        found.push(doubt(format!(
            "topic {topic} has replication factor 1: losing that broker loses its events; use 3 \
             in production"
        )));
    } else if kept.in_sync_min <= 1 {
        found.push(doubt(format!(
            "topic {topic} has min.insync.replicas=1: an acknowledged event may exist on one \
             broker only; set it to 2"
        )));
    }
    if kept.in_sync_min > *replicas_min && *replicas_min > 0 {
        found.push(doubt(format!(
            "topic {topic} has min.insync.replicas={} and {replicas_min} replicas: producers with \
             acks=all are refused; lower the first or raise the second",
            kept.in_sync_min
        )));
    }
    found
}

/// librdkafka's default of `receive.message.max.bytes`.
const ANSWER_BYTES_MAX: u64 = 100_000_000;

/// A batch that the broker takes should be one that the client can read.
fn batches(facts: &TopicFacts, config: &Config) -> Option<Finding> {
    let taken = facts.policy.as_ref()?.batch_bytes_max?;
    let settings = config.kafka.client_settings();
    let set = settings.iter().find(|(name, _)| name == "receive.message.max.bytes");
    let read = set.and_then(|(_, value)| value.parse().ok()).unwrap_or(ANSWER_BYTES_MAX);
    (taken > read).then(|| {
        doubt(format!(
            "topic {} accepts batches of {taken} bytes (max.message.bytes), and this client reads \
             {read} (`receive.message.max.bytes` in [kafka.raw]): a larger batch stalls its \
             partition as `unreadable_batch`; lower the first or raise the second",
            facts.topic
        ))
    })
}

/// A copy that a producer sends within the topic's retention should be recognised.
fn retention(facts: &TopicFacts, config: &Config) -> Vec<Finding> {
    let Some(kept) = &facts.policy else { return Vec::new() };
    let (topic, inbox) = (&facts.topic, config.retention.inbox);
    let mut found = Vec::new();
    let text = match kept.time {
        Some(time) if time <= inbox => None,
        Some(time) => Some(format!("keeps records for {}", duration(time))),
        None => Some("keeps records forever".to_owned()),
    };
    if let Some(text) = text {
        found.push(doubt(format!(
            "topic {topic} {text}, `retention.inbox` is {}: a group reset to the beginning is \
             still safe, but a duplicate that a producer sends later than that is handled as a \
             new event; raise `retention.inbox` if producers send that late",
            duration(inbox)
        )));
    }
    if let Some(bytes) = kept.bytes {
        found.push(doubt(format!(
            "topic {topic} keeps at most {bytes} bytes of a partition (retention.bytes): a burst \
             can delete events before the consumer has read them, regardless of retention.ms; set \
             it to -1"
        )));
    }
    found
}

/// Partitions of which the next event to settle is near its end.
pub(crate) fn behind(facts: &TopicFacts, logs: &[LogFacts], rows: &[PartitionRow]) -> Vec<Finding> {
    let Some(time) = facts.policy.as_ref().and_then(|kept| kept.time) else { return Vec::new() };
    let logs = logs.iter().filter(|log| *log.partition.topic == *facts.topic);
    let late = logs.filter_map(|log| {
        let number = log.partition.partition;
        let row = rows
            .iter()
            .find(|row| !row.retired && row.topic == facts.topic && row.partition == number);
        let settled = row.map(|row| row.watermark).or(log.committed.map(|next| next.0))?;
        let half = facts.half_time.get(&number)?.0;
        (settled < half && settled < log.log.end.0).then(|| {
            doubt(format!(
                "{}/{number} is behind: its next event, at offset {settled}, is older than {}, \
                 half of the topic's retention; start consumers, or raise retention.ms of the \
                 topic before unhandled events are deleted",
                facts.topic,
                duration(time / 2)
            ))
        })
    });
    late.collect()
}

/// Partitions that the topic has and the consumer has never had, although it has had others.
pub(crate) fn added(facts: &TopicFacts, rows: &[PartitionRow]) -> Option<Finding> {
    let of_topic = rows.iter().filter(|row| !row.retired && row.topic == facts.topic);
    let known: BTreeSet<i32> = of_topic.map(|row| row.partition).collect();
    let all = i32::try_from(facts.partitions).unwrap_or(i32::MAX);
    if known.is_empty() {
        return None;
    }
    let fresh: Vec<i32> = (0..all).filter(|number| !known.contains(number)).collect();
    let gone: Vec<i32> = known.iter().copied().filter(|number| *number >= all).collect();
    if !gone.is_empty() && all > 0 {
        return Some(doubt(format!(
            "topic {} has {all} partitions, but the database also has {gone:?}: the topic was \
             re-created with fewer; check that their events are settled, then retire them",
            facts.topic
        )));
    }
    (!fresh.is_empty()).then(|| {
        doubt(format!(
            "topic {} has partitions that this consumer has never owned ({fresh:?}), though it \
             has owned others: if they were added to a running topic, producers send events of \
             one aggregate to two partitions, and their order is not kept; let the old events be \
             settled before producers continue, or see `inbox_aggregates_strayed_total`",
            facts.topic
        ))
    })
}

/// Partitions that stand still, as their owners say.
pub(crate) fn standing(rows: &[PartitionRow]) -> Vec<Finding> {
    let told = rows.iter().filter(|row| !row.retired).filter_map(|row| {
        let why = row.standstill.as_ref()?;
        Some(doubt(format!(
            "{}/{} is stalled: {why}; see {}",
            row.topic,
            row.partition,
            docs_url(&format!("operations#{}", why.split(':').next().unwrap_or_default()))
        )))
    });
    told.collect()
}

/// Partitions whose ids are of another scope.
pub(crate) fn id_scope(rows: &[PartitionRow], wanted: IdScope) -> Option<Finding> {
    let others = rows.iter().filter(|row| !row.retired && row.id_scope != wanted);
    let places: Vec<String> =
        others.map(|row| format!("{}/{}", row.topic, row.partition)).collect();
    (!places.is_empty()).then(|| {
        fatal(format!(
            "the database holds ids of another scope than `events.id_scope` for {}: they would \
             stall as `id_scope`; restore the setting, or change the inbox: {}",
            places.join(", "),
            docs_url("operations#id_scope")
        ))
    })
}

/// Partitions that would be divided anew.
pub(crate) fn lanes(
    rows: &[PartitionRow],
    count: u16,
    rule: &dyn Fn(&str) -> String,
) -> Vec<Finding> {
    let mut by_setting: BTreeMap<(i32, &str, String), Vec<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.retired) {
        let (place, rule) = (format!("{}/{}", row.topic, row.partition), rule(&row.topic));
        let setting = (row.lane_count, row.lane_rule.as_str(), rule);
        if setting.0 != i32::from(count) || setting.1 != setting.2 {
            by_setting.entry(setting).or_default().push(place);
        }
    }
    let told = by_setting.into_iter().map(|((had, had_rule, rule), places)| {
        let what = match (had == i32::from(count), had_rule == rule) {
            (false, true) => format!("{had} lanes, `lanes.count` is {count}"),
            (true, _) => format!(
                "the lane rule {had_rule:?}, this build and configuration have \
                                  {rule:?}"
            ),
            (false, false) => format!(
                "{had} lanes by the rule {had_rule:?}, the configuration has {count} by {rule:?}"
            ),
        };
        doubt(format!(
            "the database has {} with {what}: each owner changes its partitions once nothing in \
             them is settled ahead of the watermark, and `status` shows which are waiting; \
             processes with different settings keep changing them back, so give all of them the \
             same settings",
            places.join(", ")
        ))
    });
    told.collect()
}

/// What the newest records say of the handlers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) doubts: Vec<Finding>,
    pub(crate) notes: Vec<String>,
}

/// What becomes of what nobody can take.
fn fate(unwanted: Unwanted, reason: &str) -> String {
    match unwanted {
        Unwanted::Park => format!("would be parked as `{reason}`"),
        Unwanted::Ignore => "are ignored".into(),
        Unwanted::DeadLetter => "are sent to `events.dead_letter_topic`".into(),
    }
}

/// Types without a handler, handlers without a type, records that cannot be read; of all topics together.
pub(crate) fn types(
    topics: &[TopicFacts],
    reader: &Reader,
    known: &dyn Fn(&str) -> bool,
    (handled, remedy): (&[&str], &str),
    events: &Events,
) -> Sampled {
    let (mut seen, mut unread, mut all) = (BTreeMap::<String, usize>::new(), Vec::new(), 0_usize);
    for facts in topics {
        for (partition, offset, record) in &facts.sample {
            all += 1;
            match reader.read(&facts.topic, *partition, *offset, record) {
                Ok(event) => *seen.entry(event.event_type.to_string()).or_default() += 1,
                Err(ReadError::NoEvent { .. }) => {}
                Err(error) => {
                    unread.push(format!("{}/{partition} at offset {offset}: {error}", facts.topic));
                }
            }
        }
    }
    let mut sampled = Sampled::default();
    if let Some(first) = unread.first() {
        sampled.doubts.push(doubt(format!(
            "{} of the {all} newest records cannot be read as events and {}, such as {first}; fix \
             the producer, or [events]",
            unread.len(),
            fate(events.undecodable, "undecodable")
        )));
    }
    for (event_type, count) in seen.iter().filter(|(event_type, _)| !known(event_type)) {
        let outcome = fate(events.unknown_type, "unknown_type");
        sampled.doubts.push(doubt(format!(
            "{count} of the {all} newest records are events of type `{event_type}`, which has no handler: \
             they {outcome}; {remedy}"
        )));
    }
    let unseen = handled.iter().filter(|event_type| all > 0 && !seen.contains_key(**event_type));
    sampled.notes.extend(unseen.map(|event_type| {
        format!(
            "none of the {all} newest records has the type `{event_type}` of a handler; check the \
             name unless the type is rare"
        )
    }));
    sampled
}
