//! Payloads of Avro and Protobuf by a schema registry, on real services. The registry is served here.

use std::sync::Arc;

use apache_avro::{Schema, types::Value as Avro, writer::datum::GenericDatumWriter};
use inbox_consumer::{
    Event, Handler, HandlerResult, Routes, Tx,
    config::{Declared, DeclaredMode, Format},
};
use inbox_schemas::RegistrySettings;
use outbox_core::{DebeziumRouter, Upcasts};
use serde::Deserialize;
use sqlx::Postgres;
use tests::{Record, SOON, Stage, eventually, registry::Registry};

use super::commands::{ran, worker};

const V1: &str = r#"{"type": "record", "name": "Paid", "fields": [
    {"name": "cents", "type": "long"}]}"#;
const V2: &str = r#"{"type": "record", "name": "Paid", "fields": [
    {"name": "cents", "type": "long"}, {"name": "currency", "type": "string", "default": "EUR"}]}"#;
const PROTOBUF: &str = r#"syntax = "proto3";
    message Ignored { int32 n = 1; }
    message Paid { int64 cents = 1; string currency = 2; }"#;

const TABLE: &str =
    "CREATE TABLE payments (event_id uuid PRIMARY KEY, cents bigint, currency text)";

/// A payload in the wire format.
fn framed(id: u8, body: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, id], body].concat()
}

fn v1(cents: i64) -> Vec<u8> {
    avro(1, V1, vec![("cents".into(), Avro::Long(cents))])
}

fn v2(cents: i64, currency: &str) -> Vec<u8> {
    let currency = Avro::String(currency.into());
    avro(2, V2, vec![("cents".into(), Avro::Long(cents)), ("currency".into(), currency)])
}

fn avro(id: u8, schema: &str, fields: Vec<(String, Avro)>) -> Vec<u8> {
    let schema = Schema::parse_str(schema).unwrap();
    let writer = GenericDatumWriter::builder(&schema).build().unwrap();
    framed(id, &writer.write_value_to_vec(Avro::Record(fields)).unwrap())
}

/// The second message of its file.
fn protobuf(cents: u8, currency: &str) -> Vec<u8> {
    let text = [&[0x12, u8::try_from(currency.len()).unwrap()], currency.as_bytes()].concat();
    framed(3, &[&[2, 2, 0x08, cents], &text[..]].concat())
}

fn event(id: &str, aggregate: &str, payload: Vec<u8>) -> Record {
    Record::event(id, "Paid", aggregate, "").payload(payload)
}

async fn registry() -> Registry {
    let registry = Registry::serve().await;
    registry.register(1, "AVRO", V1);
    registry.register(2, "AVRO", V2);
    registry.register(3, "PROTOBUF", PROTOBUF);
    registry
}

/// A declared handler that writes payments down, in both modes by turns.
fn handler(mode: DeclaredMode) -> Declared {
    let columns = [("cents", "int8"), ("currency", "text?")];
    let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
    Declared {
        event_type: "Paid".into(),
        mode,
        columns: columns.map(owned).into(),
        sql: "INSERT INTO payments SELECT event_id, cents, currency FROM events".into(),
        ..Declared::default()
    }
}

async fn stage(registry: &Registry, mode: DeclaredMode) -> Stage {
    let mut stage = Stage::set("schemas", 1).await;
    stage.schema.run(TABLE).await;
    stage.config.schemas.registry = registry.url().to_owned();
    stage.config.handlers = vec![handler(mode)];
    stage
}

async fn settled(stage: &Stage, payments: i64, parked: i64) {
    eventually(SOON, "all is settled", async || {
        stage.schema.number("SELECT count(*) FROM payments").await == payments
            && stage.parked("").await == parked
    })
    .await;
}

#[tokio::test]
async fn declared_handlers_read_avro_and_protobuf_as_they_read_json() {
    for mode in [DeclaredMode::Each, DeclaredMode::Run] {
        let registry = registry().await;
        let stage = stage(&registry, mode).await;
        let consumer = stage.start(Routes::default()).await;
        stage
            .send(&[
                event("a-1", "a", v1(100)),
                event("b-1", "b", v2(200, "CHF")),
                event("c-1", "c", protobuf(7, "USD")),
                // Cut off; of another format than it says.
                event("d-1", "d", framed(2, &[2, 6, b'x'])),
                event("e-1", "e", b"{}".to_vec()),
            ])
            .await;
        settled(&stage, 3, 2).await;
        for (cents, currency) in [(100, "IS NULL"), (200, "= 'CHF'"), (7, "= 'USD'")] {
            let sql = format!(
                "SELECT count(*) FROM payments WHERE cents = {cents} AND currency {currency}"
            );
            assert_eq!(stage.schema.number(&sql).await, 1, "{cents}");
        }
        assert_eq!(stage.parked("undecodable").await, 2);
        // Each schema once, and one look at the start.
        assert_eq!(registry.requests(), 4);
        consumer.stop().await;
    }
}

/// As Confluent's `HeaderSchemaIdSerializer` sends it, and as its deserializers look for it: the header first.
#[tokio::test]
async fn a_schema_is_named_by_a_header_or_in_front_of_the_payload() {
    let registry = registry().await;
    let guid = uuid::Uuid::from_u128(0x8979_1762_2336_4186_9674_299b_90a8_02e2);
    registry.register_guid(&guid.to_string(), "AVRO", V2);
    registry.register_guid(&uuid::Uuid::from_u128(7).to_string(), "PROTOBUF", PROTOBUF);
    let stage = stage(&registry, DeclaredMode::Run).await;
    let consumer = stage.start(Routes::default()).await;
    let body = v2(0, "CHF")[5..].to_vec();
    let body = |cents: u8| [&[2 * cents][..], &body[1..]].concat();
    let name = |guid: uuid::Uuid| [&[1][..], guid.as_bytes()].concat();
    let header = "__value_schema_id";
    let protobuf = protobuf(5, "CHF");
    let indexes = [name(uuid::Uuid::from_u128(7)), vec![2, 2]].concat();
    let records = [
        event("a", "a", body(1)).header(header, framed(2, b"")),
        event("b", "b", body(2)).header(header, name(guid)),
        event("c", "c", [name(guid), body(3)].concat()),
        // The header is believed, whatever the payload begins with.
        event("d", "d", body(0)).header(header, name(guid)),
        event("e", "e", protobuf[7..].to_vec()).header(header, indexes),
        // None of these is in a format.
        event("x", "x", body(4)),
        event("y", "y", body(4)).header(header, "2"),
        event("z", "z", body(4)).header(header, name(uuid::Uuid::from_u128(9))),
    ];
    stage.send(&records).await;
    settled(&stage, 5, 3).await;
    let sum = "SELECT sum(cents)::bigint FROM payments WHERE currency = 'CHF'";
    assert_eq!(stage.schema.number(sum).await, 11);
    for said in [
        "the header `__value_schema_id` is missing",
        "the header `__value_schema_id` does not contain a schema",
        "does not have the schema 00000000-0000-0000-0000-000000000009 of the payload",
    ] {
        let sql = format!("SELECT count(*) FROM inbox_parked WHERE record::text LIKE '%{said}%'");
        assert_eq!(stage.schema.number(&sql).await, 1, "{said}");
    }
    consumer.stop().await;
}

/// A column of JSON is a text to a converter, and its schema says no more: what the text holds is the payload, as it is
/// with JsonConverter and StringConverter.
#[tokio::test]
async fn a_text_that_a_converter_wrote_holds_the_payload() {
    let registry = registry().await;
    registry.register(51, "AVRO", r#"["null", "string"]"#);
    registry.register(52, "JSON", r#"{"oneOf": [{"type": "null"}, {"type": "string"}]}"#);
    let json = r#"{"cents": 12, "currency": "CHF"}"#;
    let avro = [&[2, u8::try_from(json.len()).unwrap() * 2][..], json.as_bytes()].concat();
    let quoted = serde_json::to_vec(json).unwrap();
    for (class, payload) in [
        ("io.confluent.connect.avro.AvroConverter", framed(51, &avro)),
        ("io.confluent.connect.json.JsonSchemaConverter", framed(52, &quoted)),
    ] {
        let mut stage = stage(&registry, DeclaredMode::Run).await;
        stage.config.events.format = Format::DebeziumOutbox;
        let router = DebeziumRouter::new([("value.converter", class)]).unwrap();
        stage.config.events.debezium = Some(router);
        let rules = r#"{"aggregate_type": "value:order"}"#;
        stage.config.events.rules = Some(serde_json::from_str(rules).unwrap());
        let consumer = stage.start(Routes::default()).await;
        let record = Record::default().key("order-7").header("id", "1").header("eventType", "Paid");
        stage.send(&[record.payload(payload)]).await;
        settled(&stage, 1, 0).await;
        let sql = "SELECT cents FROM payments WHERE currency = 'CHF'";
        assert_eq!(stage.schema.number(sql).await, 12, "{class}");
        consumer.stop().await;
    }
}

#[tokio::test]
async fn a_registry_that_is_away_parks_nothing_and_all_drains_when_it_is_back() {
    let registry = registry().await;
    registry.set_away(true);
    let stage = stage(&registry, DeclaredMode::Run).await;
    let consumer = stage.start(Routes::default()).await;
    let events: Vec<Record> =
        (0..50).map(|n| event(&format!("e-{n}"), &format!("a{}", n % 7), v1(n))).collect();
    stage.send(&events).await;
    let asked = registry.requests();
    eventually(SOON, "it was asked again", async || registry.requests() > asked + 3).await;
    assert_eq!(stage.parked("").await, 0);
    assert_eq!(stage.schema.number("SELECT count(*) FROM payments").await, 0);
    // Nothing runs yet: whoever ends this process is not to be put down to these events.
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_suspects").await, 0);
    registry.set_away(false);
    settled(&stage, 50, 0).await;
    consumer.stop().await;
}

#[tokio::test]
async fn an_id_that_the_registry_does_not_know_parks_the_event_with_a_sentence() {
    let registry = registry().await;
    let stage = stage(&registry, DeclaredMode::Each).await;
    let consumer = stage.start(Routes::default()).await;
    stage.send(&[event("a-1", "a", framed(9, &[2])), event("b-1", "b", v1(1))]).await;
    settled(&stage, 1, 1).await;
    let said = "does not have the schema 9 of the payload (40403)";
    let sql = format!("SELECT count(*) FROM inbox_parked WHERE record::text LIKE '%{said}%'");
    assert_eq!(stage.schema.number(&sql).await, 1);
    consumer.stop().await;
}

#[derive(Deserialize)]
struct Paid {
    cents: i64,
    currency: Option<String>,
}

/// Writes payments down, with the name of the consumer's build in front of the currency.
struct Write(&'static str);

impl Handler<Postgres> for Write {
    type Event = Paid;

    async fn handle(&self, event: &Event<Paid>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let currency = event.payload.currency.as_deref().unwrap_or("-");
        sqlx::query("INSERT INTO payments VALUES ($1, $2, $3)")
            .bind(uuid::Uuid::from_bytes(*event.id().as_bytes()))
            .bind(event.payload.cents)
            .bind(format!("{} {currency}", self.0))
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

/// A rolling upgrade: producers of both schemas send at once, and each is read by a consumer of both, each by its own
/// schema. An old reader passes over what it does not know, a new one has its default for what was not there.
#[tokio::test]
async fn old_and_new_producers_and_consumers_work_at_once_by_avro() {
    let registry = registry().await;
    let stage = Stage::set("evolution", 2).await;
    stage.schema.run(TABLE).await;
    let codec = inbox_schemas::Registry::new(RegistrySettings::new(registry.url())).unwrap();
    let reading = |schema| codec.clone().with_reader_schema(schema).unwrap();
    let old = stage.start(Routes::default().on_with("Paid", reading(V1), Write("old"))).await;
    let new = stage.start(Routes::default().on_with("Paid", reading(V2), Write("new"))).await;
    let both = Arc::new(tokio::sync::Mutex::new(0_i64));
    let sent = async || {
        let mut from = both.lock().await;
        let to = *from + 20;
        let events = (*from..to).map(|n| {
            let payload = if n % 2 == 0 { v1(n) } else { v2(n, "CHF") };
            event(&format!("e-{n}"), &format!("a{}", n % 16), payload)
        });
        stage.send(&events.collect::<Vec<_>>()).await;
        *from = to;
        to
    };
    // Until each consumer has read from each producer.
    let kinds = "SELECT count(DISTINCT currency) FROM payments";
    eventually(SOON * 3, "each has read both", async || {
        sent().await;
        stage.schema.number(kinds).await >= 3
    })
    .await;
    let all = *both.lock().await;
    settled(&stage, all, 0).await;
    for (currency, of) in [("old -", "old"), ("new EUR", "new"), ("new CHF", "new")] {
        let sql = format!("SELECT count(*) FROM payments WHERE currency = '{currency}'");
        assert!(stage.schema.number(&sql).await > 0, "{of} wrote no {currency}");
    }
    assert_eq!(
        stage.schema.number("SELECT sum(cents)::bigint FROM payments").await,
        all * (all - 1) / 2
    );
    old.stop().await;
    new.stop().await;
}

fn steps() -> Upcasts {
    Upcasts::new().edit(1, |paid| *paid = serde_json::json!({ "cents": paid["amount"] }))
}

/// The same by schema versions of JSON: a consumer of the newer build reads what both producers send; one of the older
/// build parks what it does not know, and the newer one has it by a release.
#[tokio::test]
async fn old_and_new_producers_and_consumers_work_at_once_by_upcasts() {
    let stage = Stage::set("upcasts", 1).await;
    stage.schema.run(TABLE).await;
    let send = async |n: i64, version: &str, payload: String| {
        let event = event(&format!("e-{n}"), &format!("a{n}"), payload.into_bytes());
        stage.send(&[event.header("schema_version", version)]).await;
    };
    let old = stage.start(Routes::default().on_versions("Paid", steps(), Write("old"))).await;
    send(1, "1", r#"{"amount": 1}"#.into()).await;
    send(2, "2", r#"{"cents": 2}"#.into()).await;
    send(3, "3", r#"{"cents": 3, "currency": "CHF"}"#.into()).await;
    settled(&stage, 2, 1).await;
    let said = "schema version 3, and this consumer supports up to 2";
    let sql = format!("SELECT count(*) FROM inbox_parked WHERE record::text LIKE '%{said}%'");
    assert_eq!(stage.schema.number(&sql).await, 1);
    old.stop().await;
    let newer = steps().edit(2, |paid| paid["currency"] = "EUR".into());
    let new = stage.start(Routes::default().on_versions("Paid", newer, Write("new"))).await;
    send(4, "1", r#"{"amount": 4}"#.into()).await;
    stage.schema.run("UPDATE inbox_parked SET intent = 'release', intent_by = 'anna'").await;
    settled(&stage, 4, 0).await;
    let by_new = "SELECT sum(cents)::bigint FROM payments WHERE currency IN ('new CHF', 'new EUR')";
    assert_eq!(stage.schema.number(by_new).await, 7);
    new.stop().await;
}

#[tokio::test]
async fn check_says_what_is_wrong_with_the_registry_and_shows_what_payloads_are() {
    let registry = registry().await;
    let stage = stage(&registry, DeclaredMode::Run).await;
    let folder = tempfile::tempdir().unwrap();
    let handlers = "[[handlers]]\nevent_type = \"Paid\"\ncolumns = { cents = \"int8\" }\nsql = \"INSERT INTO payments \
                    SELECT event_id, cents FROM events\"\n";
    std::fs::write(folder.path().join("consumer.toml"), handlers).unwrap();
    let command = || {
        let mut command = worker(&stage);
        command.env("STOCK", "1").env("INBOX_SCHEMAS__REGISTRY", registry.url());
        command.current_dir(folder.path());
        command
    };
    stage.send(&[event("a-1", "a", v2(5, "CHF")), event("b-1", "b", framed(9, &[2]))]).await;
    let (code, out, err) = ran(command(), "check --sample 5").await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains(r#"is {"cents":5,"currency":"CHF"}"#), "{out}");
    assert!(out.contains("does not have the schema 9 of the payload"), "{out}");
    registry.set_away(true);
    let (code, out, _) = ran(command(), "check").await;
    assert_ne!(code, Some(0), "{out}");
    assert!(out.contains("does not answer like one") && out.contains(registry.url()), "{out}");
}
