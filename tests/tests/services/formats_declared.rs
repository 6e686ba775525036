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

/// What `JsonConverter` and Spring write in quotes, rules and columns read alike.
#[tokio::test]
async fn columns_have_headers_and_keys_as_the_rules_read_them() {
    let columns: &[_] = &[
        ("tenant", "text from header:tenant"),
        ("at", "timestamptz from header:at"),
        ("gone", "text? from header:gone"),
        ("k", "text from key"),
    ];
    let quoted = |name: &str| {
        let headers = Record::default().header("id", format!("\"{ID}\"")).header(name, "\"Paid\"");
        let headers = headers.header("tenant", r#""ac\"me""#).header("gone", "null");
        headers.header("at", "\"2026-01-02T03:04:05Z\"").payload("{}")
    };
    let json = "org.apache.kafka.connect.json.JsonConverter";
    let long = "org.apache.kafka.connect.converters.LongConverter";
    for format in [Format::DebeziumOutbox, Format::SpringCloudStream] {
        let mut stage = stage(format, &[("Paid", columns)]).await;
        let (record, gone, key) = if format == Format::DebeziumOutbox {
            set_router(&mut stage, &[("header.converter", json), ("key.converter", long)]);
            (quoted("eventType").key(42_i64.to_be_bytes()), Value::Null, "42")
        } else {
            stage.config.events.rules =
                Some(serde_json::from_str(r#"{"id": "header:id"}"#).unwrap());
            (quoted("event_type").key("\"k\""), "null".into(), "\"k\"")
        };
        let running = handled(&stage, &[record]).await;
        let seen = columns_of(&stage).await;
        let wanted =
            json!({"tenant": "ac\"me", "at": "2026-01-02T03:04:05+00:00", "gone": gone, "k": key});
        assert_eq!(seen, [wanted], "{format:?}");
        let aggregate = "SELECT count(*) FROM seen WHERE aggregate = columns ->> 'k'";
        assert_eq!(stage.schema.number(aggregate).await, 1, "the aggregate is what the column has");
        running.stop().await;
    }
}

/// Without a key each is an aggregate of its own, named by its offset. The connector numbers changes; a TRUNCATE has a
/// place of its own.
#[tokio::test]
async fn a_duplicate_of_an_event_without_a_key_is_none_of_another_content() {
    let kinds = ["created", "updated", "truncated"].map(|done| format!("log.{done}"));
    let row: &[(&str, &str)] = &[("op", "text"), ("after", "jsonb?")];
    let handlers: Vec<_> = kinds.iter().map(|kind| (kind.as_str(), row)).collect();
    let stage = stage(Format::DebeziumRaw, &handlers).await;
    let change = |op: &str, number: u8, after: &str| {
        let order =
            if op == "t" { "null".to_owned() } else { format!(r#"{{"total_order":{number}}}"#) };
        Record::default().payload(format!(
            r#"{{"before":null,"after":{after},"source":{{"connector":"postgresql","ts_ms":1769851800000,"schema":"public","table":"log","txId":771,"lsn":2229311{number}}},"op":"{op}","ts_ms":1,"transaction":{order}}}"#
        ))
    };
    let first = [
        change("c", 1, r#"{"n":1}"#),
        change("c", 2, r#"{"n":2}"#),
        change("t", 3, "null"),
        change("u", 4, r#"{"n":4}"#),
    ];
    // By then the table has another column.
    let again = [
        change("c", 1, r#"{"n":1,"new":0}"#),
        first[1].clone(),
        first[2].clone(),
        change("u", 4, r#"{"n":4,"new":0}"#),
    ];
    let running = handled(&stage, &[&first[..], &again[..]].concat()).await;
    assert_eq!(columns_of(&stage).await.len(), 4);
    assert_eq!(stage.parked("").await, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_duplicate_of_an_own_event_without_a_key_is_recognised() {
    let stage = stage(Format::Own, &[("Paid", &[("n", "int4")])]).await;
    let record = |n: u8| {
        let record = Record::default().header("event_id", ID).header("event_type", "Paid");
        record.payload(format!("{{\"n\":{n}}}"))
    };
    let running = handled(&stage, &[record(1), record(1)]).await;
    // Later: events without a key have no order.
    stage.send(&[record(2)]).await;
    eventually(SOON, "another content", async || stage.parked("mismatch").await == 1).await;
    assert_eq!((columns_of(&stage).await, stage.parked("").await), (vec![json!({"n": 1})], 1));
    running.stop().await;
}

/// Debezium's `CloudEventsConverter` makes the id of the position alone, which these share.
#[tokio::test]
async fn changes_of_one_position_are_cloud_events_of_their_own() {
    const TYPE: &str = "io.debezium.connector.postgresql.DataChangeEvent";
    let stage = stage(Format::CloudEvents, &[(TYPE, &[("id", "int4? from /after/id")])]).await;
    let event = |key: u8, op: &str, lsn: &str, at: &str| {
        let after = if op == "d" { "null".to_owned() } else { format!(r#"{{"id":{key}}}"#) };
        Record::default().key(format!("{{\"id\":{key}}}")).payload(format!(
            r#"{{"id":"name:c;lsn:{lsn};txId:915","source":"/debezium/postgresql/c","specversion":"1.0","type":"{TYPE}","time":"{at}","datacontenttype":"application/json","iodebeziumop":"{op}","iodebeziumconnector":"postgresql","iodebeziumtable":"rows","iodebeziumtxtotalorder":null,"data":{{"before":null,"after":{after}}}}}"#
        ))
    };
    let at = "2026-11-27T23:06:02.420Z";
    let records = [
        // Two rows of one COPY, the halves of a changed key, a row at two incremental snapshots.
        event(21, "c", "1", at),
        event(22, "c", "1", at),
        event(21, "d", "2", at),
        event(23, "c", "2", at),
        event(23, "r", "null", at),
        event(23, "r", "null", "2026-11-27T23:07:00Z"),
    ];
    let running = handled(&stage, &[&records[..], &records[..]].concat()).await;
    let ids: Vec<Value> = columns_of(&stage).await.iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids, [json!(21), Value::Null, json!(22), json!(23), json!(23), json!(23)]);
    assert_eq!(stage.parked("").await, 0);
    running.stop().await;
}

/// When each event that was handled occurred, aggregate by aggregate.
async fn times(stage: &Stage) -> Vec<Option<String>> {
    let sql = "SELECT at FROM seen ORDER BY aggregate, ord";
    sqlx::query_scalar(sql).fetch_all(stage.schema.pool()).await.unwrap()
}

/// Numbers that are no time in their unit, and texts that are none.
#[tokio::test]
async fn a_time_is_read_in_its_unit_or_parks_its_event() {
    let paid = |n: usize, at: &str| {
        let record = Record::event(&format!("e-{n}"), "Paid", &format!("a-{n:02}"), "{}");
        record.header("occurred_at", at)
    };
    let stage = stage(Format::Own, &[("Paid", &[])]).await;
    let wrong = [
        "1767323045678901",
        "1767323045678901234",
        "20485",
        "1767323045",
        "253402300800000",
        "yesterday",
        "9999-12-31T23:59:60Z",
    ];
    let right = ["1767323045678", "2026-01-02T03:04:05.678901Z", "253402300799999", "0", "-1"];
    let records: Vec<Record> =
        (0..).zip(wrong.into_iter().chain(right)).map(|(n, at)| paid(n, at)).collect();
    let running = handled(&stage, &records).await;
    assert_eq!(stage.parked("undecodable").await, 7);
    let wanted = [
        "2026-01-02 03:04:05.678000",
        "2026-01-02 03:04:05.678000",
        "9999-12-31 23:59:59.999000",
        "1970-01-01 00:00:00.000000",
        "1969-12-31 23:59:59.999000",
    ];
    assert_eq!(times(&stage).await, wanted.map(|at| Some(at.to_owned())));
    let told = "SELECT count(*) FROM inbox_parked WHERE record::jsonb ->> 'error' LIKE '%`events.rules.occurred_at_unit`%'";
    assert_eq!(stage.schema.number(told).await, 5, "numbers");
    running.stop().await;
}

/// By the rules, and by the schema that a converter has written with a number.
#[tokio::test]
async fn times_of_debezium_are_read_in_microseconds() {
    let at: &[_] = &[("at", "timestamptz from header:at")];
    let with_schema = |name: &str, number: &str| {
        format!(
            r#"{{"schema":{{"type":"int64","optional":true,"name":"{name}","version":1}},"payload":{number}}}"#
        )
    };
    let record = |n: u8, at: String| {
        let id = format!("0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2c0{n}");
        let record = Record::default().key("k").header("id", id).header("eventType", "Paid");
        record.header("at", at).payload("{}")
    };
    for unit in [None, Some("micros")] {
        let mut stage =
            stage(Format::DebeziumOutbox, &[("Paid", if unit.is_none() { at } else { &[] })]).await;
        set_router(&mut stage, &[]);
        let mut rules = json!({"aggregate_type": "value:order", "occurred_at": "header:at"});
        let records = if let Some(unit) = unit {
            rules["occurred_at_unit"] = unit.into();
            vec![record(1, "1767323045678901".into())]
        } else {
            vec![
                record(1, with_schema("io.debezium.time.MicroTimestamp", "1767323045678901")),
                record(2, with_schema("io.debezium.time.NanoTimestamp", "1767323045678901999")),
                record(3, with_schema("io.debezium.time.Timestamp", "1767323045678")),
                record(4, with_schema("io.debezium.time.Date", "20485")),
            ]
        };
        stage.config.events.rules = Some(serde_json::from_value(rules).unwrap());
        let running = handled(&stage, &records).await;
        let seen = times(&stage).await;
        assert_eq!(seen.len(), records.len(), "{seen:?}");
        assert_eq!(seen[0].as_deref(), Some("2026-01-02 03:04:05.678000"), "{unit:?}");
        if unit.is_none() {
            let columns: Vec<Value> =
                columns_of(&stage).await.iter().map(|row| row["at"].clone()).collect();
            let wanted = [
                "2026-01-02T03:04:05.678901+00:00",
                "2026-01-02T03:04:05.678901+00:00",
                "2026-01-02T03:04:05.678+00:00",
                "2026-02-01T00:00:00+00:00",
            ];
            assert_eq!(columns, wanted.map(Value::from));
        }
        running.stop().await;
    }
}

/// Debezium writes `timestamp(6)` as microseconds and `date` as days; and times are exact in every year.
#[tokio::test]
async fn columns_take_times_in_the_unit_that_they_name() {
    let columns: &[_] = &[
        ("micros", "timestamptz from /u in micros"),
        ("nanos", "timestamptz in nanos"),
        ("day", "date in days"),
        ("last", "timestamptz"),
    ];
    let stage = stage(Format::Own, &[("Paid", columns)]).await;
    let paid = |id: &str, last: &str, micros: i64| {
        let payload =
            format!(r#"{{"u":{micros},"nanos":1767323045678901234,"day":20485,"last":"{last}"}}"#);
        Record::event(id, "Paid", id, &payload)
    };
    let records = [
        paid("a", "9999-12-31T23:59:59.999999Z", 1_767_323_045_678_901),
        paid("b", "0000-01-01T00:00:00.000001Z", -1),
        paid("c", "2026-01-01T00:00:00Z", 253_402_300_800_000_000),
    ];
    let running = handled(&stage, &records).await;
    let rows = columns_of(&stage).await;
    assert_eq!(rows.len(), 2);
    assert_eq!(
        rows[0],
        json!({"micros": "2026-01-02T03:04:05.678901+00:00", "nanos": "2026-01-02T03:04:05.678901+00:00",
               "day": "2026-02-01", "last": "9999-12-31T23:59:59.999999+00:00"})
    );
    assert_eq!(rows[1]["micros"], "1969-12-31T23:59:59.999999+00:00");
    assert_eq!(rows[1]["last"], "0001-01-01T00:00:00.000001+00:00 BC");
    let told = "SELECT count(*) FROM inbox_parked WHERE record::jsonb ->> 'error' LIKE '%or its unit, such as `in micros`%'";
    assert_eq!(stage.schema.number(told).await, 1);
    running.stop().await;
}

/// What `run` would park, `check --sample` says; and which records it would not tell apart.
#[tokio::test]
async fn check_shows_what_handlers_cannot_take_and_ids_that_come_twice() {
    let stage = stage(Format::Own, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let handlers = "[[handlers]]\nevent_type = \"Paid\"\ncolumns = { total = \"numeric\" }\nsql = \"INSERT INTO seen \
                    (columns) SELECT to_jsonb(total) FROM events\"\n";
    std::fs::write(folder.path().join("consumer.toml"), handlers).unwrap();
    let records = [
        Record::event("a", "Paid", "a", r#"{"total":1}"#),
        Record::event("b", "Paid", "b", "plain text"),
        Record::event("c", "Paid", "c", r#"{"total":"x"}"#),
        Record::event("a", "Paid", "a", r#"{"total":1}"#),
    ];
    stage.send(&records).await;
    let command = || {
        let mut command = worker(&stage);
        command.env("STOCK", "1").current_dir(folder.path());
        command
    };
    let (_, out, err) = ran(command(), "check --json --sample 9").await;
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let sample = told["sample"].as_array().unwrap();
    let why: Vec<&str> = sample.iter().map(|it| it["why_not"].as_str().unwrap_or("")).collect();
    assert!(why[0].is_empty() && why[3].is_empty(), "{why:?}");
    assert!(why[1].starts_with("parked as `undecodable`: the payload is not JSON"), "{why:?}");
    assert!(why[2].starts_with("parked as `undecodable`: column `total`"), "{why:?}");
    assert!(sample[1]["handler"].is_null() && !sample[0]["handler"].is_null(), "{out}");
    let first = format!("{}/0@0", stage.topic.name());
    assert_eq!((&sample[3]["same_id_as"], &sample[0]["same_id_as"]), (&json!(first), &Value::Null));
    let (_, out, _) = ran(command(), "check --sample 9").await;
    assert!(out.contains(&format!("/0@3 has the event id of {first}")), "{out}");
}
