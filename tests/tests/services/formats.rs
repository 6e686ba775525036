//! Formats of other systems through the whole pipeline: what handlers are given, what is parked, what is ignored; and,
//! from a real Kafka, topics that are read in different ways.

use inbox_consumer::{
    Event, Handler, HandlerResult, Routes, Tx,
    config::{EventTopic, EventTopics, Format},
    testing::{HandlerTest, Header, Outcome, Record},
};
use serde_json::Value;
use sqlx::{Postgres, Sqlite};
use tests::{SOON, Services, Stage, eventually};

use super::commands::{ran, worker};

const TABLES: &str = "CREATE TABLE seen (tenant text, payload text NOT NULL)";

/// Writes down what it is given.
struct See;

macro_rules! see_on {
    ($($database:ty)*) => {
        $(impl Handler<$database> for See {
            type Event = Value;

            async fn handle(&self, event: &Event<Value>, tx: &mut Tx<'_, $database>) -> HandlerResult {
                let tenant = event.header("ce_tenant").map(|value| String::from_utf8_lossy(value).into_owned());
                let insert = "INSERT INTO seen (tenant, payload) VALUES ($1, $2)";
                let payload = event.payload.to_string();
                sqlx::query(insert).bind(tenant).bind(payload).execute(&mut *tx).await?;
                Ok(())
            }
        })*
    };
}
see_on! { Postgres Sqlite }

fn record(key: &str, headers: &[(&str, &str)], value: Option<&str>) -> Record {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).into(),
        value: Some((*value).to_owned().into()),
    };
    Record {
        key: Some(key.to_owned().into()),
        headers: headers.iter().map(header).collect(),
        payload: value.map(|text| text.to_owned().into()),
        timestamp_ms: None,
    }
}

async fn bench(format: Format) -> HandlerTest<Sqlite> {
    let mut bench = HandlerTest::sqlite().await.unwrap();
    bench.execute(TABLES).await.unwrap();
    bench.configure(|config| config.events.format = format);
    bench
}

const CLOUD: &str = r#"{"specversion":"1.0","id":"17","source":"/shop","type":"Paid","tenant":"acme","data":{"n":1}}"#;

#[tokio::test]
async fn a_structured_cloud_event_gives_its_extensions_as_headers() {
    let mut bench = bench(Format::CloudEvents).await;
    bench.handle(Routes::default().on("Paid", See)).await.unwrap();
    let content = [("content-type", "application/cloudevents+json")];
    let structured = record("7", &content, Some(CLOUD));
    assert_eq!(bench.deliver_record(&structured).await.unwrap(), Outcome::Applied);
    // In the other mode it is the same event.
    let attributes = [("ce_id", "17"), ("ce_source", "/shop"), ("ce_type", "Paid")];
    let binary = record("7", &attributes, Some(r#"{"n":1}"#));
    assert_eq!(bench.deliver_record(&binary).await.unwrap(), Outcome::Duplicate);
    let seen = r#"SELECT count(*) FROM seen WHERE tenant = 'acme' AND payload = '{"n":1}'"#;
    assert_eq!(bench.number(seen).await.unwrap(), 1);
    let batch = record("7", &[("content-type", "application/cloudevents-batch+json")], Some("[]"));
    assert_eq!(bench.deliver_record(&batch).await.unwrap().reason(), "undecodable");
    bench.close().await.unwrap();
}

#[tokio::test]
async fn what_debezium_sends_besides_changes_is_ignored() {
    let mut bench = bench(Format::DebeziumRaw).await;
    bench.handle(Routes::default().on("orders.created", See)).await.unwrap();
    let change = |processed: u32| {
        format!(
            r#"{{"before":null,"after":{{"id":7}},"source":{{"connector":"postgresql","ts_ms":1,"schema":"public","table":"orders","txId":7,"lsn":8}},"op":"c","ts_ms":{processed}}}"#
        )
    };
    let of = |processed| record(r#"{"id":7}"#, &[], Some(&change(processed)));
    assert_eq!(bench.deliver_record(&of(1)).await.unwrap(), Outcome::Applied);
    assert_eq!(bench.deliver_record(&of(2)).await.unwrap(), Outcome::Duplicate, "sent again");
    let tombstone = record(r#"{"id":7}"#, &[], None);
    assert_eq!(bench.deliver_record(&tombstone).await.unwrap(), Outcome::Ignored);
    assert_eq!(bench.number("SELECT count(*) FROM seen").await.unwrap(), 1);
    assert_eq!(bench.number("SELECT count(*) FROM inbox_parked").await.unwrap(), 0);
    bench.close().await.unwrap();
}

/// A connector that is killed sends changes again, and by then the table may have other columns: what it fills in for
/// those that the log does not have is different. The log has one deletion at one place.
#[tokio::test]
async fn a_change_that_is_sent_again_after_the_table_was_altered_is_a_copy() {
    let mut bench = bench(Format::DebeziumRaw).await;
    let done = ["created", "updated", "deleted"];
    let on = |routes: Routes<Sqlite>, done| routes.on(&format!("orders.{done}"), See);
    bench.handle(done.into_iter().fold(Routes::default(), on)).await.unwrap();
    let change = |op: &str, before: &str, after: &str| {
        let source = r#"{"connector":"postgresql","ts_ms":1,"schema":"public","table":"orders","txId":7,"lsn":8}"#;
        let value = format!(
            r#"{{"before":{before},"after":{after},"source":{source},"op":"{op}","ts_ms":1}}"#
        );
        record(r#"{"id":7}"#, &[], Some(&value))
    };
    for (first, again) in [
        (
            change("d", r#"{"id":7,"n":0,"old":0}"#, "null"),
            change("d", r#"{"id":7,"n":0,"new":null}"#, "null"),
        ),
        (
            change("u", "null", r#"{"id":7,"n":1}"#),
            change("u", "null", r#"{"id":7,"n":1,"new":null}"#),
        ),
    ] {
        assert_eq!(bench.deliver_record(&first).await.unwrap(), Outcome::Applied);
        assert_eq!(bench.deliver_record(&again).await.unwrap(), Outcome::Duplicate);
    }
    // Two rows of one COPY under a key that is not theirs alone are not the same.
    let first = change("c", "null", r#"{"id":7,"n":1}"#);
    let other = change("c", "null", r#"{"id":7,"n":2}"#);
    assert_eq!(bench.deliver_record(&first).await.unwrap(), Outcome::Applied);
    assert_eq!(bench.deliver_record(&other).await.unwrap().reason(), "mismatch");
    bench.close().await.unwrap();
}

/// Two topics in two formats, each partition with the lane rule of its topic; and what `check` and `events` say.
#[tokio::test]
async fn topics_are_read_in_formats_of_their_own() {
    let services = Services::from_env();
    let mut stage = Stage::set("formats", 1).await;
    let outbox = services.topic("formats-outbox", 1).await;
    stage.schema.run(TABLES).await;
    stage.config.kafka.topics.push(outbox.name().to_owned());
    let rules =
        serde_json::from_str(r#"{"type": "value:Paid", "aggregate_type": "topic"}"#).unwrap();
    stage.config.events.topics = EventTopics(vec![EventTopic {
        topic: outbox.name().to_owned(),
        format: Format::DebeziumOutbox,
        rules: Some(rules),
        debezium: None,
    }]);
    let own = tests::Record::event("1", "Paid", "7", r#"{"own":1}"#);
    stage.send(&[own]).await;
    let routed = tests::Record::default().header("id", "2").key("\"7\"");
    let routed = routed.payload(r#""{\"outbox\":1}""#);
    tests::Producer::new(outbox.bootstrap()).send(outbox.name(), &[routed]).await;

    let running = stage.start(Routes::default().on("Paid", See)).await;
    let count = async |sql: &str| stage.schema.number(sql).await;
    eventually(SOON, "both effects", async || count("SELECT count(*) FROM seen").await == 2).await;
    assert_eq!(count(r#"SELECT count(*) FROM seen WHERE payload = '{"outbox":1}'"#).await, 1);
    let rules = "SELECT count(DISTINCT lane_rule) FROM inbox_partitions";
    assert_eq!(count(rules).await, 2, "each by its topic's rule");
    running.stop().await;

    let topics = format!("{},{}", stage.topic.name(), outbox.name());
    let mut command = worker(&stage);
    command.env("INBOX_KAFKA__TOPICS", &topics);
    let (code, out, err) = ran(command, "events detect").await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains("format = \"own\"") && out.contains("format = \"debezium-outbox\""),
        "{out}"
    );
    let mut command = worker(&stage);
    command.env("INBOX_KAFKA__TOPICS", &topics);
    let (_, out, err) = ran(command, "check --json --sample 3").await;
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let sample = told["sample"].as_array().unwrap();
    assert_eq!(sample.len(), 2, "{out}");
    let why = |topic: &str| sample.iter().find(|it| it["topic"] == topic).unwrap();
    assert_eq!(why(stage.topic.name())["event_type"], "Paid");
    let why = why(outbox.name())["why_not"].as_str().unwrap();
    assert!(why.starts_with("parked as `undecodable`"), "{why}");
}
