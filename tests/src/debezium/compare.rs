//! The same rows by both, byte for byte.

use super::{
    Scene,
    connector::{Connector, STEP},
    scene::{Read, by_id, run},
};
use crate::{Executable, RunningRelay, eventually};

/// A table, its rows and the settings that both have.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// `[debezium]` of the relay; the connector's are the same under Debezium's names.
    settings: &'static str,
    /// The columns of the table `outbox`.
    table: &'static str,
    /// What is inserted, a transaction each.
    rows: &'static [&'static str],
    /// How many records come of it.
    records: usize,
    /// The values of `route.by.field`.
    routes: &'static [&'static str],
}

const DEFAULT_TABLE: &str = "id uuid NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL, \
    aggregateid varchar(255), type varchar(255) NOT NULL, payload jsonb";

/// Orders and customers; one row is deleted by its own transaction, one has no payload, one no key.
const DEFAULT_ROWS: &[&str] = &[
    r#"INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'order-7', 'OrderCreated',
        '{"orderId": 7, "total": 12.50, "big": 9007199254740993, "note": "Grüße ☕ 😀 \u0001 \" \\ /", "lines": [{"sku": "A", "qty": 1}], "gone": null, "none": [], "e": 1e10, "small": 0.00001}')"#,
    r#"INSERT INTO outbox VALUES ('00000000-0000-4000-8000-000000000002', 'order', 'order-7', 'OrderPaid', '{"orderId": 7}');
        DELETE FROM outbox WHERE id = '00000000-0000-4000-8000-000000000002'"#,
    r#"INSERT INTO outbox VALUES (gen_random_uuid(), 'customer', '42', 'CustomerRenamed', '"a plain string"')"#,
    "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'order-8', 'OrderDeleted', NULL)",
    r#"INSERT INTO outbox VALUES (gen_random_uuid(), 'order', NULL, 'Keyless', '{"n": 1}')"#,
    r#"INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'order-9', 'MixedArray', '{"mixed": [1, "two", {"three": 3}], "empty": []}')"#,
    r#"INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'order-' || n, 'Counted', jsonb_build_object('n', n) FROM generate_series(1, 50) n"#,
    "DELETE FROM outbox",
];

const WIDE_TABLE: &str = "id bigserial PRIMARY KEY, kind text NOT NULL, owner text NOT NULL, event text NOT NULL, body json, \
    v2 smallint, v4 integer NOT NULL, v8 bigint, flag boolean, at timestamptz, ts timestamp, ts3 timestamp(3), day date, \
    doc jsonb, who uuid, code char(4), word varchar(20), dbl double precision, f4 real";

const WIDE_ROWS: &[&str] = &[
    r#"INSERT INTO outbox (kind, owner, event, body, v2, v4, v8, flag, at, ts, ts3, day, doc, who, code, word, dbl, f4)
        VALUES ('order', 'a', 'Made', '{"dup":1, "dup":2, "z":-0.0, "t":0.001, "l":3000000000, "o":{"x":[1.5,2]}}', -3, 7, 3000000000, true,
        '2026-01-02 03:04:05.6789+00', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.678', '2026-01-02', '{"b": 1, "a": "é\""}',
        '00000000-0000-4000-8000-0000000000aa', 'ab', 'wörd "q" 😀', 12.5, 0.1)"#,
    "INSERT INTO outbox (kind, owner, event, body, v4) VALUES ('order', 'ü', 'Bare', NULL, -1)",
    r#"INSERT INTO outbox (kind, owner, event, body, v2, v4, v8, flag, at, ts, ts3, day, doc, who, code, word, dbl, f4)
        VALUES ('order', 'a', 'Kept', '{}', 0, 3, -1, false,
        '2026-07-02 05:04:05+02', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '1969-12-31', '[1]',
        '00000000-0000-4000-8000-0000000000bb', 'abcd', '', 1e21, 1e-5)"#,
];

/// The cases.
pub const CASES: &[Case] = &[
    Case {
        name: "default",
        settings: "",
        table: DEFAULT_TABLE,
        rows: DEFAULT_ROWS,
        records: 56,
        routes: &["order", "customer"],
    },
    Case {
        name: "json",
        settings: "key_converter = \"json\"\nvalue_converter = \"json\"\ntopic_prefix = \"json\"",
        table: DEFAULT_TABLE,
        rows: DEFAULT_ROWS,
        records: 56,
        routes: &["order", "customer"],
    },
    Case {
        name: "expanded",
        settings: "value_converter = \"json\"\nvalue_converter_schemas_enable = false\ntable_expand_json_payload = true",
        table: DEFAULT_TABLE,
        rows: DEFAULT_ROWS,
        records: 56,
        routes: &["order", "customer"],
    },
    Case {
        name: "expanded-envelope",
        settings: "value_converter = \"json\"\ntable_expand_json_payload = true\nkey_converter = \"json\"\n\
            key_converter_schemas_enable = false\ntable_json_payload_null_behavior = \"optional_bytes\"\n\
            table_json_payload_empty_array_behavior = \"optional_string\"\n\
            table_fields_additional_placement = \"type:envelope:eventType\"\ntopic_prefix = \"expanded-envelope\"",
        table: DEFAULT_TABLE,
        rows: DEFAULT_ROWS,
        records: 56,
        routes: &["order", "customer"],
    },
    Case {
        name: "headers",
        settings: "route_by_field = \"kind\"\ntable_field_event_key = \"owner\"\ntable_field_event_type = \"event\"\n\
            table_field_event_payload = \"body\"\ntable_field_event_timestamp = \"ts\"\ntopic_prefix = \"headers\"\n\
            table_fields_additional_placement = \"event:header:event_type,id:header:number,v2:header,v4:header,v8:header,flag:header,at:header,ts:header,ts3:header,day:header,doc:header,who:header,code:header,word:header,dbl:header,f4:header\"",
        table: WIDE_TABLE,
        rows: WIDE_ROWS,
        records: 3,
        routes: &["order"],
    },
    Case {
        name: "envelope",
        settings: "route_by_field = \"kind\"\ntable_field_event_key = \"owner\"\ntable_field_event_type = \"event\"\n\
            table_field_event_payload = \"body\"\nvalue_converter = \"json\"\ntopic_prefix = \"envelope\"\n\
            route_topic_regex = \"(or)(?<rest>.*)\"\n\
            table_fields_additional_placement = \"event:envelope:eventType,v2:envelope,v4:envelope,v8:envelope,flag:envelope,at:envelope,ts:envelope,ts3:envelope,day:envelope,doc:envelope,who:envelope,code:envelope,word:envelope,dbl:envelope,f4:envelope\"",
        table: WIDE_TABLE,
        rows: WIDE_ROWS,
        records: 3,
        routes: &["order"],
    },
    Case {
        name: "bytes",
        settings: "value_converter = \"bytes\"\ntable_fields_additional_placement = \"part:partition\"",
        table: "id text PRIMARY KEY, aggregatetype text NOT NULL, aggregateid bigint NOT NULL, type text, payload bytea, part integer",
        rows: &[
            r"INSERT INTO outbox VALUES ('first', 'order', 7, NULL, '\x000102feff', 3)",
            r"INSERT INTO outbox VALUES ('00000000-0000-4000-8000-00000000000A', 'order', -7, 'T', NULL, 0)",
            r"INSERT INTO outbox VALUES ('third', 'order', 8, '', '\x', NULL)",
        ],
        records: 3,
        routes: &["order"],
    },
    Case {
        name: "tombstones",
        settings: "value_converter = \"json\"\nvalue_converter_schemas_enable = false\nroute_tombstone_on_empty_payload = true",
        table: "id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text, type text, payload text",
        rows: &[
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'a', 'T', NULL)",
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'b', 'T', E' \\t')",
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'c', NULL, 'plain')",
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', '', 'T', '{}')",
        ],
        records: 4,
        routes: &["order"],
    },
];

/// Has both write the records of a case, and compares them.
pub async fn compare(scene: &Scene, relay: &Executable, case: &Case) {
    let Case { name, settings, table, rows, records, routes } = *case;
    let schema = scene.postgres.schema().await;
    let rest = if name == "envelope" { "${rest}.$1" } else { "${routedByValue}" };
    let topics = |side: &str| -> Vec<String> {
        let filled = |route: &&str| match name {
            "envelope" => format!("{side}.{name}.{}.or", &route[2..]),
            _ => format!("{side}.{name}.{route}"),
        };
        routes.iter().map(filled).collect()
    };
    scene.topics(&[topics("theirs"), topics("ours")].concat()).await;
    schema.run(&format!("CREATE TABLE outbox ({table})")).await;
    let mut settings: toml::Table = settings.parse().expect("the settings are TOML");
    settings.insert("route_topic_replacement".into(), format!("ours.{name}.{rest}").into());
    let (config, mut command) = scene.relay(relay, &schema, &settings);
    outbox_relay::migrate(&config).await.expect("the tables are made");
    command.args(["adopt", "--table", &format!("{}.outbox", schema.name())]);
    run(command).await;
    if !settings.contains_key("topic_prefix") {
        settings.insert("topic_prefix".into(), name.into());
    }
    let slot = format!("slot_{}", schema.name());
    let topic = format!("theirs.{name}.{rest}");
    let connector = Connector::start(scene, &schema, (name, &slot), &settings, &topic).await;
    for row in rows {
        schema.run(&format!("BEGIN; {row}; COMMIT")).await;
    }
    let running = RunningRelay::start(config).await;
    let mut theirs = Vec::new();
    eventually(STEP, "Debezium has written its records", async || {
        theirs = scene.read(&topics("theirs")).await;
        theirs.len() >= records
    })
    .await;
    let mut ours = Vec::new();
    eventually(STEP, "the relay has written its records", async || {
        ours = scene.read(&topics("ours")).await;
        ours.len() >= records
    })
    .await;
    running.stop().await;
    connector.remove(&schema).await;
    assert_eq!((theirs.len(), ours.len()), (records, records), "{name}");
    let ours = by_id(ours);
    for (id, theirs) in by_id(theirs) {
        let ours =
            ours.get(&id).unwrap_or_else(|| panic!("{name}: the relay has not written {id}"));
        equal(case, &id, &theirs, ours, &settings);
    }
    println!("{name}: {records} records are the same");
}

fn equal(case: &Case, id: &str, theirs: &Read, ours: &Read, settings: &toml::Table) {
    let name = case.name;
    let text = |bytes: &Option<Vec<u8>>| {
        bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    assert_eq!(text(&ours.key), text(&theirs.key), "{name}, {id}: key");
    assert_eq!(text(&ours.value), text(&theirs.value), "{name}, {id}: value");
    assert_eq!((&ours.key, &ours.value), (&theirs.key, &theirs.value), "{name}, {id}");
    assert_eq!(ours.topic, theirs.topic.replace("theirs", "ours"), "{name}, {id}: topic");
    // Debezium's own headers are written where the prefix is configured; its run is another one with each start.
    let context = case.settings.contains("topic_prefix");
    let headers = |read: &Read| -> Vec<(String, Option<Vec<u8>>)> {
        let kept = read.headers.iter().filter(|(name, _)| {
            name != "__debezium.context.runId" && (context || !name.starts_with("__debezium."))
        });
        kept.cloned().collect()
    };
    assert_eq!(headers(ours), headers(theirs), "{name}, {id}: headers");
    let names = |read: &Read| read.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if context {
        assert_eq!(names(ours), names(theirs), "{name}, {id}: names of headers");
    }
    // Records without a key go anywhere.
    if theirs.key.is_some() {
        assert_eq!(ours.partition, theirs.partition, "{name}, {id}: partition");
    }
    if settings.contains_key("table_field_event_timestamp") && theirs.at_ms < 1_780_000_000_000 {
        assert_eq!(ours.at_ms, theirs.at_ms, "{name}, {id}: timestamp");
    }
}
