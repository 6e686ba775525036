//! What declared handlers are given of records of other systems, from a real Kafka into PostgreSQL.

use inbox_consumer::{
    Routes,
    config::{Declared, DeclaredMode, Format},
};
use outbox_core::DebeziumRouter;
use serde_json::{Value, json};
use tests::{Record, Running, SOON, Stage, eventually};

use super::commands::{ran, worker};

const TABLE: &str =
    "CREATE TABLE seen (ord bigserial PRIMARY KEY, aggregate text, at text, columns jsonb)";

/// A stage with a handler for each type, which writes down the columns that it is given.
async fn stage(format: Format, handlers: &[(&str, &[(&str, &str)])]) -> Stage {
    let mut stage = Stage::set("formats", 1).await;
    stage.schema.run(TABLE).await;
    stage.config.events.format = format;
    stage.config.handlers = handlers.iter().map(|(kind, columns)| handler(kind, columns)).collect();
    stage
}

fn handler(event_type: &str, columns: &[(&str, &str)]) -> Declared {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let named: Vec<String> = columns.iter().map(|(name, _)| format!("'{name}', {name}")).collect();
    Declared {
        event_type: event_type.into(),
        mode: DeclaredMode::Each,
        columns: columns.iter().map(owned).collect(),
        sql: format!(
            "INSERT INTO seen (aggregate, at, columns) SELECT aggregate_id, \
             to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), jsonb_build_object({}) FROM events",
            named.join(", ")
        ),
        ..Declared::default()
    }
}

/// Runs until all records are settled.
async fn handled(stage: &Stage, records: &[Record]) -> Running {
    let running = stage.start(Routes::default()).await;
    stage.send(records).await;
    let read = format!("SELECT count(*) FROM inbox_partitions WHERE watermark = {}", records.len());
    eventually(SOON, "all is read", async || stage.schema.number(&read).await == 1).await;
    running
}

/// The columns of each event that was handled, aggregate by aggregate.
async fn columns_of(stage: &Stage) -> Vec<Value> {
    let sql = "SELECT columns::text FROM seen ORDER BY aggregate, ord";
    let rows: Vec<String> = sqlx::query_scalar(sql).fetch_all(stage.schema.pool()).await.unwrap();
    rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

/// A row by an ad-hoc incremental snapshot, read at this millisecond: it has neither `lsn` nor `txId`.
fn snapshot_row(id: u8, v: &str, read_at: u64) -> Record {
    change(
        id,
        v,
        "r",
        &format!(r#""ts_ms":{read_at},"snapshot":"incremental","txId":null,"lsn":null"#),
        read_at,
    )
}

fn change(id: u8, v: &str, op: &str, source: &str, processed_at: u64) -> Record {
    let value = format!(
        r#"{{"before":null,"after":{{"id":{id},"v":"{v}"}},"source":{{"connector":"postgresql","schema":"public","table":"rows",{source}}},"op":"{op}","ts_ms":{processed_at}}}"#
    );
    Record::default().key(format!(r#"{{"id":{id}}}"#)).payload(value)
}

/// The second snapshot repairs a gap: the change back to what the first one had read was lost.
#[tokio::test]
async fn a_row_is_applied_at_each_snapshot_and_a_duplicate_of_its_record_is_not() {
    let row: &[_] = &[("id", "int4 from /after/id"), ("v", "text from /after/v")];
    let stage = stage(Format::DebeziumRaw, &[("rows.read", row), ("rows.updated", row)]).await;
    let first = snapshot_row(1, "A", 1_795_821_262_269);
    let updated = r#""ts_ms":1795821263403,"snapshot":"false","txId":1118,"lsn":23508360"#;
    let records = [
        first.clone(),
        snapshot_row(2, "same", 1_795_821_262_270),
        change(1, "B", "u", updated, 1_795_821_263_444),
        snapshot_row(1, "A", 1_795_821_274_333),
        snapshot_row(2, "same", 1_795_821_274_339),
        // As a producer that sends it again, or a tool that copies topics, gives it.
        first,
    ];
    let running = handled(&stage, &records).await;
    let seen: Vec<(Value, Value)> =
        columns_of(&stage).await.iter().map(|row| (row["id"].clone(), row["v"].clone())).collect();
    let wanted = [(1, "A"), (1, "B"), (1, "A"), (2, "same"), (2, "same")];
    assert_eq!(seen, wanted.map(|(id, v)| (Value::from(id), Value::from(v))));
    assert_eq!(stage.parked("").await, 0);
    running.stop().await;
}

const ID: &str = "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2c02";

/// Reads by Debezium's router, with these settings of the connector.
fn set_router(stage: &mut Stage, settings: &[(&str, &str)]) {
    let router = DebeziumRouter::new(settings.iter().copied()).unwrap();
    stage.config.events.debezium = Some(router);
    let rules = r#"{"aggregate_type": "value:order"}"#;
    stage.config.events.rules = Some(serde_json::from_str(rules).unwrap());
}

/// When each event that was handled occurred, aggregate by aggregate.
async fn times(stage: &Stage) -> Vec<Option<String>> {
    let sql = "SELECT at FROM seen ORDER BY aggregate, ord";
    sqlx::query_scalar(sql).fetch_all(stage.schema.pool()).await.unwrap()
}
