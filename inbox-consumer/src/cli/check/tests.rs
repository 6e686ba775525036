//! What `check` finds, each finding with what to change, and how it tells.

use std::{collections::BTreeMap, time::Duration};

use inbox_engine::internal::{LogRange, NextOffset};
use kafka_kit::internal::{LogFacts, TopicFacts, TopicPolicy};
use outbox_core::{Header, IdScope, Reader, Record, TopicPartition, header_names};

use super::{topics::Sampled, *};
use crate::{
    Event, Handler, HandlerResult, Tx,
    config::{Events, Unwanted},
};

const DAY: Duration = Duration::from_hours(24);

fn config() -> Config {
    Config::new("billing", "localhost:9092", ["orders"], "postgres://user@localhost/billing")
}

/// A topic that nothing is wrong with.
fn topic() -> TopicFacts {
    TopicFacts {
        topic: "orders".into(),
        partitions: 3,
        replicas_min: 3,
        policy: Some(TopicPolicy { time: Some(DAY), in_sync_min: 2, ..TopicPolicy::default() }),
        half_time: BTreeMap::from([(0, NextOffset(50))]),
        ..TopicFacts::default()
    }
}

fn kept(change: impl FnOnce(&mut TopicFacts)) -> Vec<String> {
    let mut topic = topic();
    change(&mut topic);
    let found = topics::kept(&topic, &config());
    assert!(found.iter().all(|finding| !finding.fatal), "{found:?}");
    found.into_iter().map(|finding| finding.text).collect()
}

#[track_caller]
fn one(found: Vec<String>, start: &str, advice: &str) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(start) && found[0].contains(advice), "{found:?}");
}

/// The settings of [`topic`], changed.
fn settings(change: impl FnOnce(&mut TopicPolicy)) -> Vec<String> {
    kept(|topic| change(topic.policy.as_mut().unwrap()))
}

#[test]
fn a_topic_that_is_kept_well_is_not_complained_about() {
    assert_eq!(kept(|_| ()), [""; 0]);
}

#[test]
fn a_topic_that_outlives_the_inbox_is_doubtful() {
    let month = Duration::from_hours(24 * 30);
    let start = "topic orders keeps records for 30days";
    one(settings(|kept| kept.time = Some(month)), start, "`retention.inbox` is 7days");
    let start = "topic orders keeps records forever";
    one(settings(|kept| kept.time = None), start, "raise `retention.inbox`");
}

#[test]
fn settings_that_lose_events_are_told() {
    let start = "topic orders keeps at most 1000 bytes of a partition";
    one(settings(|kept| kept.bytes = Some(1_000)), start, "set it to -1");
    let start = "topic orders is compacted";
    one(settings(|kept| kept.compacted = true), start, "cleanup.policy=delete");
    let start = "topic orders has unclean.leader.election.enable=true";
    one(settings(|kept| kept.unclean_election = true), start, "set it to false");
    let start = "topic orders has min.insync.replicas=1";
    one(settings(|kept| kept.in_sync_min = 1), start, "set it to 2");
    let start = "topic orders has min.insync.replicas=4 and 3 replicas";
    one(settings(|kept| kept.in_sync_min = 4), start, "lower the first");
    let start = "topic orders accepts batches of 100000001 bytes";
    one(settings(|kept| kept.batch_bytes_max = Some(100_000_001)), start, "`unreadable_batch`");
    let single = |topic: &mut TopicFacts| {
        topic.replicas_min = 1;
        topic.policy.as_mut().unwrap().in_sync_min = 1;
    };
    one(kept(single), "topic orders has replication factor 1", "use 3");
    let start = "topic orders has partitions without a leader ([1])";
    one(kept(|topic| topic.leaderless = vec![1]), start, "until a broker");
}

#[test]
fn a_topic_whose_settings_may_not_be_seen_says_so() {
    let start = "the retention of topic orders is unknown";
    one(kept(|topic| topic.policy = None), start, "DESCRIBE_CONFIGS");
}

fn row(partition: i32, watermark: i64) -> PartitionRow {
    PartitionRow {
        topic: "orders".into(),
        topic_id: [7; 16],
        partition,
        watermark,
        reached: watermark,
        epoch: 1,
        lane_count: 16,
        lane_rule: "xxh3-64/1:key".into(),
        next_lanes: None,
        id_scope: IdScope::Consumer,
        owner: None,
        owner_seen_seconds: None,
        parked_aggregates: 0,
        gaps: 0,
        parked_events: 0,
        standstill: None,
        held_lanes: None,
        retired: false,
    }
}

fn log(committed: Option<i64>) -> LogFacts {
    LogFacts {
        partition: TopicPartition { topic: "orders".into(), partition: 0 },
        log: LogRange { start: NextOffset(0), end: NextOffset(100) },
        committed: committed.map(NextOffset),
    }
}

#[test]
fn a_consumer_that_is_behind_by_half_the_retention_is_told() {
    let texts = |rows: &[PartitionRow], committed| -> Vec<String> {
        let found = topics::behind(&topic(), &[log(committed)], rows);
        found.into_iter().map(|finding| finding.text).collect()
    };
    assert_eq!(texts(&[row(0, 50)], Some(10)), [""; 0], "the database's word counts");
    one(texts(&[row(0, 49)], None), "orders/0 is behind: its next event, at offset 49", "raise");
    one(texts(&[], Some(10)), "orders/0 is behind", "12h");
    assert_eq!(texts(&[], None), [""; 0], "a consumer that has never run is not behind");
}

#[test]
fn partitions_that_were_added_or_are_gone_are_told() {
    let text = |partitions: usize, rows: &[PartitionRow]| {
        let facts = TopicFacts { partitions, ..topic() };
        topics::added(&facts, rows).map(|finding| finding.text).unwrap_or_default()
    };
    assert_eq!(text(2, &[row(0, 1), row(1, 1)]), "");
    assert_eq!(text(3, &[]), "", "the first start has had none");
    let added = text(3, &[row(0, 1), row(1, 1)]);
    assert!(added.contains("never owned ([2])") && added.contains("order"), "{added}");
    let gone = text(1, &[row(0, 1), row(1, 1)]);
    assert!(gone.contains("also has [1]") && gone.contains("retire"), "{gone}");
    let retired = PartitionRow { retired: true, ..row(1, 1) };
    assert_eq!(text(1, &[row(0, 1), retired]), "");
}

#[test]
fn lane_settings_that_differ_from_the_database_s_are_told() {
    let texts = |count, rule: &str| -> Vec<String> {
        let found = topics::lanes(&[row(0, 1), row(1, 1)], count, &|_| rule.to_owned());
        found.into_iter().map(|finding| finding.text).collect()
    };
    let rule = "xxh3-64/1:key";
    assert_eq!(texts(16, rule), [""; 0]);
    let start = "the database has orders/0, orders/1 with 16 lanes, `lanes.count` is 32";
    one(texts(32, rule), start, "give all of them the same");
    let start = "the database has orders/0, orders/1 with the lane rule \"xxh3-64/1:key\"";
    one(texts(16, "xxh3-64/1:header:x"), start, "ahead of the watermark");
}

fn record(event_type: &str) -> Record {
    let header = |name: &str, value: &str| Header {
        name: name.to_owned().into(),
        value: Some(value.to_owned().into()),
    };
    let id = header(header_names::EVENT_ID, "7");
    let headers = vec![id, header(header_names::EVENT_TYPE, event_type)];
    Record { key: Some("a".into()), headers, payload: None, timestamp_ms: None }
}

fn sampled(records: Vec<Record>, parks: bool) -> Sampled {
    let sample = (0..).zip(records).map(|(offset, record)| (0, offset, record)).collect();
    let facts = TopicFacts { sample, ..topic() };
    let known = |event_type: &str| ["OrderPaid", "OrderSent"].contains(&event_type);
    let reader = Reader::own(1_000);
    let unknown_type = if parks { Unwanted::Park } else { Unwanted::Ignore };
    let events = Events { unknown_type, ..Events::default() };
    topics::types(&[facts], &reader, &known, (&["OrderPaid", "OrderSent"], "register one"), &events)
}

#[test]
fn types_without_a_handler_and_handlers_without_a_type_are_told() {
    assert_eq!(sampled(vec![], true), Sampled::default(), "an empty topic says nothing");
    assert_eq!(sampled(vec![record("OrderPaid"), record("OrderSent")], true), Sampled::default());
    let found = sampled(vec![record("OrderPaid"), record("OrderPayed")], true);
    let texts: Vec<String> = found.doubts.into_iter().map(|finding| finding.text).collect();
    let start = "1 of the 2 newest records are events of type `OrderPayed`, which has no handler";
    one(texts, start, "parked as `unknown_type`");
    one(found.notes, "none of the 2 newest records has the type `OrderSent`", "name");
    let ignored = sampled(vec![record("Other")], false).doubts;
    assert!(ignored[0].text.contains("they are ignored"), "{ignored:?}");
}

#[test]
fn records_that_are_no_events_are_told() {
    let found = sampled(vec![Record { headers: vec![], ..record("x") }], true).doubts;
    let texts: Vec<String> = found.into_iter().map(|finding| finding.text).collect();
    one(texts, "1 of the 1 newest records cannot be read as events", "orders/0 at offset 0");
}

#[test]
fn a_sample_shows_what_each_record_is() {
    struct Paid;
    impl Handler<sqlx::Postgres> for Paid {
        type Event = i64;
        async fn handle(&self, _: &Event<i64>, _: &mut Tx<'_, sqlx::Postgres>) -> HandlerResult {
            Ok(())
        }
    }
    let routes = Routes::default().on("OrderPaid", Paid).freeze().unwrap();
    let unreadable = Record { key: Some("7".into()), ..Record::default() };
    let sample = [record("old"), record("OrderPaid"), record("Other"), unreadable];
    let sample = sample.into_iter().zip(0..).map(|(record, offset)| (1, offset, record));
    let facts = [TopicFacts { sample: sample.collect(), ..topic() }];
    let reader = Reader::own(1_000);
    let samples = sample::samples(&facts, 3, (&reader, &routes), &config());
    let types: Vec<_> = samples.iter().map(|sample| sample.event_type.as_deref()).collect();
    assert_eq!(types, [Some("OrderPaid"), Some("Other"), None]);
    assert!(samples[0].handler.is_some_and(|handler| handler.contains("Paid")), "{samples:?}");
    assert_eq!(samples[1].why_not.as_deref(), Some("parked as `unknown_type`"));
    let why = samples[2].why_not.as_deref().unwrap();
    assert!(why.starts_with("parked as `undecodable`: the record has no event id"), "{why}");
    let table = sample::rendered(&samples);
    assert!(table.contains("orders/1@1") && table.contains("handled by"), "{table}");
    assert_eq!(sample::samples(&facts, 200, (&reader, &routes), &config()).len(), 4);
    let report = CheckReport::default();
    let document = CheckWithSample { findings: report.document(), sample: Some(&samples) };
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(json["sample"][0]["event_type"], "OrderPaid");
    assert_eq!((&json["startable"], &json["findings"]), (&true.into(), &serde_json::json!([])));
    assert!(sample::rendered(&[]).starts_with("no records"));
}

#[test]
fn two_sessions_with_one_process_mean_a_pooler() {
    assert_eq!(pooled(7, 8, 100), None);
    assert_eq!(pooled(7, 7, 0), None, "it is told of the pooler already");
    let finding = pooled(7, 7, 100).unwrap();
    assert!(finding.fatal && finding.text.contains("`database.statement_cache` to 0"));
}

#[test]
fn the_report_of_check_is_its_snapshot() {
    let mut report = CheckReport::default();
    let mut text = format!("{}\n\n", report.rendered());
    let found = |findings: Vec<Finding>| {
        findings.into_iter().map(|finding| (finding.fatal, finding.text)).collect::<Vec<_>>()
    };
    let topic = |change: fn(&mut TopicFacts)| {
        let mut topic = topic();
        change(&mut topic);
        topics::kept(&topic, &config())
    };
    report.add("kafka", found(topic(|topic| topic.replicas_min = 1)));
    report.add("kafka", found(topic(|topic| topic.policy.as_mut().unwrap().compacted = true)));
    report.add("kafka", found(topic(|topic| topic.policy.as_mut().unwrap().time = None)));
    report.add("kafka", found(topics::behind(&self::topic(), &[log(None)], &[row(0, 49)])));
    let stalled = PartitionRow { standstill: Some("reused: offset 7".into()), ..row(1, 10) };
    report.add("kafka", found(topics::standing(&[stalled])));
    text.push_str(&report.rendered());
    report.add("database", found(pooled(7, 7, 100).into_iter().collect()));
    report.note("handlers", ["none of the 20 newest records has the type `OrderPaid`".to_owned()]);
    crate::cli::snapshots::snapshot("check", &format!("{text}\n\n{}", report.rendered()));
}
