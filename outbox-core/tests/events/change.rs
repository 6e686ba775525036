//! Changes of tables as Debezium sends them: those of a real one, and what else its connectors send.

use std::collections::BTreeSet;

use outbox_core::{Envelope, Preset, ReadError, Reader, Record, RuleKeys};

use crate::debezium;

fn reader() -> Reader {
    Reader::preset(Preset::DebeziumRaw, &RuleKeys::default(), crate::BYTES_MAX).unwrap()
}

fn read(record: &Record) -> Result<Envelope, ReadError> {
    reader().read("app.public.orders", 3, 7, record)
}

/// A change in PostgreSQL; `…` is what differs from case to case.
fn postgres(key: &str, op: &str, rows: &str, lsn: &str) -> Record {
    let source = format!(
        r#"{{"connector":"postgresql","name":"app","ts_ms":1769851800000,"snapshot":"false","db":"shop","schema":"public","table":"orders","txId":771,"lsn":{lsn}}}"#
    );
    crate::record(
        key,
        &[],
        &format!(r#"{{{rows},"source":{source},"op":"{op}","ts_ms":1769851801000}}"#),
    )
}

fn id(record: &Record) -> String {
    read(record).unwrap().event_id.to_string()
}

#[test]
fn changes_of_a_real_table_are_events_of_its_rows() {
    let records = debezium::records("raw-change-event");
    let mut ids = BTreeSet::new();
    for placed in &records {
        let event = reader().read(&placed.topic, 0, 0, &placed.record).unwrap();
        assert!(ids.insert(event.event_id), "{event:?}");
        assert_eq!(event.aggregate.aggregate_type(), "public.outbox_default");
        let key = String::from_utf8(placed.record.key.clone().unwrap().to_vec()).unwrap();
        assert_eq!(key, format!("{{\"id\":\"{}\"}}", event.aggregate.aggregate_id()));
        let payload = String::from_utf8(event.payload.unwrap().to_vec()).unwrap();
        let deleted = payload.starts_with(r#"{"op":"d","before":{"id":"#);
        let wanted = if deleted { "outbox_default.deleted" } else { "outbox_default.created" };
        assert_eq!(event.event_type, wanted);
        assert!(event.occurred_at_ms.is_some());
        // The same once more, processed later.
        let value = String::from_utf8(placed.record.payload.clone().unwrap().to_vec()).unwrap();
        let (start, _) = value.rsplit_once(",\"ts_ms\":").unwrap();
        let later = Record {
            payload: Some(format!("{start},\"ts_ms\":1}}").into()),
            ..placed.record.clone()
        };
        let again = reader().read(&placed.topic, 0, 9, &later).unwrap();
        assert_eq!(again, reader().read(&placed.topic, 0, 0, &placed.record).unwrap());
    }
    assert_eq!(ids.len(), 7);
}

#[test]
fn no_second_change_has_the_id_of_another() {
    let row = r#""before":null,"after":{"id":7}"#;
    let first = postgres(r#"{"id":7}"#, "c", row, "100");
    assert_eq!(id(&first), id(&first.clone()));
    let transaction = r#""transaction":{"id":"771:100","total_order":2,"data_collection_order":1},"before":null,"after":{"id":7}"#;
    let others = [
        postgres(r#"{"id":8}"#, "c", row, "100"),
        postgres(r#"{"id":7}"#, "d", row, "100"),
        postgres(r#"{"id":7}"#, "c", row, "101"),
        postgres(r#"{"id":7}"#, "r", row, "100"),
        postgres(r#"{"id":7}"#, "r", r#""before":null,"after":{"id":7,"n":1}"#, "100"),
        postgres(r#"{"id":7}"#, "c", transaction, "100"),
    ];
    let ids: BTreeSet<String> = others.iter().chain([&first]).map(id).collect();
    assert_eq!(ids.len(), 7);
}

/// A change in between may have been lost, and then the second snapshot repairs what the first one had read.
#[test]
fn a_row_is_an_event_of_its_own_each_time_that_a_snapshot_reads_it() {
    let read_at = |source: &str, processed: u32| {
        let source = format!(
            r#"{{"connector":"postgresql","snapshot":"incremental","schema":"public","table":"orders","txId":null,"lsn":null,{source}}}"#
        );
        let value = format!(
            r#"{{"before":null,"after":{{"id":7}},"source":{source},"op":"r","ts_ms":{processed}}}"#
        );
        id(&crate::record(r#"{"id":7}"#, &[], &value))
    };
    let first = || read_at(r#""ts_ms":5,"ts_ns":5000001"#, 6);
    assert_eq!(first(), first(), "a duplicate of the record");
    let others = [
        (r#""ts_ms":9,"ts_ns":9000001"#, 6),
        (r#""ts_ms":5,"ts_ns":5000002"#, 6),
        (r#""ts_ms":5"#, 6),
        (r#""ts_ms":5"#, 7),
    ];
    let ids: BTreeSet<String> = others
        .iter()
        .map(|(source, processed)| read_at(source, *processed))
        .chain([first()])
        .collect();
    assert_eq!(ids.len(), 5);
}

#[test]
fn each_connector_has_its_own_position() {
    let of = |source: &str| {
        let value = format!(
            r#"{{"before":null,"after":{{"id":7}},"source":{{{source},"db":"shop","table":"orders"}},"op":"c"}}"#
        );
        read(&crate::record(r#"{"id":7}"#, &[], &value))
    };
    let mysql = |row: u8| {
        of(&format!(
            r#""connector":"mysql","server_id":1,"file":"binlog.000003","pos":484,"row":{row}"#
        ))
        .unwrap()
    };
    let first = mysql(0);
    assert!(first.source_id.as_deref().unwrap().starts_with("binlog.000003/484/0/1/"), "{first:?}");
    assert_eq!(
        (first.event_type.as_str(), first.aggregate.to_string().as_str()),
        ("orders.created", "shop.orders/7")
    );
    assert_ne!(first.event_id, mysql(1).event_id);
    let server = of(
        r#""connector":"sqlserver","commit_lsn":"0027:1","change_lsn":"0027:2","event_serial_no":1"#,
    );
    assert!(server.unwrap().source_id.as_deref().unwrap().starts_with("0027:2/0027:1/1/"));
    for (source, told) in [
        (r#""connector":"oracle","scn":"1""#, "`source.connector`"),
        (r#""connector":"mysql""#, "no position in the database log"),
        (r#""connector":"postgresql","txId":1"#, "no position in the database log"),
    ] {
        let error = of(source).unwrap_err();
        assert_eq!(error.reason(), "missing_id");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn keys_with_schemas_and_of_several_columns_are_aggregates() {
    let row = r#""before":null,"after":{}"#;
    for (key, aggregate) in [
        (r#"{"schema":{"type":"struct"},"payload":{"id":"a\"b"}}"#, "a\"b"),
        (r#"{"tenant":"x","id":7}"#, r#"{"tenant":"x","id":7}"#),
        ("plain", "plain"),
    ] {
        let event = read(&postgres(key, "u", row, "1")).unwrap();
        assert_eq!(
            (event.event_type.as_str(), event.aggregate.aggregate_id()),
            ("orders.updated", aggregate)
        );
    }
    let wrapped = postgres(r#"{"id":7}"#, "u", row, "1");
    let value = String::from_utf8(wrapped.payload.clone().unwrap().to_vec()).unwrap();
    let value = format!(r#"{{"schema":{{"type":"struct"}},"payload":{value}}}"#);
    assert_eq!(read(&Record { payload: Some(value.into()), ..wrapped.clone() }), read(&wrapped));
}

#[test]
fn large_values_that_were_not_touched_are_named_and_left_out() {
    let row = r#""before":null,"after":{"id":7,"text":"__debezium_unavailable_value","note":"__debezium_unavailable_value!","bytes":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}"#;
    let event = read(&postgres(r#"{"id":7}"#, "u", row, "1")).unwrap();
    let payload = String::from_utf8(event.payload.unwrap().to_vec()).unwrap();
    let wanted = r#"{"op":"u","before":null,"after":{"id":7,"note":"__debezium_unavailable_value!"},"unavailable":["text","bytes"]}"#;
    assert_eq!(payload, wanted);
}

/// As Debezium's `UnchangedToastedPlaceholder` writes them for columns of lists, of UUIDs and of pairs.
#[test]
fn large_lists_that_were_not_touched_are_left_out_too() {
    let letters: Vec<String> =
        b"__debezium_unavailable_value".iter().map(ToString::to_string).collect();
    let letters = format!("[{}]", letters.join(","));
    for value in [
        r#"["__debezium_unavailable_value"]"#,
        r#"["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]"#,
        r#"["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]"#,
        r#"{"__debezium_unavailable_value":"__debezium_unavailable_value"}"#,
        r#""{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}""#,
        &letters,
    ] {
        let row = format!(r#""before":null,"after":{{"id":7,"large":{value}}}"#);
        let event = read(&postgres(r#"{"id":7}"#, "u", &row, "1")).unwrap();
        let payload = String::from_utf8(event.payload.unwrap().to_vec()).unwrap();
        let wanted = r#"{"op":"u","before":null,"after":{"id":7},"unavailable":["large"]}"#;
        assert_eq!(payload, wanted, "{value}");
    }
}

/// As the connector for PostgreSQL writes them by type (`UnchangedToastedPlaceholder`) and by `binary.handling.mode`.
#[test]
fn arrays_maps_and_bytes_that_were_not_touched_are_left_out_too() {
    let numbers =
        b"__debezium_unavailable_value".iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    let row = format!(
        r#""before":null,"after":{{"id":7,"texts":["__debezium_unavailable_value"],"numbers":[{numbers}],"ids":["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],"all_bytes":["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="],"hex":"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565","map":{{"__debezium_unavailable_value":"__debezium_unavailable_value"}},"two":["__debezium_unavailable_value","a"]}}"#
    );
    let event = read(&postgres(r#"{"id":7}"#, "u", &row, "1")).unwrap();
    let payload = String::from_utf8(event.payload.unwrap().to_vec()).unwrap();
    let wanted = r#"{"op":"u","before":null,"after":{"id":7,"two":["__debezium_unavailable_value","a"]},"unavailable":["texts","numbers","ids","all_bytes","hex","map"]}"#;
    assert_eq!(payload, wanted);
}

#[test]
fn what_debezium_sends_besides_is_no_event() {
    let reader = reader();
    let tombstone = Record { payload: None, ..crate::record(r#"{"id":7}"#, &[], "") };
    let transaction =
        r#"{"status":"BEGIN","id":"771:100","event_count":null,"data_collections":null,"ts_ms":1}"#;
    let schema = r#"{"source":{"connector":"mysql"},"ts_ms":1,"databaseName":"shop","ddl":"ALTER TABLE a","tableChanges":[]}"#;
    for (topic, record, what) in [
        ("app.public.orders", tombstone, "tombstone"),
        ("app.transaction", crate::record("{}", &[], transaction), "transaction"),
        ("app", crate::record("{}", &[], schema), "a change of a schema"),
        ("__debezium-heartbeat.app", crate::record("{}", &[], r#"{"ts_ms":1}"#), "heartbeat"),
    ] {
        let error = reader.read(topic, 0, 0, &record).unwrap_err();
        assert_eq!(error.reason(), "no_event", "{topic}: {error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

/// Each as `JsonConverter` writes it, without a schema and with one.
fn both_ways(value: &str) -> [Record; 2] {
    let wrapped = format!(r#"{{"schema":{{"type":"struct"}},"payload":{value}}}"#);
    [value, &wrapped].map(|value| crate::record("7", &[], value))
}

#[test]
fn what_is_no_event_is_told_by_its_whole_shape() {
    for (value, what) in [
        (
            r#"{"status":"END","id":"771:100","event_count":1,"data_collections":[{"data_collection":"public.orders","event_count":1}],"ts_ms":1}"#,
            "transaction",
        ),
        (
            r#"{"source":{"connector":"sqlserver"},"ts_ms":1,"databaseName":"shop","schemaName":"dbo","ddl":null,"tableChanges":[{"type":"CREATE"}]}"#,
            "a change of a schema",
        ),
        (r#"{"ts_ms":1}"#, "heartbeat"),
    ] {
        for record in both_ways(value) {
            let error = read(&record).unwrap_err();
            assert_eq!(error.reason(), "no_event", "{value}: {error}");
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}

#[test]
fn unwrapped_rows_are_never_ignored() {
    for value in [
        r#"{"id":7,"status":"paid"}"#,
        r#"{"id":7,"status":"BEGIN","event_count":2}"#,
        r#"{"id":7,"status":"OPEN","event_count":2,"data_collections":null}"#,
        r#"{"id":7,"ddl":"ALTER TABLE a"}"#,
        r#"{"id":7,"ddl":"ALTER TABLE a","source":"web","tableChanges":"none"}"#,
        r#"{"id":7,"ddl":null,"source":{},"ts_ms":1}"#,
        r#"{"id":7,"ts_ms":1}"#,
        "{}",
        "[1]",
        "7",
    ] {
        for record in both_ways(value) {
            let error = read(&record).unwrap_err();
            assert_eq!(error.reason(), "missing_type", "{value}: {error}");
            assert!(error.to_string().contains("ExtractNewRecordState"), "{error}");
        }
    }
}

#[test]
fn what_is_no_change_is_told() {
    let row = r#""before":null,"after":{}"#;
    let keyless = Record { key: None, ..postgres("", "c", row, "1") };
    for (record, reason, told) in [
        (crate::record("7", &[], "no JSON"), "invalid_json", "JsonConverter"),
        (crate::record("7", &[], r#"{"id":7}"#), "missing_type", "ExtractNewRecordState"),
        (postgres("7", "c", r#""before":null,"after":null"#, "1"), "invalid_payload", "`after`"),
        (postgres("7", "u", r#""before":{}"#, "1"), "invalid_payload", "`after`"),
        (postgres("7", "m", row, "1"), "unknown_operation", "not one of c, u, d, r and t"),
        (keyless.clone(), "missing_id", "`provide.transaction.metadata`"),
        (postgres("", "c", row, "1"), "missing_aggregate", "`events.rules.aggregate_id`"),
        (crate::record("7", &[], r#"{"op":"c","source":{}}"#), "missing_type", "`source.table`"),
    ] {
        let error = read(&record).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
    let value = String::from_utf8(keyless.payload.clone().unwrap().to_vec()).unwrap();
    let truncated = value.replace("\"op\":\"c\"", "\"op\":\"t\"");
    let event = read(&Record { payload: Some(truncated.into()), ..keyless }).unwrap();
    assert_eq!(
        (event.event_type.as_str(), event.aggregate.aggregate_id()),
        ("orders.truncated", "@3-7")
    );
}
